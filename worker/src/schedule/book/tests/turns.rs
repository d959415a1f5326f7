//! Tests of whose turn it is among several principals.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::PATIENCE;
use crate::schedule::book::{Arrival, ArrivalOutcome, Ending, GateBounds, GateCalls, Next};
use crate::schedule::flows::Ticket;

/// A gate without reserved places, and a principal and session for each call.
struct Turns {
    book: GateCalls<(String, String)>,
    began: Instant,
}

impl Turns {
    fn new(places: usize) -> Self {
        let began = Instant::now();
        Self { book: GateCalls::new(GateBounds { places, reserved: 0, most_waiting: 1024 }, began), began }
    }

    fn at(&self, seconds: u64) -> Instant {
        self.began + Duration::from_secs(seconds)
    }

    /// Adds a call. Returns its ticket if it runs.
    fn call(&mut self, who: &str, session: &str, at: u64) -> Option<Ticket> {
        let (skill, now) = (Arc::default(), self.at(at));
        let arrival = Arrival { principal: who, session, skill: &skill, deadline: now + PATIENCE * 100 };
        match self.book.arrive(arrival, || ((who.to_owned(), session.to_owned()), ()), now) {
            ArrivalOutcome::Runs(ticket) => Some(ticket),
            ArrivalOutcome::Waits { .. } => None,
            ArrivalOutcome::Refused(refusal) => panic!("{who}: {refusal:?}"),
        }
    }

    /// Ends a call. Returns the principal of the call that runs next, and its ticket.
    fn end(&mut self, ticket: Ticket, at: u64) -> (String, Ticket) {
        let ((who, _), ticket) = self.end_of_session(ticket, at);
        (who, ticket)
    }

    /// Ends a call. Returns the principal and session of the call that runs next, and its ticket.
    fn end_of_session(&mut self, ticket: Ticket, at: u64) -> ((String, String), Ticket) {
        self.book.leave(ticket, Ending::Whole, self.at(at));
        match self.book.next(self.at(at)) {
            Some(Next::Runs(ticket, who)) => (who, ticket),
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn what_was_used_while_nobody_waited_is_no_debt() {
    let mut gate = Turns::new(1);
    let alone = gate.call("early", "", 0).unwrap();
    gate.book.leave(alone, Ending::Whole, gate.at(60));
    let running = gate.call("late", "", 61).unwrap();
    assert_eq!((gate.call("late", "", 62), gate.call("early", "", 63)), (None, None));
    assert_eq!(gate.end(running, 66).0, "early");
}

#[test]
fn what_a_call_used_before_others_waited_is_no_debt_when_it_ends_after() {
    for [early, late] in [[("early", ""), ("late", "")], [("one", "early"), ("one", "late")]] {
        let mut gate = Turns::new(1);
        let alone = gate.call(early.0, early.1, 0).unwrap();
        for _ in 0..2 {
            assert_eq!(gate.call(late.0, late.1, 59), None);
        }
        let (who, running) = gate.end_of_session(alone, 60);
        assert_eq!((who.0.as_str(), who.1.as_str()), late);
        assert_eq!(gate.call(early.0, early.1, 60), None);
        let (who, _) = gate.end_of_session(running, 65);
        assert_eq!((who.0.as_str(), who.1.as_str()), early);
    }
}

#[test]
fn a_caller_that_fills_the_places_while_only_its_own_calls_wait_has_no_debt() {
    for [early, late] in [[("early", ""), ("late", "")], [("one", "early"), ("one", "late")]] {
        let mut gate = Turns::new(1);
        let mut running = gate.call(early.0, early.1, 0).unwrap();
        for seconds in [0, 20, 40] {
            assert_eq!(gate.call(early.0, early.1, seconds), None);
            running = gate.end_of_session(running, seconds + 20).1;
        }
        for _ in 0..2 {
            assert_eq!((gate.call(early.0, early.1, 79), gate.call(late.0, late.1, 79)), (None, None));
        }
        let turns = [80, 85, 90].map(|seconds| {
            let (who, ticket) = gate.end_of_session(running, seconds);
            running = ticket;
            who
        });
        assert_eq!(turns.map(|who| (who.0.as_str(), who.1.as_str()) == late), [true, false, true]);
    }
}

#[test]
fn a_newcomer_has_no_credit_for_the_time_before_whatever_those_do_that_wait() {
    let mut gate = Turns::new(2);
    gate.call("long", "", 0).unwrap();
    let mut running = gate.call("busy", "", 0).unwrap();
    assert_eq!((gate.call("long", "", 1), gate.call("busy", "", 1)), (None, None));
    for seconds in (10..300).step_by(10) {
        let (who, ticket) = gate.end(running, seconds);
        assert_eq!((who.as_str(), gate.call("busy", "", seconds)), ("busy", None));
        running = ticket;
    }
    let mut turns = Vec::new();
    for seconds in (300..340).step_by(10) {
        gate.call("new", "", seconds);
        let (who, ticket) = gate.end(running, seconds);
        gate.call("busy", "", seconds);
        running = ticket;
        turns.push(who);
    }
    assert_eq!(turns.iter().filter(|it| *it == "new").count(), 2, "{turns:?}");
}

#[test]
fn a_principal_whose_call_runs_loses_nothing_by_asking_later_for_the_next() {
    let starts = [1, 58].map(|asks_at| {
        let mut gate = Turns::new(2);
        let mut long = gate.call("one", "", 0).unwrap();
        let mut short = gate.call("other", "", 0).unwrap();
        gate.call("third", "", 0);
        for seconds in 1..200 {
            if seconds == asks_at {
                gate.call("one", "", seconds);
            }
            for who in ["other", "third"] {
                gate.call(who, "", seconds);
            }
            let (who, ticket) = gate.end(short, seconds);
            short = ticket;
            if who == "one" {
                return seconds;
            }
            if seconds >= 60 {
                let (who, ticket) = gate.end(long, seconds);
                long = ticket;
                if who == "one" {
                    return seconds;
                }
            }
        }
        panic!("its turn never comes")
    });
    assert_eq!(starts[0], starts[1]);
    assert!(starts[0] > 60, "{starts:?}");
}

#[test]
fn a_new_session_wins_no_turn_from_another_principal() {
    for first in ["one", "many"] {
        let mut gate = Turns::new(1);
        let mut running = gate.call("busy", "", 0).unwrap();
        let second = if first == "one" { "many" } else { "one" };
        for round in 0..10 {
            let session = |who: &str| if who == "many" { round.to_string() } else { String::new() };
            for who in [first, second] {
                gate.call(who, &session(who), round * 60);
            }
            for (expected, seconds) in [(first, 5), (second, 10)] {
                let (who, ticket) = gate.end(running, round * 60 + seconds);
                assert_eq!(who, expected, "in round {round}");
                running = ticket;
            }
            gate.call("busy", "", round * 60 + 11);
            running = gate.end(running, round * 60 + 15).1;
        }
    }
}
