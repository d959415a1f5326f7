//! Tests of a gate's decisions, call by call.

mod turns;

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::{Arrival, ArrivalOutcome, Ending, GateBounds, GateCalls, GateRefusal, Next};
use crate::schedule::pace::Skill;

const LONG: Duration = Duration::from_secs(5);

/// The default time that callers wait.
const PATIENCE: Duration = Duration::from_secs(30);

const fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

#[test]
fn a_full_queue_makes_room_for_whoever_has_less_in_it() {
    let skill: Arc<Skill> = Arc::default();
    let mut book = GateCalls::new(GateBounds { places: 1, reserved: 0, most_waiting: 4 }, Instant::now());
    let now = Instant::now();
    let arrives = |book: &mut GateCalls<usize>, session: &str, number: usize| {
        let arrival = Arrival { principal: "", session, skill: &skill, deadline: now + PATIENCE };
        book.arrive(arrival, || (number, ()), now)
    };
    for number in 0..5 {
        assert!(matches!(
            arrives(&mut book, "flood", number),
            ArrivalOutcome::Runs(_) | ArrivalOutcome::Waits { evicted: None, .. }
        ));
    }
    assert!(matches!(arrives(&mut book, "flood", 5), ArrivalOutcome::Refused(GateRefusal::Full)));
    assert!(matches!(arrives(&mut book, "modest", 6), ArrivalOutcome::Waits { evicted: Some(4), .. }));
    assert!(matches!(arrives(&mut book, "modest", 7), ArrivalOutcome::Waits { evicted: Some(3), .. }));
    assert!(matches!(arrives(&mut book, "modest", 8), ArrivalOutcome::Refused(GateRefusal::Full)));
    assert_eq!((book.running(), book.len()), (1, 5));
}

#[test]
fn a_full_queue_makes_room_for_a_principal_that_has_less_in_it_however_many_sessions_others_have() {
    let (skill, now): (Arc<Skill>, _) = (Arc::default(), Instant::now());
    let mut book = GateCalls::new(GateBounds { places: 1, reserved: 0, most_waiting: 4 }, now);
    let arrives = |book: &mut GateCalls<usize>, principal: &str, number: usize| {
        let session = number.to_string();
        let arrival = Arrival { principal, session: &session, skill: &skill, deadline: now + PATIENCE };
        book.arrive(arrival, || (number, ()), now)
    };
    for number in 0..5 {
        assert!(matches!(
            arrives(&mut book, "many", number),
            ArrivalOutcome::Runs(_) | ArrivalOutcome::Waits { evicted: None, .. }
        ));
    }
    for number in [5, 6] {
        assert!(matches!(arrives(&mut book, "one", number), ArrivalOutcome::Waits { evicted: Some(1..=4), .. }));
    }
    assert!(matches!(arrives(&mut book, "one", 7), ArrivalOutcome::Refused(GateRefusal::Full)));
    assert!(matches!(arrives(&mut book, "many", 8), ArrivalOutcome::Refused(GateRefusal::Full)));
    assert_eq!((book.running(), book.len()), (1, 5));
}

#[test]
fn beside_a_principal_with_as_many_calls_a_session_takes_the_room_of_a_longer_one_of_its_own() {
    for [first, second] in [["a", "b"], ["b", "a"]] {
        let (skill, now): (Arc<Skill>, _) = (Arc::default(), Instant::now());
        let mut book = GateCalls::new(GateBounds { places: 1, reserved: 0, most_waiting: 6 }, now);
        let arrives = |book: &mut GateCalls<(&'static str, &'static str)>, principal, session| {
            let arrival = Arrival { principal, session, skill: &skill, deadline: now + PATIENCE };
            book.arrive(arrival, || ((principal, session), ()), now)
        };
        assert!(matches!(arrives(&mut book, "runs", ""), ArrivalOutcome::Runs(_)));
        for principal in [first, second, first, second, first, second] {
            assert!(matches!(arrives(&mut book, principal, "long"), ArrivalOutcome::Waits { evicted: None, .. }));
        }
        for principal in [first, second] {
            let ArrivalOutcome::Waits { evicted, .. } = arrives(&mut book, principal, "short") else {
                panic!("{principal}")
            };
            assert_eq!(evicted, Some((principal, "long")));
            assert!(matches!(arrives(&mut book, principal, "short"), ArrivalOutcome::Refused(GateRefusal::Full)));
        }
    }
}

