//! Tests which calls run, which get the result of another call, and which results are kept.

use openskill_proto::v1::{ErrorCode, ExecuteResult, SkillError};

use super::key_table::{MAX_BYTES, MAX_KEYS};
use super::*;

fn ran(bytes: usize) -> Outcome {
    let result = ExecuteResult { success: true, data_json: vec![b' '; bytes].into(), ..ExecuteResult::default() };
    let refused = Outcome::from_error(SkillError::new(ErrorCode::Overloaded, "full"));
    Outcome { result, may_have_run: true, ..refused }
}

fn keys() -> Arc<IdempotencyKeys> {
    IdempotencyKeys::new(Duration::from_secs(60))
}

/// Looks up a key as this session.
fn look_up(keys: &Arc<IdempotencyKeys>, session: &str, key: &str, arguments: &str, now: Instant) -> Lookup {
    keys.look_up_name(key::join(["", session, "skill", key]).into(), Fingerprint::new("", arguments.as_bytes()), now)
}

fn first(keys: &Arc<IdempotencyKeys>, session: &str, key: &str) -> Lease {
    match look_up(keys, session, key, "{}", Instant::now()) {
        Lookup::First(lease) => lease,
        other => panic!("{other:?}"),
    }
}

fn again(keys: &Arc<IdempotencyKeys>, session: &str, key: &str) -> Lookup {
    look_up(keys, session, key, "{}", Instant::now())
}

