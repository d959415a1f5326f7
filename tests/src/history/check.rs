//! Finds violations in a history. The order of its events is the order in which they were written.

use std::collections::{BTreeMap, BTreeSet};

use super::violation::Violation;
use super::{Event, Outcome};

/// How far a gateway's estimate of its database's clock may be off: half of the round trip in which it is measured.
const CLOCK_ERROR_MS: u64 = 100;

/// Finds everything in a history that must not be there.
#[must_use]
pub fn check(events: &[Event]) -> Vec<Violation> {
    let mut calls: BTreeMap<&str, Vec<&Event>> = BTreeMap::new();
    for event in events {
        if let Some(key) = event.key() {
            calls.entry(key).or_default().push(event);
        }
    }
    calls.into_iter().flat_map(|(key, events)| CallHistory { key, events }.violations()).collect()
}

/// The events of one call.
struct CallHistory<'a> {
    key: &'a str,
    events: Vec<&'a Event>,
}

impl CallHistory<'_> {
    fn violations(&self) -> Vec<Violation> {
        let mut found = self.check_submits();
        found.extend(self.check_effects());
        for operation in self.operations() {
            found.extend(self.check_end(operation));
            found.extend(self.check_reads(operation));
            found.extend(self.check_runs(operation));
        }
        found
    }

    fn key(&self) -> String {
        self.key.to_owned()
    }

    fn count(&self, is_counted: impl Fn(&Event) -> bool) -> usize {
        self.events.iter().filter(|it| is_counted(it)).count()
    }

    /// Every operation that anybody names.
    fn operations(&self) -> BTreeSet<&str> {
        self.events.iter().filter_map(|it| operation(it)).collect()
    }

    /// How many submits were not refused.
    fn possible(&self) -> usize {
        let submitted = self.count(|it| matches!(it, Event::Submitted { .. }));
        let refused = self.count(|it| matches!(it, Event::Refused { .. }));
        let is_once = |it: &Event| matches!(it, Event::Submitted { has_idempotency_key: true, .. });
        let possible = submitted.saturating_sub(refused);
        if self.count(is_once) > 0 { possible.min(1) } else { possible }
    }

    fn is_submitted(&self) -> bool {
        self.count(|it| matches!(it, Event::Submitted { .. })) > 0
    }

    fn check_submits(&self) -> Vec<Violation> {
        let operations = self.operations();
        let first = operations.first().map(|it| (*it).to_owned());
        match (first, self.possible()) {
            (Some(operation), _) if !self.is_submitted() => {
                vec![Violation::UnknownOperation { key: self.key(), operation }]
            }
            (_, most) if operations.len() > most => {
                vec![Violation::TooManyOperations { key: self.key(), operations: operations.len(), most }]
            }
            _ => Vec::new(),
        }
    }

    fn effects(&self) -> impl Iterator<Item = Effect<'_>> {
        self.events.iter().enumerate().filter_map(|(position, event)| match event {
            Event::Effect { run, idempotent, time_ms, .. } => {
                Some(Effect { position, run, idempotent: *idempotent, time_ms: *time_ms })
            }
            _ => None,
        })
    }

    fn check_effects(&self) -> Vec<Violation> {
        let (runs, operations) = (self.effects().count(), self.operations().len());
        let key = self.key();
        if runs == 0 {
            return Vec::new();
        }
        if !self.is_submitted() {
            return vec![Violation::UnknownEffect { key }];
        }
        if self.possible() == 0 {
            return vec![Violation::EffectOfRefused { key }];
        }
        let mut found = Vec::new();
        if operations == 0 {
            found.push(Violation::EffectWithoutOperation { key: self.key() });
        }
        if runs > operations.max(1) && self.effects().any(|it| !it.idempotent) {
            found.push(Violation::RanTwice { key: self.key(), runs });
        }
        let start_at = self.events.iter().filter_map(|it| match it {
            Event::Submitted { start_at_ms, .. } => Some(*start_at_ms),
            _ => None,
        });
        let first = self.effects().map(|it| it.time_ms).min().unwrap_or(u64::MAX);
        let by_ms = start_at.min().unwrap_or(0).saturating_sub(first);
        if by_ms > CLOCK_ERROR_MS {
            found.push(Violation::EffectTooEarly { key, by_ms });
        }
        found
    }

    /// What the audit found.
    fn check_end(&self, id: &str) -> Option<Violation> {
        let end = self.events.iter().find_map(|it| match it {
            Event::Final { operation, state, outcome, .. } if operation == id => Some((state, outcome)),
            _ => None,
        });
        let (key, operation) = (self.key(), id.to_owned());
        match end {
            None => Some(Violation::Missing { key, operation }),
            Some((state, None)) => Some(Violation::Unfinished { key, operation, state: state.clone() }),
            Some((_, Some(end))) => {
                let differs = self.reads(id).any(|it| it != end);
                differs.then_some(Violation::OtherEnd { key, operation })
            }
        }
    }

    /// The results that clients read.
    fn reads(&self, id: &str) -> impl Iterator<Item = &Outcome> {
        self.events.iter().filter_map(move |it| match it {
            Event::Result { operation, outcome, .. } if operation == id => Some(outcome),
            _ => None,
        })
    }

    fn check_reads(&self, id: &str) -> Vec<Violation> {
        let (key, operation) = (self.key(), id.to_owned());
        let mut found = Vec::new();
        let mut reads = self.reads(id);
        if let Some(first) = reads.next()
            && reads.any(|it| it != first)
        {
            found.push(Violation::ResultChanged { key: key.clone(), operation: operation.clone() });
        }
        let known = self.events.iter().position(|it| match it {
            Event::Acknowledged { operation, .. } | Event::Listed { operation, .. } => operation == id,
            _ => false,
        });
        let read = self.events.iter().position(|it| matches!(it, Event::Result { operation, .. } if operation == id));
        if read.is_some_and(|read| known.is_none_or(|known| read < known)) {
            found.push(Violation::ResultOfUnknown { key: key.clone(), operation: operation.clone() });
        }
        let numbers = self.events.iter().filter_map(|it| match it {
            Event::Watched { operation, number, .. } if operation == id => Some(*number),
            _ => None,
        });
        // One client of a call watches, and resumes where it was.
        if let Some(number) = (1..).zip(numbers).find_map(|(next, number)| (number != next).then_some(number)) {
            found.push(Violation::EventGap { key, operation, number });
        }
        found
    }

    /// Whether the skill ran as the results say.
    fn check_runs(&self, id: &str) -> Vec<Violation> {
        let (key, operation) = (self.key(), id.to_owned());
        let ends = self.events.iter().filter_map(|it| match it {
            Event::Result { operation, outcome, .. } if operation == id => Some(outcome),
            Event::Final { operation, outcome, .. } if operation == id => outcome.as_ref(),
            _ => None,
        });
        let has_effect = self.effects().next().is_some();
        let mut found = Vec::new();
        for end in ends {
            let violation = if end.success && !self.effects().any(|it| it.run == end.run) {
                Violation::SuccessWithoutEffect { key: key.clone(), operation: operation.clone() }
            } else if !end.success && !end.may_have_run && has_effect {
                Violation::EffectOfNotRun { key: key.clone(), operation: operation.clone(), code: end.code.clone() }
            } else {
                continue;
            };
            if !found.contains(&violation) {
                found.push(violation);
            }
        }
        let cancelled = self.events.iter().position(
            |it| matches!(it, Event::Cancelled { operation, may_have_started: false, .. } if operation == id),
        );
        if cancelled.is_some_and(|cancelled| self.effects().any(|it| it.position > cancelled)) {
            found.push(Violation::EffectAfterCancel { key, operation });
        }
        found
    }
}

/// A start of a skill.
struct Effect<'a> {
    /// Where it is among the events of its call.
    position: usize,
    run: &'a str,
    idempotent: bool,
    time_ms: u64,
}

fn operation(event: &Event) -> Option<&str> {
    match event {
        Event::Acknowledged { operation, .. }
        | Event::Watched { operation, .. }
        | Event::Result { operation, .. }
        | Event::Cancelled { operation, .. }
        | Event::Listed { operation, .. }
        | Event::Final { operation, .. } => Some(operation),
        _ => None,
    }
}
