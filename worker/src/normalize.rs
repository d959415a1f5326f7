//! Turns the raw output of a run into a result that keeps the contract. Pure.
//!
//! The rule for a process: stdout holds exactly one JSON value. An object with a boolean `success` is a normalized
//! result; any other value is the data. Exit code 0 means success; 1 an invalid argument, 2 bad JSON, 3 an internal
//! fault. The run failed if output and exit code disagree, or if a process was left running: a caller must be able to
//! trust a success.

use openskill_proto::json;
use openskill_proto::limits::MAX_JSON_DEPTH;
use openskill_proto::v1::{Blame, ErrorCode, ExecuteResult, SkillError, skill_error::More};
use serde_json::value::RawValue;

use crate::process::protocol::Exit;
use crate::runner::RawOutput;

mod artifacts;
pub(crate) mod exception;
pub(crate) mod printed;
mod report;

use report::{Answer, Report, ReportedError};

/// The longest message and the longest text that are passed on. Longer ones are truncated.
const MAX_TEXT_BYTES: usize = 4096;

/// The largest details that are passed on. Larger ones are dropped, with a warning.
const MAX_DETAILS_BYTES: usize = 64 * 1024;

/// What else decides on a result.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct As {
    /// The end of stderr goes into the details of an error.
    pub(crate) with_stderr: bool,
    /// The skill's jail keeps the network from it.
    pub(crate) networkless: bool,
}

/// Judges a run. Artifacts in the result are as the skill wrote them, without ids: the caller applies the bounds of a call
/// to them.
pub(crate) fn normalize(raw: RawOutput, judged: As) -> ExecuteResult {
    match raw {
        RawOutput::Value(text) => of_value(&text),
        RawOutput::Answer { json, otherwise, refused } => {
            let result = of_answer(&json, otherwise);
            ExecuteResult { not_started: refused && !result.success, ..result }
        }
        RawOutput::Report { data, text, truncated } => {
            let result = of_value(&data);
            if result.success { ExecuteResult { text: cut(&text).to_owned(), truncated, ..result } } else { result }
        }
        RawOutput::Failed(error) => failed(error),
        RawOutput::NotStarted(error) => ExecuteResult { not_started: true, ..failed(error) },
        RawOutput::Process { stdout, stderr, exit, leftovers } => {
            with_reasons(of_process(&stdout, &stderr, exit, leftovers), &stderr, judged)
        }
    }
}

/// Adds to a failure what stderr says of its reason.
fn with_reasons(mut result: ExecuteResult, stderr: &[u8], judged: As) -> ExecuteResult {
    if let Some(error) = result.error.as_mut() {
        if judged.networkless {
            name_missing_network(error, stderr);
        }
        if judged.with_stderr {
            add_stderr(error, stderr);
        }
    }
    result
}

/// A failure that the skill did not report itself: found here or by a runner.
pub(crate) fn failed(error: SkillError) -> ExecuteResult {
    ExecuteResult { success: false, error: Some(error), ..ExecuteResult::default() }
}

fn broke(message: String) -> ExecuteResult {
    failed(SkillError::new(ErrorCode::ExecutionError, message))
}

fn succeeded(data: &RawValue) -> ExecuteResult {
    let data_json = bytes::Bytes::copy_from_slice(data.get().as_bytes());
    ExecuteResult { success: true, data_json, ..ExecuteResult::default() }
}

/// An in-process function's value is always data, and so is what was picked out of an answer; a fault in it is the skill's.
fn of_value(text: &str) -> ExecuteResult {
    match one_value(text) {
        Ok(value) => succeeded(value),
        Err(reason) => broke(format!("the answer {reason}")),
    }
}

/// A server may answer as a script prints (see [`Answer::of_server`]). The reason it gives for a failure overrides the status;
/// its claim of success does not.
fn of_answer(text: &str, otherwise: Option<SkillError>) -> ExecuteResult {
    let answer = one_value(text).map(|value| (value, Answer::of_server(value)));
    match (answer, otherwise) {
        (Ok((_, Answer::Report(report))), otherwise) if otherwise.is_none() || report.outcome.is_err() => {
            of_report(&report, 0)
        }
        (_, Some(error)) => failed(error),
        (Ok((_, Answer::Broken(reason))), None) => broke(format!("the server's answer {reason}")),
        (Ok((value, _)), None) => succeeded(value),
        (Err(reason), None) => broke(format!("the server's answer {reason}")),
    }
}

/// The exit code of a process that ended by itself, with all that it started; or the reason of the failure.
fn exit_code(exit: Exit, leftovers: u32) -> Result<i32, String> {
    match exit {
        Exit::Signal(signal) => Err(format!("the skill was ended by {}", signal_name(signal))),
        _ if leftovers > 0 => Err(format!(
            "the skill left {leftovers} process(es) running when it ended; they were killed: \
             a skill must wait for all it starts"
        )),
        Exit::Code(code) => Ok(code),
    }
}

fn of_process(stdout: &[u8], stderr: &[u8], exit: Exit, leftovers: u32) -> ExecuteResult {
    let code = match exit_code(exit, leftovers) {
        Ok(code) => code,
        Err(reason) => return broke(reason),
    };
    let Ok(text) = std::str::from_utf8(without_mark(stdout)) else {
        return broke(format!("the skill's output is not UTF-8 (exit code {code})"));
    };
    if text.trim_ascii().is_empty() {
        let look = match exception::last_line(stderr).filter(|_| code != 0) {
            Some(exception) => format!(": {exception}"),
            None if code == 0 => String::new(),
            None => "; what it wrote to stderr is in its worker's log at level debug".to_owned(),
        };
        return broke(format!("the skill printed nothing on stdout (exit code {code}){look}"));
    }
    match one_value(text) {
        Ok(value) => match Answer::read(value) {
            Answer::Report(report) => of_report(&report, code),
            Answer::Bare => of_bare_value(value, code),
            Answer::Broken(reason) => broke(format!("the skill's output {reason} (exit code {code})")),
        },
        Err(reason) => broke(format!("the skill's output {reason} (exit code {code})")),
    }
}