#[test]
fn the_estimate_lets_each_principal_have_one_turn_before_a_call() {
    let (skill, began): (Arc<Skill>, _) = (Arc::default(), Instant::now());
    let mut book = GateCalls::new(GateBounds { places: 1, reserved: 0, most_waiting: 100 }, began);
    let arrives = |book: &mut GateCalls<()>, principal, session, left: Duration, now: Instant| {
        let arrival = Arrival { principal, session, skill: &skill, deadline: now + left };
        book.arrive(arrival, || ((), ()), now)
    };
    let ArrivalOutcome::Runs(first) = arrives(&mut book, "a", "", PATIENCE, began) else { panic!("a place is free") };
    let now = began + ms(1000);
    book.leave(first, Ending::Whole, now);
    for principal in ["a", "b", "c"] {
        for session in ["1", "2", "3"] {
            let _ = arrives(&mut book, principal, session, PATIENCE * 100, now);
        }
    }
    // The wait is one turn of each caller and its own, plus a quarter: 5 s. Then the call runs for another second.
    assert!(matches!(arrives(&mut book, "d", "", ms(5900), now), ArrivalOutcome::Refused(GateRefusal::Late { .. })));
    assert!(matches!(arrives(&mut book, "d", "", ms(6100), now), ArrivalOutcome::Waits { .. }));
}

#[test]
fn a_call_that_could_not_start_before_its_deadline_is_refused_and_others_are_not() {
    let skill: Arc<Skill> = Arc::default();
    let began = Instant::now();
    let mut book = GateCalls::new(GateBounds { places: 4, reserved: 0, most_waiting: 100 }, began);
    let arrives = |book: &mut GateCalls<()>, session: &str, left: Duration, now: Instant| {
        let arrival = Arrival { principal: "", session, skill: &skill, deadline: now + left };
        book.arrive(arrival, || ((), ()), now)
    };
    let ArrivalOutcome::Runs(first) = arrives(&mut book, "busy", PATIENCE, began) else { panic!("a place is free") };
    let now = began + ms(1000);
    book.leave(first, Ending::Whole, now);
    for _ in 0..8 {
        assert!(matches!(
            arrives(&mut book, "busy", PATIENCE, now),
            ArrivalOutcome::Runs(_) | ArrivalOutcome::Waits { .. }
        ));
    }
    // Four calls run and four wait, so a place becomes free in about a second. The call runs for another second.
    assert!(matches!(arrives(&mut book, "busy", ms(2000), now), ArrivalOutcome::Refused(GateRefusal::Late { .. })));
    assert!(matches!(arrives(&mut book, "other", ms(2000), now), ArrivalOutcome::Waits { .. }));
    assert!(matches!(arrives(&mut book, "busy", ms(4000), now), ArrivalOutcome::Waits { .. }));
}

/// A caller whose connection breaks cancels all its calls. Each of them gets the previous one's place and leaves
/// it soon.
#[test]
fn cancelled_calls_do_not_make_a_slow_skill_look_short() {
    let (slow, began): (Arc<Skill>, _) = (Arc::default(), Instant::now());
    let mut book = GateCalls::new(GateBounds { places: 1, reserved: 1, most_waiting: 100 }, began);
    let arrives = |book: &mut GateCalls<()>, now: Instant| {
        let arrival = Arrival { principal: "", session: "slow", skill: &slow, deadline: now + PATIENCE * 100 };
        book.arrive(arrival, || ((), ()), now)
    };
    let ArrivalOutcome::Runs(first) = arrives(&mut book, began) else { panic!("a place is free") };
    let now = began + LONG;
    for _ in 0..64 {
        assert!(matches!(arrives(&mut book, now), ArrivalOutcome::Runs(_) | ArrivalOutcome::Waits { .. }));
    }
    book.leave(first, Ending::Whole, now);
    let mut now = now;
    while let Some(Next::Runs(granted, ())) = book.next(now) {
        now += ms(20);
        book.leave(granted, Ending::CutShort, now);
    }
    assert!(matches!(arrives(&mut book, now), ArrivalOutcome::Runs(_)), "every place is free again");
    assert!(matches!(arrives(&mut book, now), ArrivalOutcome::Waits { .. }), "the reserve is for short calls");
}

