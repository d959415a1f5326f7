use super::check::check;
use super::plan::{Plan, Victim};
use super::violation::Violation;
use super::*;

const EARLY: u64 = 1_000;

fn submitted(key: &str, has_idempotency_key: bool) -> Event {
    Event::Submitted { key: key.to_owned(), has_idempotency_key, start_at_ms: EARLY, time_ms: EARLY }
}

fn acknowledged(key: &str) -> Event {
    Event::Acknowledged { key: key.to_owned(), operation: id(key) }
}

fn unknown(key: &str) -> Event {
    Event::Unknown { key: key.to_owned(), reason: "transport error".to_owned() }
}

fn refused(key: &str) -> Event {
    Event::Refused { key: key.to_owned(), reason: "nap_ms is not an integer".to_owned() }
}

fn effect(key: &str, run: &str, idempotent: bool) -> Event {
    Event::Effect { key: key.to_owned(), run: run.to_owned(), idempotent, time_ms: EARLY + 1 }
}

fn watched(key: &str, number: u64) -> Event {
    Event::Watched { key: key.to_owned(), operation: id(key), number }
}

fn result(key: &str, outcome: Outcome) -> Event {
    Event::Result { key: key.to_owned(), operation: id(key), outcome }
}

fn cancelled(key: &str) -> Event {
    Event::Cancelled { key: key.to_owned(), operation: id(key), may_have_started: false }
}

fn end(key: &str, outcome: Outcome) -> Event {
    let state = if outcome.success { "SUCCEEDED" } else { "FAILED" };
    Event::Final { key: key.to_owned(), operation: id(key), state: state.to_owned(), outcome: Some(outcome) }
}

fn id(key: &str) -> String {
    format!("operations/{key}")
}

fn success(run: &str) -> Outcome {
    Outcome { success: true, code: String::new(), may_have_run: true, run: run.to_owned(), message: String::new() }
}

fn failure(code: &str, may_have_run: bool) -> Outcome {
    Outcome { success: false, code: code.to_owned(), may_have_run, run: String::new(), message: "it failed".to_owned() }
}

/// A history in which everything happens that may happen.
fn valid() -> Vec<Event> {
    vec![
        // It runs once.
        submitted("once", false),
        acknowledged("once"),
        effect("once", "1", false),
        watched("once", 1),
        watched("once", 2),
        result("once", success("1")),
        // Its gateway is killed after the effect: another run succeeds.
        submitted("again", true),
        unknown("again"),
        submitted("again", true),
        acknowledged("again"),
        effect("again", "2", true),
        effect("again", "3", true),
        result("again", success("3")),
        // The same, and it must not run again.
        submitted("lost", false),
        acknowledged("lost"),
        effect("lost", "4", false),
        result("lost", failure("UNAVAILABLE", true)),
        submitted("stopped", false),
        acknowledged("stopped"),
        cancelled("stopped"),
        result("stopped", failure("CANCELLED", false)),
        submitted("invalid", false),
        refused("invalid"),
        // Nobody was told, and one of them was stored.
        submitted("gone", false),
        unknown("gone"),
        submitted("stored", false),
        unknown("stored"),
        effect("stored", "5", false),
        Event::Fault { what: "Gateway".to_owned() },
        end("once", success("1")),
        end("again", success("3")),
        end("lost", failure("UNAVAILABLE", true)),
        end("stopped", failure("CANCELLED", false)),
        end("stored", success("5")),
    ]
}

/// The valid history, with more events before the audit.
fn with(more: impl IntoIterator<Item = Event>) -> Vec<Event> {
    let mut events = valid();
    let audit = events.iter().position(|it| matches!(it, Event::Final { .. })).unwrap();
    events.splice(audit..audit, more);
    events
}

fn without(removed: &Event) -> Vec<Event> {
    let before = valid();
    let events: Vec<_> = before.iter().filter(|it| *it != removed).cloned().collect();
    assert!(events.len() < before.len(), "{removed:?}");
    events
}