/// Output without the byte order mark that some programs begin with.
fn without_mark(stdout: &[u8]) -> &[u8] {
    stdout.strip_prefix("\u{feff}".as_bytes()).unwrap_or(stdout)
}

/// Exactly one JSON value and nothing after it, or why not. Whoever reads an object with a repeated key drops one of its
/// values without a word.
fn one_value(text: &str) -> Result<&RawValue, String> {
    if json::depth(text.as_bytes()) > MAX_JSON_DEPTH {
        return Err(format!("nests deeper than {MAX_JSON_DEPTH} levels"));
    }
    let mut values = serde_json::Deserializer::from_str(text).into_iter::<&RawValue>();
    match values.next() {
        Some(Ok(value)) if text[values.byte_offset()..].trim_ascii().is_empty() => {
            match json::repeated_key(value.get()) {
                Some(path) => Err(format!("has a key more than once, at '{}': keep only one", cut(&path))),
                None => Ok(value),
            }
        }
        Some(Ok(_)) => Err("holds more than one JSON value: a skill prints exactly one".to_owned()),
        Some(Err(error)) => Err(format!("is not valid JSON: {error}")),
        None => Err("is empty".to_owned()),
    }
}

fn of_report(report: &Report<'_>, code: i32) -> ExecuteResult {
    let mut result = match &report.outcome {
        Ok(_) if code != 0 => return broke(format!("the skill reported success but its exit code was {code}")),
        Ok(data) => succeeded(data.unwrap_or(RawValue::NULL)),
        Err(reported) => of_reported_error(reported),
    };
    result.text = cut(&report.text).to_owned();
    result.version = cut(&report.version).to_owned();
    result.truncated = report.truncated;
    if let Some(listed) = report.artifacts {
        let (artifacts, warning) = artifacts::read(listed);
        result.artifacts = artifacts;
        result.warnings.extend(warning);
    }
    result
}

fn of_reported_error(reported: &ReportedError<'_>) -> ExecuteResult {
    let (code, unknown) = reported.code();
    let mut error = SkillError::new(code, cut(&reported.message));
    if matches!(error.blame(), Blame::Worker | Blame::Gateway) {
        // It ran well enough to report the error: the worker is not at fault.
        error = error.with_blame(Blame::Skill);
    }
    let mut warnings = Vec::new();
    if let Some(name) = unknown {
        warnings.push(format!("the skill gave the unknown error code '{}'", cut(&name)));
    }
    match reported.details {
        Some(details) if details.get().len() > MAX_DETAILS_BYTES => {
            warnings.push(format!("the error's details were over {MAX_DETAILS_BYTES} bytes and were dropped"));
        }
        Some(details) => error = error.with_details(details.get()),
        None => {}
    }
    ExecuteResult { warnings, ..failed(error) }
}

fn of_bare_value(value: &RawValue, exit: i32) -> ExecuteResult {
    let code = match exit {
        0 => return succeeded(value),
        1 => ErrorCode::InvalidArgument,
        2 => ErrorCode::InvalidJson,
        3 => ErrorCode::Internal,
        _ => ErrorCode::ExecutionError,
    };
    let error = SkillError::new(code, format!("the skill ended with exit code {exit}"));
    let details = format!("{{\"output\": {}}}", value.get());
    failed(if details.len() > MAX_DETAILS_BYTES { error } else { error.with_details(details) })
}

/// Says that the network was missing, if the failure shows it.
fn name_missing_network(error: &mut SkillError, stderr: &[u8]) {
    let stderr = String::from_utf8_lossy(stderr);
    if exception::lacks_network(&error.message) || exception::lacks_network(&stderr) {
        error.message.push_str("; the skill has no network: grant it in its manifest, such as `network: [443]`");
    }
}

/// Only for debugging: stderr may hold paths and secrets.
fn add_stderr(error: &mut SkillError, stderr: &[u8]) {
    if stderr.is_empty() {
        return;
    }
    let mut details = match &error.more {
        Some(More::DetailsJson(text)) => serde_json::from_str(text).unwrap_or_default(),
        _ => serde_json::Map::new(),
    };
    details.insert("stderr".to_owned(), String::from_utf8_lossy(stderr).into());
    error.more = Some(More::DetailsJson(serde_json::Value::Object(details).to_string()));
}

/// At most `MAX_TEXT_BYTES`, cut between two characters.
fn cut(text: &str) -> &str {
    &text[..text.floor_char_boundary(MAX_TEXT_BYTES)]
}

fn signal_name(signal: i32) -> String {
    let name = match signal {
        6 => "SIGABRT",
        9 => "SIGKILL (killed, or out of memory)",
        11 => "SIGSEGV",
        13 => "SIGPIPE",
        15 => "SIGTERM",
        24 => "SIGXCPU (over its CPU time)",
        25 => "SIGXFSZ (wrote a file over the limit)",
        _ => return format!("signal {signal}"),
    };
    name.to_owned()
}

#[cfg(test)]
mod tests;
