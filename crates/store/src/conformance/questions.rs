//! Questions of operations and tasks: one answer counts, and a call that runs becomes an operation.

use super::steps::{claim_one, end, operation, recover, submit};
use crate::Store;
use crate::operation::{NewOperation, State};
use crate::operations::Fence;
use crate::questions::StoredQuestion;
use crate::tasks::{RunningTask, TaskRetention};

/// Runs all checks, each on an empty store of its own.
pub(super) async fn check_all(open: impl AsyncFn() -> Store) {
    takes_one_answer(&open().await).await;
    adopts_calls_that_run(&open().await).await;
}

fn question(request_id: &str, number: i64) -> StoredQuestion {
    StoredQuestion { request_id: request_id.to_owned(), number, question: b"question".to_vec(), answer: Vec::new() }
}

async fn ids(store: &Store, id: &str) -> Vec<String> {
    store.questions(id).await.unwrap().into_iter().map(|it| it.request_id).collect()
}

async fn takes_one_answer(store: &Store) {
    submit(store, "a", "A").await;
    let first = claim_one(store).await;
    assert_eq!(store.start(first.fence()).await, Ok(true));
    for number in [2, 1, 2] {
        store.ask(first.fence(), &question(&format!("q{number}"), number)).await.unwrap();
    }
    assert_eq!(ids(store, "a").await, ["q1", "q2"]);
    assert_eq!(store.find_question("q1").await.unwrap().unwrap().operation_id, "a");
    assert_eq!((store.answer("q1", b"yes").await, store.answer("q1", b"no").await), (Ok(true), Ok(false)));
    assert_eq!(store.answer("none", b"yes").await, Ok(false));
    assert_eq!(store.questions("a").await.unwrap()[0].answer, b"yes");
    store.reopen_question("q1").await.unwrap();
    // Another gateway takes the run over: the questions stay open, and the first gateway asks no more.
    assert_eq!(recover(store).await, 1);
    assert_eq!(ids(store, "a").await, ["q1", "q2"]);
    let second = claim_one(store).await;
    store.ask(first.fence(), &question("late", 3)).await.unwrap();
    assert_eq!(store.answer("q1", b"again").await, Ok(true));
    store.close_question("q1").await.unwrap();
    assert_eq!(ids(store, "a").await, ["q2"]);
    // A new run asks anew.
    assert_eq!(store.start(second.fence()).await, Ok(true));
    assert_eq!((ids(store, "a").await, store.answer("q2", b"yes").await), (Vec::new(), Ok(false)));
    store.ask(second.fence(), &question("q4", 4)).await.unwrap();
    assert_eq!(store.finish(second.fence(), &end(State::Succeeded, b"")).await, Ok(true));
    assert_eq!((ids(store, "a").await, store.answer("q4", b"yes").await), (Vec::new(), Ok(false)));
    assert_eq!(store.delete("a").await, Ok(true));
    assert_eq!(store.find_question("q4").await, Ok(None));
}

async fn adopts_calls_that_run(store: &Store) {
    let new = |id: &str| NewOperation { id: id.to_owned(), ..operation("", "A") };
    let adopt = async |id: &str, most| {
        let task = RunningTask { operation: &new(id), view: "/notes", gateway: "gateway", lease_ms: 60_000 };
        store.adopt(&task, most).await.unwrap().is_some()
    };
    assert!(adopt("a", 2).await && adopt("b", 2).await && !adopt("c", 2).await, "two may run");
    let (adopted, _) = store.get("a").await.unwrap().unwrap();
    assert_eq!((adopted.state, adopted.runs, adopted.task_view.as_str()), (State::Running, 1, "/notes"));
    assert_eq!(store.renew("gateway", 60_000).await.unwrap().len(), 2);
    assert_eq!(recover(store).await, 2);
    let taken = claim_one(store).await;
    assert!(taken.may_have_run && taken.epoch == 3, "{taken:?}");
    for number in 0..4_usize {
        let id = format!("ended{number}");
        assert!(adopt(&id, 10).await);
        let fence = Fence { id: &id, epoch: 1 };
        assert_eq!(store.finish(fence, &end(State::Succeeded, &[0; 100])).await, Ok(true));
    }
    let left = async || {
        let mut left = 0;
        for number in 0..4 {
            left += usize::from(store.get(&format!("ended{number}")).await.unwrap().is_some());
        }
        left
    };
    for (principal, count, bytes, expected) in [("B", 0, 0, 4), ("A", 3, 1000, 3), ("", 10, 250, 2)] {
        store.evict_tasks(TaskRetention { principal, count, bytes }).await.unwrap();
        assert_eq!(left().await, expected, "{principal}");
    }
}