#[test]
fn a_short_call_is_not_refused_for_the_long_ones_that_wait() {
    let (slow, quick): (Arc<Skill>, Arc<Skill>) = Default::default();
    let began = Instant::now();
    let mut book = GateCalls::new(GateBounds { places: 1, reserved: 1, most_waiting: 100 }, began);
    let arrives = |book: &mut GateCalls<()>, session: &str, skill, left: Duration, now: Instant| {
        let arrival = Arrival { principal: "", session, skill, deadline: now + left };
        book.arrive(arrival, || ((), ()), now)
    };
    for (session, skill, ran) in [("slow-0", &slow, LONG), ("quick", &quick, ms(2))] {
        let ArrivalOutcome::Runs(first) = arrives(&mut book, session, skill, PATIENCE, began) else {
            panic!("it is free")
        };
        book.leave(first, Ending::Whole, began + ran);
    }
    let now = began + LONG;
    for session in ["slow-0", "slow-1", "slow-2", "slow-3"] {
        let _ = arrives(&mut book, session, &slow, PATIENCE, now);
    }
    // One call has a reserved place. The next call waits for that one, not for the slow calls.
    assert!(matches!(arrives(&mut book, "quick", &quick, ms(100), now), ArrivalOutcome::Runs(_)));
    assert!(matches!(arrives(&mut book, "quick", &quick, ms(100), now), ArrivalOutcome::Waits { .. }));
}

#[test]
fn quick_calls_of_a_neighbour_do_not_make_the_long_calls_of_others_look_short() {
    let (slow, quick): (Arc<Skill>, Arc<Skill>) = Default::default();
    let began = Instant::now();
    let mut book = GateCalls::new(GateBounds { places: 2, reserved: 1, most_waiting: 100 }, began);
    let arrives = |book: &mut GateCalls<()>, session: &str, skill, left: Duration, now: Instant| {
        let arrival = Arrival { principal: "", session, skill, deadline: now + left };
        book.arrive(arrival, || ((), ()), now)
    };
    let ArrivalOutcome::Runs(first) = arrives(&mut book, "slow", &slow, PATIENCE, began) else { panic!("it is free") };
    let now = began + LONG;
    book.leave(first, Ending::Whole, now);
    for _ in 0..1000 {
        let ArrivalOutcome::Runs(call) = arrives(&mut book, "quick", &quick, PATIENCE, now) else {
            panic!("it is free")
        };
        book.leave(call, Ending::Whole, now + ms(2));
    }
    for number in 0..8 {
        let came = arrives(&mut book, &format!("slow-{number}"), &slow, PATIENCE, now);
        assert!(matches!(came, ArrivalOutcome::Runs(_) | ArrivalOutcome::Waits { .. }));
    }
    // Two calls run and six wait, so the next one starts in about seventeen seconds.
    assert!(matches!(
        arrives(&mut book, "late", &slow, ms(15_000), now),
        ArrivalOutcome::Refused(GateRefusal::Late { .. })
    ));
    assert!(matches!(arrives(&mut book, "in time", &slow, PATIENCE, now), ArrivalOutcome::Waits { .. }));
}

#[test]
fn a_call_that_once_took_long_does_not_make_the_short_calls_of_new_sessions_look_long() {
    let skill: Arc<Skill> = Arc::default();
    let began = Instant::now();
    let mut book = GateCalls::new(GateBounds { places: 2, reserved: 0, most_waiting: 100 }, began);
    let arrives = |book: &mut GateCalls<()>, session: &str, left: Duration| {
        let arrival = Arrival { principal: "", session, skill: &skill, deadline: began + left };
        book.arrive(arrival, || ((), ()), began)
    };
    for ran in (0..50).map(|_| ms(600)).chain([LONG]) {
        let ArrivalOutcome::Runs(call) = arrives(&mut book, "known", PATIENCE) else { panic!("it is free") };
        book.leave(call, Ending::Whole, began + ran);
    }
    for number in 0..8 {
        assert!(!matches!(arrives(&mut book, &format!("new-{number}"), PATIENCE), ArrivalOutcome::Refused(_)));
    }
    // Six calls wait for less than a second each, and one call may take five.
    assert!(matches!(arrives(&mut book, "new", ms(14_000)), ArrivalOutcome::Waits { .. }));
}

