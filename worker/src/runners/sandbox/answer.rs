//! Formats calls' results as JSON.

use std::time::Duration;

use openskill_proto::limits::MAX_OUTPUT_BYTES;
use openskill_proto::v1::{Artifact, Blame, ErrorCode, SkillError};
use openskill_sandbox::forkserver::KeptProcessEnd;
use openskill_sandbox::protocol::Exit;
use openskill_sandbox::sessions::book::{SessionBounds, SessionRefusal, SessionSummary, Terms};
use serde_json::json;

use super::packages::Provided;
use crate::sessions::cell::{CellOutcome, Interruption, Loss, Ran};
use crate::sessions::drive::{Outcome, State};
use crate::sessions::line::{CellEnd, Exception};
use crate::sessions::packages::Package;
use crate::sessions::tally::SessionCounts;

/// How long a caller should wait before it retries, in milliseconds.
const RETRY_AFTER_MS: u64 = 1000;

/// Formats a cell's result. `artifacts`: those that the worker collected, regardless of what the process claims.
/// `time`: the timeout that the call requested.
pub(super) fn cell_result(
    outcome: &Outcome,
    artifacts: &[Artifact],
    number: u64,
    session_id: Option<&str>,
    time: Duration,
) -> String {
    let Outcome { ran, state } = outcome;
    let Ran { stdout, stderr, end, interrupted, took } = ran;
    let none = CellEnd::default();
    let ended = match end {
        CellOutcome::Ended(ended) => ended,
        CellOutcome::Lost(_) => &none,
    };
    let error = error(ran, *state, time, session_id.is_some());
    let failed = error.is_some() || ended.return_code != 0 || matches!(end, CellOutcome::Lost(_));
    let mut notes = ended.notes.clone();
    for (name, printed) in [("stdout", stdout), ("stderr", stderr)] {
        if printed.dropped > 0 {
            notes.push(format!("{} more bytes of {name} were left out", printed.dropped));
        }
    }
    let missing = ended.artifacts.len().saturating_sub(artifacts.len());
    if missing > 0 {
        notes.push(format!("{missing} artifacts are missing: the call's warnings may say why"));
    }
    let artifacts: Vec<_> = artifacts
        .iter()
        .map(|it| json!({"name": it.name, "media_type": it.media_type, "size_bytes": it.size_bytes}))
        .collect();
    json!({
        "stdout": stdout.text,
        "stderr": stderr.text,
        "return_code": i32::from(failed),
        "result": ended.result,
        "error": error,
        "artifacts": artifacts,
        "notes": notes,
        "execution_count": number,
        "execution_ms": took.as_millis() as u64,
        "timed_out": *interrupted == Some(Interruption::Time),
        "session_id": session_id,
        "session_state": state,
    })
    .to_string()
}

/// Formats an installation's result: the packages that the session has now.
pub(super) fn install_result(session_id: &str, state: State, already: bool, all: &[Provided]) -> String {
    let packages: Vec<_> = all
        .iter()
        .map(|it| {
            let Package { name, version, sha256, .. } = &it.package;
            let imports = it.has_modules.then_some(it.fault.is_none());
            json!({
                "name": name,
                "version": version,
                "sha256": sha256,
                "requested": it.requested,
                "imports": imports,
                "import_error": it.fault,
            })
        })
        .collect();
    let left_out = all.iter().filter(|it| it.left_out > 0);
    let note = |it: &Provided| {
        let Package { name, .. } = &it.package;
        format!("{} files of {name} that imports do not use, such as programs, were left out", it.left_out)
    };
    json!({
        "session_id": session_id,
        "session_state": state,
        "already": already,
        "packages": packages,
        "notes": left_out.map(note).collect::<Vec<_>>(),
    })
    .to_string()
}