#[test]
fn a_key_runs_once_for_its_skill_and_its_arguments() {
    let (keys, now) = (keys(), Instant::now());
    let lease = first(&keys, "", "k");
    let Lookup::Running(end) = again(&keys, "", "k") else { panic!("it runs") };
    assert!(matches!(look_up(&keys, "", "k", r#"{"n":1}"#, now), Lookup::Mismatch));
    let other = key::join(["", "", "other", "k"]);
    assert!(matches!(keys.look_up_name(other.into(), Fingerprint::new("", b"{}"), now), Lookup::First(_)));
    let same = key::join(["", "", "skill", "k"]);
    assert!(matches!(keys.look_up_name(same.into(), Fingerprint::new("2.0", b"{}"), now), Lookup::Mismatch));
    lease.end(&ran(1));
    assert!(matches!(&*end.borrow(), Some(KeyedOutcome::With(_))));
    assert!(matches!(again(&keys, "", "k"), Lookup::Over(KeyedOutcome::With(_))));
}

#[test]
fn a_refused_call_leaves_its_key_unused() {
    let keys = keys();
    first(&keys, "", "k").end(&Outcome::from_error(SkillError::new(ErrorCode::Overloaded, "full")));
    assert!(keys.table.lock().is_empty());
    first(&keys, "", "k").end(&ran(1));
}

#[test]
fn a_dropped_lease_means_that_the_call_may_have_run() {
    let keys = keys();
    drop(first(&keys, "", "k"));
    assert!(matches!(again(&keys, "", "k"), Lookup::Over(KeyedOutcome::Unknown)));
}

#[test]
fn keys_expire_after_their_lifetime() {
    let keys = keys();
    first(&keys, "", "k").end(&ran(1));
    drop(first(&keys, "", "lost"));
    let later = Instant::now() + Duration::from_secs(60);
    let Lookup::First(lease) = look_up(&keys, "", "k", "{}", later) else { panic!("it is known") };
    lease.end(&Outcome::from_error(SkillError::new(ErrorCode::Overloaded, "full")));
    assert_eq!(keys.table.lock().bytes(), 0);
    assert!(keys.table.lock().is_empty());
}

#[test]
fn results_past_the_budget_are_dropped_but_their_keys_stay() {
    let keys = keys();
    for number in 0..10 {
        first(&keys, "", &number.to_string()).end(&ran(MAX_BYTES / 4));
    }
    assert!(keys.table.lock().bytes() <= MAX_BYTES);
    assert!(matches!(again(&keys, "", "0"), Lookup::Over(KeyedOutcome::Unknown)));
    assert!(matches!(again(&keys, "", "9"), Lookup::Over(KeyedOutcome::With(_))));
}

#[test]
fn a_session_that_stores_much_loses_its_own_results_and_not_those_of_others() {
    let keys = keys();
    first(&keys, "modest", "oldest").end(&ran(MAX_BYTES / 10));
    for number in 0..100 {
        first(&keys, "greedy", &number.to_string()).end(&ran(MAX_BYTES / 10));
    }
    assert!(keys.table.lock().bytes() <= MAX_BYTES);
    assert!(matches!(again(&keys, "modest", "oldest"), Lookup::Over(KeyedOutcome::With(_))));
    assert!(matches!(again(&keys, "greedy", "90"), Lookup::Over(KeyedOutcome::Unknown)));
    assert!(matches!(again(&keys, "greedy", "99"), Lookup::Over(KeyedOutcome::With(_))));
}

#[test]
fn a_session_that_uses_many_keys_leaves_some_to_others() {
    let keys = keys();
    let take_all = |session: &str| {
        let mut taken = 0;
        loop {
            match again(&keys, session, &taken.to_string()) {
                Lookup::First(lease) => lease.end(&ran(0)),
                Lookup::Full(full) => return (taken, full),
                other => panic!("{other:?}"),
            }
            taken += 1;
        }
    };
    let (greedy, full) = take_all("greedy");
    assert_eq!(full, Full::Session);
    assert!((MAX_KEYS * 79 / 100..MAX_KEYS * 81 / 100).contains(&greedy), "{greedy}");
    assert!(matches!(again(&keys, "greedy", "0"), Lookup::Over(KeyedOutcome::With(_))), "what ran is still known");
    let (modest, _) = take_all("modest");
    assert!(modest >= MAX_KEYS / 8, "{modest}");
}

#[test]
fn too_many_keys_are_refused_and_none_is_forgotten() {
    let keys = keys();
    let mut taken = 0;
    let full = loop {
        match again(&keys, &taken.to_string(), "k") {
            Lookup::First(lease) => lease.end(&ran(0)),
            Lookup::Full(full) => break full,
            other => panic!("{other:?}"),
        }
        taken += 1;
    };
    assert_eq!((taken, full), (MAX_KEYS, Full::Gateway));
    assert!(matches!(again(&keys, "0", "k"), Lookup::Over(KeyedOutcome::With(_))));
}

/// Looks up a key as a session of this principal.
fn look_up_as(keys: &Arc<IdempotencyKeys>, principal: &str, session: &str, key: &str) -> Lookup {
    let name = key::join([principal, session, "skill", key]).into();
    keys.look_up_name(name, Fingerprint::new("", b"{}"), Instant::now())
}

#[test]
fn a_principal_with_a_key_in_each_of_many_sessions_leaves_some_to_others() {
    let (keys, mut taken) = (keys(), 0);
    let full = loop {
        match look_up_as(&keys, "greedy", &taken.to_string(), "k") {
            Lookup::First(lease) => lease.end(&ran(0)),
            Lookup::Full(full) => break full,
            other => panic!("{other:?}"),
        }
        taken += 1;
    };
    assert_eq!(full, Full::Principal);
    assert!((MAX_KEYS * 79 / 100..MAX_KEYS * 81 / 100).contains(&taken), "{taken}");
    for session in 0..100 {
        assert!(matches!(look_up_as(&keys, "honest", &session.to_string(), "k"), Lookup::First(_)));
    }
}

#[test]
fn a_principal_that_stores_much_in_many_sessions_loses_its_own_results() {
    let keys = keys();
    let store = |principal: &str, session: &str, bytes: usize| match look_up_as(&keys, principal, session, "k") {
        Lookup::First(lease) => lease.end(&ran(bytes)),
        other => panic!("{other:?}"),
    };
    store("honest", "one", MAX_BYTES / 4);
    (0..100).for_each(|number| store("greedy", &number.to_string(), MAX_BYTES / 20));
    assert!(keys.table.lock().bytes() <= MAX_BYTES);
    assert!(matches!(look_up_as(&keys, "honest", "one", "k"), Lookup::Over(KeyedOutcome::With(_))));
}
