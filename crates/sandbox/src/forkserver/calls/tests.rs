//! Tests of the phases of a fork server.

use std::path::PathBuf;

use super::*;

fn ready() -> Notice {
    Notice::Ready(Loaded { files: vec![PathBuf::from("/a.py")], not_preloaded: Vec::new() })
}

fn ended(call: u64) -> Notice {
    Notice::Ended { call, report: RunReport::Ended { exit: Exit::Code(0), leftovers: 0, exceeded: None } }
}

fn not_started(call: u64) -> Notice {
    Notice::Ended { call, report: RunReport::NotStarted { errno: 2 } }
}

fn server_ended(running: &[u64]) -> Notice {
    Notice::ServerEnded { running: running.to_vec() }
}

/// Creates a fork server whose supervisor has sent these notices.
fn after(said: impl IntoIterator<Item = Notice>) -> Calls {
    let calls = Calls::new();
    said.into_iter().for_each(|it| calls.hear(it).unwrap());
    calls
}

#[test]
fn a_notice_that_its_phase_does_not_allow_is_an_error() {
    let refused = |calls: Calls, notice: Notice| {
        let told = format!("{notice:?}");
        let error = calls.hear(notice).expect_err(&told);
        assert_eq!(error.kind(), std::io::ErrorKind::InvalidData, "{told}");
    };
    for notice in [ended(1), not_started(1), server_ended(&[1])] {
        refused(after([]), notice);
    }
    for notice in [ready(), not_started(ONLY_CALL), not_started(1)] {
        refused(after([ready()]), notice);
    }
    for notice in [ready(), server_ended(&[]), not_started(ONLY_CALL)] {
        refused(after([ready(), server_ended(&[1])]), notice);
    }
    let over = Arc::new(Calls::new());
    drop(Guard(Arc::clone(&over)));
    assert!([ready(), ended(1), server_ended(&[])].into_iter().all(|it| over.hear(it).is_err()));
}

#[test]
fn a_fork_server_serves_until_it_has_ended_and_its_calls_go_on() {
    let calls = after([ready(), ended(1), server_ended(&[2]), ended(2)]);
    assert!(calls.is_ready() && !calls.is_open());
    assert_eq!(calls.loaded(|it| it.files.clone()), [PathBuf::from("/a.py")]);
}

#[test]
fn a_fork_server_that_ended_before_it_was_ready_is_not_ready() {
    for end in [server_ended(&[]), not_started(ONLY_CALL)] {
        let calls = after([end]);
        assert!(!calls.is_ready() && !calls.is_open() && calls.loaded(|it| it.files.clone()).is_empty());
    }
}

#[tokio::test]
async fn calls_of_a_fork_server_that_was_ended_at_once_learn_why() {
    let exceeded = Some("together they used more memory than they may".to_owned());
    let report = RunReport::Ended { exit: Exit::Signal(9), leftovers: 0, exceeded };
    let calls = Arc::new(after([ready()]));
    let mut end = calls.open(1, Some(Box::new(()))).unwrap();
    calls.hear(Notice::Ended { call: ONLY_CALL, report: report.clone() }).unwrap();
    drop(Guard(calls));
    assert!(matches!(end.try_recv(), Ok(CallEnd::Report(told)) if told == report));
}

#[test]
fn a_kept_process_that_does_not_end_closes_its_fork_server_and_ends_no_other() {
    for began in [true, false] {
        let calls = after([ready()]);
        let (mut stuck, mut other) = (calls.open(1, None).unwrap(), calls.open(2, None).unwrap());
        calls.kill_kept(1, began);
        assert!(matches!(calls.orders().as_deref(), Some([Order::Kill(1)])));
        let now = Instant::now();
        calls.check_overdue(now);
        assert!(calls.is_open() && calls.count() == 2, "it has time");
        calls.check_overdue(now + STUCK);
        assert!(!calls.is_open() && calls.count() == 1 && calls.open(3, None).is_none());
        assert!(stuck.try_recv().is_err() && calls.orders().is_some(), "the fork server goes on for the other");
        assert!(matches!(other.try_recv(), Err(oneshot::error::TryRecvError::Empty)));
        calls.hear(ended(2)).unwrap();
        assert!(matches!(other.try_recv(), Ok(CallEnd::Report(_))) && calls.orders().is_none(), "it was the last");
    }
}

#[test]
fn a_call_that_does_not_end_still_ends_its_fork_server() {
    let calls = after([ready()]);
    let _end = calls.open(1, None).unwrap();
    calls.kill(1);
    calls.check_overdue(Instant::now() + PATIENCE);
    assert!(calls.orders().is_none());
}