/// Returns the code's exception, or why the code did not complete. `named`: the session has a name, so it should
/// have been kept.
fn error(ran: &Ran, state: State, time: Duration, named: bool) -> Option<Exception> {
    let too_much = || format!("the code printed more than {MAX_OUTPUT_BYTES} bytes");
    let (name, reason, traceback) = match &ran.end {
        CellOutcome::Ended(ended) => {
            let (name, reason) = match ran.interrupted {
                None => return ended.error.clone(),
                Some(Interruption::Time) => ("TimeoutError", over(ran.took, time)),
                Some(Interruption::Output) => ("OutputTooLarge", too_much()),
                Some(Interruption::Dropped) => ("Cancelled", "the call was cancelled".to_owned()),
            };
            let traceback = ended.error.as_ref().map(|it| it.traceback.clone());
            (name, format!("{reason}, and was interrupted"), traceback.unwrap_or_default())
        }
        CellOutcome::Lost(loss) => {
            let killed = |reason: String| format!("{reason}, did not stop when it was interrupted, and was killed");
            let (name, reason) = match loss {
                Loss::Process(end) => ("ProcessEnded", ended_with(end)),
                Loss::HungUp => ("ProcessEnded", "the code closed its session's own connection".to_owned()),
                Loss::Unresponsive if ran.interrupted == Some(Interruption::Output) => {
                    ("OutputTooLarge", killed(too_much()))
                }
                Loss::Unresponsive => ("TimeoutError", killed(over(ran.took, time))),
                Loss::Closed => ("SessionClosed", "the session was closed while the code ran".to_owned()),
            };
            (name, reason, String::new())
        }
    };
    let rest = match state {
        _ if !named => "",
        State::Lost => "; the state of the session is lost",
        State::New | State::Kept => "; the session keeps its state",
    };
    Some(Exception { name: name.to_owned(), message: reason + rest, traceback })
}

fn over(took: Duration, time: Duration) -> String {
    let limit = if took < time { "the call's deadline" } else { "its timeout" };
    format!("the code ran for {:.1} s and exceeded {limit}", took.as_secs_f64())
}

fn ended_with(end: &KeptProcessEnd) -> String {
    match end {
        KeptProcessEnd::Exceeded(reason) => reason.clone(),
        KeptProcessEnd::Exited(Exit::Code(code)) => format!("the code ended its own process with exit code {code}"),
        KeptProcessEnd::Exited(Exit::Signal(signal)) => format!("the process was killed by signal {signal}"),
        KeptProcessEnd::NotStarted | KeptProcessEnd::Unknown => "the process ended".to_owned(),
    }
}

/// Returns the error of a call that gets no session.
pub(super) fn session_refusal(refusal: SessionRefusal, bounds: SessionBounds, terms: Terms) -> SkillError {
    let message = match refusal {
        SessionRefusal::Busy => {
            "another call runs in this session: wait for its end, or use another session_id".to_owned()
        }
        SessionRefusal::CallerFull => {
            format!("all {} sessions that a caller may have are in use: wait for one, or close one", bounds.per_caller)
        }
        SessionRefusal::MemoryFull => {
            let most = terms.together;
            format!(
                "there is memory for {most} sessions of a caller, and no session can make room: close one with close_session"
            )
        }
        SessionRefusal::PrincipalFull => {
            let most = bounds.per_principal();
            format!("all {most} sessions that the caller may have on a worker are in use: wait for one, or close one")
        }
        SessionRefusal::WorkerFull => {
            format!("the worker has {} sessions, which is the maximum: try again later", bounds.per_worker)
        }
        SessionRefusal::Closed => return SkillError::unavailable("the worker is shutting down"),
    };
    SkillError::new(ErrorCode::Overloaded, message).with_blame(Blame::Caller).with_retry_after_ms(RETRY_AFTER_MS)
}

pub(super) fn no_such_session(name: &str) -> SkillError {
    let message = format!("there is no session '{name}': it was never used, was closed, or has expired");
    SkillError::new(ErrorCode::NotFound, message)
}

pub(super) fn session_list(sessions: &[SessionSummary]) -> String {
    let sessions: Vec<_> = sessions
        .iter()
        .map(|it| {
            json!({
                "session_id": it.name,
                "status": if it.busy { "busy" } else { "idle" },
                "execution_count": it.cells,
                "age_seconds": it.age.as_secs(),
                "idle_seconds": it.idle.as_secs(),
            })
        })
        .collect();
    json!({ "count": sessions.len(), "sessions": sessions }).to_string()
}