#[test]
fn a_call_that_was_cut_short_does_not_keep_new_sessions_from_its_skill() {
    let skill: Arc<Skill> = Arc::default();
    let began = Instant::now();
    let mut book = GateCalls::new(GateBounds { places: 2, reserved: 0, most_waiting: 100 }, began);
    let arrives = |book: &mut GateCalls<()>, session: &str| {
        let arrival = Arrival { principal: "", session, skill: &skill, deadline: began + PATIENCE };
        book.arrive(arrival, || ((), ()), began)
    };
    for (ran, ending) in [(ms(5), Ending::Whole), (PATIENCE, Ending::CutShort)] {
        let ArrivalOutcome::Runs(call) = arrives(&mut book, "hangs") else { panic!("it is free") };
        book.leave(call, ending, began + ran);
    }
    for session in ["new-0", "new-1"] {
        assert!(matches!(arrives(&mut book, session), ArrivalOutcome::Runs(_)));
    }
    assert!(matches!(arrives(&mut book, "new-2"), ArrivalOutcome::Waits { .. }));
}

#[test]
fn without_a_reserve_a_short_call_waits_for_the_long_ones_of_others() {
    let (slow, quick): (Arc<Skill>, Arc<Skill>) = Default::default();
    let began = Instant::now();
    let mut book = GateCalls::new(GateBounds { places: 1, reserved: 0, most_waiting: 100 }, began);
    let arrives = |book: &mut GateCalls<()>, session: &str, skill, left: Duration| {
        let arrival = Arrival { principal: "", session, skill, deadline: began + left };
        book.arrive(arrival, || ((), ()), began)
    };
    for (session, skill, ran) in [("slow", &slow, LONG), ("quick", &quick, ms(2))] {
        let ArrivalOutcome::Runs(first) = arrives(&mut book, session, skill, PATIENCE) else { panic!("it is free") };
        book.leave(first, Ending::Whole, began + ran);
    }
    for session in ["slow-0", "slow-1", "slow-2"] {
        let _ = arrives(&mut book, session, &slow, PATIENCE);
    }
    assert!(matches!(arrives(&mut book, "quick", &quick, LONG), ArrivalOutcome::Refused(GateRefusal::Late { .. })));
    assert!(matches!(arrives(&mut book, "quick", &quick, PATIENCE), ArrivalOutcome::Waits { .. }));
}

#[test]
fn a_call_whose_turn_leaves_it_no_time_to_start_and_run_is_refused() {
    let ([skill, other], began): ([Arc<Skill>; 2], _) = (Default::default(), Instant::now());
    let mut book = GateCalls::new(GateBounds { places: 1, reserved: 0, most_waiting: 100 }, began);
    let arrives = |book: &mut GateCalls<&'static str>, session: &'static str, skill, left: Duration| {
        let arrival = Arrival { principal: "", session, skill, deadline: began + left };
        book.arrive(arrival, || (session, ()), began)
    };
    skill.pace.observe(ms(1000));
    let ArrivalOutcome::Runs(first) = arrives(&mut book, "first", &other, PATIENCE) else { panic!("a place is free") };
    for (session, left) in [("hurried", ms(3000)), ("patient", ms(5000))] {
        assert!(matches!(arrives(&mut book, session, &skill, left), ArrivalOutcome::Waits { .. }));
    }
    // The call has the second that it runs for, but no time to start.
    let now = began + ms(1950);
    book.leave(first, Ending::CutShort, now);
    let Some(Next::Refused("hurried", GateRefusal::Late { .. })) = book.next(now) else {
        panic!("it can't end in time")
    };
    assert!(matches!(book.next(now), Some(Next::Runs(_, "patient"))));
}