fn replace(old: &Event, new: Event) -> Vec<Event> {
    let mut events = valid();
    *events.iter_mut().find(|it| *it == old).unwrap() = new;
    events
}

#[test]
fn a_history_of_everything_that_may_happen_is_valid() {
    assert_eq!(check(&valid()), []);
}

#[test]
fn every_planted_fault_is_found_and_named() {
    let second = Event::Acknowledged { key: "again".to_owned(), operation: "operations/other".to_owned() };
    let unfinished =
        Event::Final { key: "once".to_owned(), operation: id("once"), state: "RUNNING".to_owned(), outcome: None };
    let scheduled =
        Event::Submitted { key: "once".to_owned(), has_idempotency_key: false, start_at_ms: 9_000, time_ms: EARLY };
    for (planted, sentence) in [
        (
            without(&end("lost", failure("UNAVAILABLE", true))),
            "lost: operations/lost was acknowledged, and is not there",
        ),
        (replace(&end("once", success("1")), unfinished), "once: operations/once has no result at the end"),
        (
            with([result("lost", failure("INTERNAL", true))]),
            "lost: two reads of operations/lost gave different results",
        ),
        (
            replace(&end("again", success("3")), end("again", success("2"))),
            "again: operations/again has another result",
        ),
        (with([effect("once", "9", false)]), "once: the skill ran 2 times and is not idempotent"),
        (
            without(&effect("stored", "5", false)),
            "stored: operations/stored succeeded, and the run that it names had no",
        ),
        (with([effect("nobody", "9", true)]), "nobody: a skill ran for a call that nobody submitted"),
        (with([effect("invalid", "9", true)]), "invalid: every submit was refused, and the skill ran"),
        (with([effect("gone", "9", true)]), "gone: the skill ran, and there is no operation"),
        (
            replace(&end("lost", failure("UNAVAILABLE", true)), end("lost", failure("UNAVAILABLE", false))),
            "lost: operations/lost ended with UNAVAILABLE and may_have_run = false, and its skill ran",
        ),
        (with([second]), "again: the call has 2 operations, and may have 1"),
        (with([effect("stopped", "9", true)]), "stopped: the skill of operations/stopped ran after it was cancelled"),
        (without(&acknowledged("lost")), "lost: the result of operations/lost was read before anybody knew"),
        (with([watched("once", 4)]), "once: a stream of operations/once continued with event 4"),
        (replace(&submitted("once", false), scheduled), "once: the skill ran 7999 ms before start_at"),
        (with([acknowledged("invalid")]), "invalid: the call has 1 operations, and may have 0"),
        (with([end("nobody", success("1"))]), "nobody: there is operations/nobody of a call that nobody submitted"),
    ] {
        let found: Vec<_> = check(&planted).iter().map(Violation::to_string).collect();
        assert!(found.iter().any(|it| it.starts_with(sentence)), "{sentence}: {found:?}");
        let key = sentence.split(':').next().unwrap();
        assert!(found.iter().all(|it| it.starts_with(key)), "only {key}: {found:?}");
    }
}

#[test]
fn an_event_is_read_as_it_was_written() {
    for event in valid() {
        let line = serde_json::to_string(&event).unwrap();
        assert_eq!(serde_json::from_str::<Event>(&line).unwrap(), event);
    }
    // What the skill writes.
    let line = r#"{"event": "effect", "key": "once", "run": "1", "idempotent": false, "time_ms": 1001}"#;
    assert_eq!(serde_json::from_str::<Event>(line).unwrap(), effect("once", "1", false));
}

#[test]
fn a_seed_gives_the_same_plan_again_which_kills_a_gateway_first() {
    let plan = |seed| Plan::random(seed, std::time::Duration::from_secs(30), 100, 10);
    assert_eq!(plan(1), plan(1));
    assert_ne!(plan(1), plan(2));
    for seed in 0..50 {
        assert!(!matches!(plan(seed).faults.first().unwrap().victim, Victim::Worker(_)));
    }
}