pub(super) fn stats(counts: SessionCounts, sessions: usize) -> String {
    let SessionCounts { cells, failed, timed_out, started, lost, total, longest, last_start } = counts;
    let ms = |time: Duration| (time.as_secs_f64() * 1e5).round() / 100.0;
    let mean = u32::try_from(cells).ok().filter(|it| *it > 0).map(|cells| ms(total / cells));
    json!({
        "total_executions": cells,
        "successful_executions": cells - failed,
        "failed_executions": failed,
        "timeouts": timed_out,
        "sessions_started": started,
        "lost_sessions": lost,
        "active_sessions": sessions,
        "average_execution_ms": mean,
        "longest_execution_ms": ms(longest),
        "last_session_start_ms": last_start.map(ms),
    })
    .to_string()
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;
    use crate::sessions::line::Label;
    use crate::sessions::output::Printed;

    fn data(end: CellOutcome, interrupted: Option<Interruption>, state: State) -> Value {
        let took = Duration::from_secs(30);
        let printed = |text: &str, dropped| Printed { text: text.to_owned(), dropped };
        let ran = Ran { stdout: printed("out", 0), stderr: printed("", 7), end, interrupted, took };
        serde_json::from_str(&cell_result(&Outcome { ran, state }, &[], 3, Some("s"), took)).unwrap()
    }

    #[test]
    fn an_ordinary_end() {
        let ended = CellEnd { result: Some("5".to_owned()), ..CellEnd::default() };
        let told = data(CellOutcome::Ended(ended), None, State::Kept);
        assert_eq!((&told["stdout"], &told["return_code"], &told["result"]), (&json!("out"), &json!(0), &json!("5")));
        assert_eq!((&told["error"], &told["session_state"]), (&Value::Null, &json!("kept")));
        assert_eq!((&told["execution_count"], &told["session_id"]), (&json!(3), &json!("s")));
        assert_eq!(told["notes"], json!(["7 more bytes of stderr were left out"]));
    }

    #[test]
    fn artifacts_are_those_of_the_call_and_not_what_the_process_claims() {
        let took = Duration::from_secs(1);
        let claimed = Label { name: "../../claimed".to_owned(), ..Label::default() };
        let ended = CellEnd { artifacts: vec![claimed; 3], ..CellEnd::default() };
        let printed = || Printed { text: String::new(), dropped: 0 };
        let ran = Ran { stdout: printed(), stderr: printed(), end: CellOutcome::Ended(ended), interrupted: None, took };
        let there = Artifact {
            name: "a.csv".to_owned(),
            media_type: "text/csv".to_owned(),
            size_bytes: 4,
            ..Artifact::default()
        };
        let told = cell_result(&Outcome { ran, state: State::New }, &[there], 1, None, took);
        let told: Value = serde_json::from_str(&told).unwrap();
        assert_eq!(told["artifacts"], json!([{"name": "a.csv", "media_type": "text/csv", "size_bytes": 4}]));
        assert!(told["notes"][0].as_str().unwrap().starts_with("2 artifacts are missing"), "{told}");
    }

    #[test]
    fn an_end_that_the_code_did_not_choose_has_a_reason_and_a_return_code() {
        let lost = |loss| CellOutcome::Lost(loss);
        let exited = KeptProcessEnd::Exited(Exit::Code(7));
        for (end, interrupted, state, name, word) in [
            (
                CellOutcome::Ended(CellEnd::default()),
                Some(Interruption::Time),
                State::Kept,
                "TimeoutError",
                "keeps its state",
            ),
            (
                CellOutcome::Ended(CellEnd::default()),
                Some(Interruption::Output),
                State::New,
                "OutputTooLarge",
                "10485760",
            ),
            (lost(Loss::Unresponsive), Some(Interruption::Time), State::Lost, "TimeoutError", "is lost"),
            (lost(Loss::Process(exited)), None, State::Lost, "ProcessEnded", "exit code 7"),
            (lost(Loss::HungUp), None, State::Lost, "ProcessEnded", "connection"),
            (lost(Loss::Closed), None, State::Lost, "SessionClosed", "closed"),
        ] {
            let told = data(end, interrupted, state);
            assert_eq!((told["return_code"].clone(), &told["error"]["name"]), (json!(1), &json!(name)), "{told}");
            assert!(told["error"]["message"].as_str().unwrap().contains(word), "{told}");
            assert_eq!(told["session_state"], json!(state));
        }
    }

    #[test]
    fn a_refusal_is_the_callers_to_act_on() {
        let hour = Duration::from_secs(3600);
        let bounds = SessionBounds { per_caller: 8, per_worker: 32, idle: hour, age: hour };
        let terms = Terms { maker: 1, together: 5 };
        let all = [
            SessionRefusal::Busy,
            SessionRefusal::CallerFull,
            SessionRefusal::MemoryFull,
            SessionRefusal::PrincipalFull,
            SessionRefusal::WorkerFull,
        ];
        for refusal in all {
            let error = session_refusal(refusal, bounds, terms);
            assert!(error.code() == ErrorCode::Overloaded && !error.is_status() && error.retryable, "{error:?}");
        }
    }
}
