//! Finds disagreements between three witnesses of the same calls: the client, the gateway's log, and the file that a
//! skill with a side effect writes to.

use std::collections::{HashMap, HashSet};
use std::time::Instant;

use crate::gateway_log::Line;
use crate::journal::{Attempt, End};
use crate::skills;

/// How often the gateway may run a call of an idempotent skill.
const MAX_ATTEMPTS: usize = 3;

/// A disagreement between witnesses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Kind {
    /// The client never saw its attempt end.
    NoEnd,
    /// The client saw two ends.
    TwoEnds,
    /// The gateway answered but logged nothing.
    NoLine,
    /// The gateway logged one attempt twice.
    TwoLines,
    /// The gateway logged an attempt that nobody made.
    UnknownLine,
    /// The gateway logged another end than the client saw.
    OtherEnd,
    /// An attempt that cannot have reached the gateway did.
    NotSentButRun,
    /// A success without its effect.
    NoEffect,
    /// The effect of a rejected attempt.
    EffectOfRefused,
    /// The effect of an attempt that the gateway never logged.
    EffectWithoutLine,
    /// An effect that nobody requested.
    UnknownEffect,
    /// One attempt ran a skill more often than it may.
    EffectTwice,
    /// Two attempts ran a skill that must not run twice.
    CallTwice,
}

impl Kind {
    /// Whether a skill ran twice that must not.
    pub(crate) fn is_doubled(self) -> bool {
        matches!(self, Self::EffectTwice | Self::CallTwice)
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Disagreement {
    pub(crate) kind: Kind,
    pub(crate) call_id: String,
}

/// The records of all witnesses.
#[derive(Debug, Default)]
pub(crate) struct Ledger {
    pub(crate) attempts: Vec<Attempt>,
    pub(crate) lines: Vec<Line>,
    /// The call id of each effect.
    pub(crate) effects: Vec<String>,
    /// When a gateway was killed.
    pub(crate) killed: Vec<Instant>,
}

impl Ledger {
    /// All disagreements.
    pub(crate) fn disagreements(&self) -> Vec<Disagreement> {
        let lines = grouped(self.lines.iter().map(|line| (line.call_id.as_str(), line)));
        let effects = grouped(self.effects.iter().map(|id| (id.as_str(), ())));
        let mut found = Vec::new();
        for it in &self.attempts {
            let lines = lines.get(it.call_id.as_str()).map_or(&[][..], Vec::as_slice);
            let effects = effects.get(it.call_id.as_str()).map_or(0, Vec::len);
            let kinds = client(it).into_iter().chain(gateway(it, lines)).chain(self.effect(it, lines, effects));
            found.extend(kinds.map(|kind| Disagreement { kind, call_id: it.call_id.clone() }));
        }
        found.extend(self.unknown());
        found.extend(self.doubled_calls());
        found
    }

    fn effect(&self, it: &Attempt, lines: &[&Line], effects: usize) -> Vec<Kind> {
        let most = if skills::runs_at_most_once(it.skill) { 1 } else { MAX_ATTEMPTS };
        let killed = self.killed.iter().any(|moment| (it.begun..=it.ended).contains(moment));
        let refused = skills::runs_at_most_once(it.skill) && it.ends.iter().any(is_refusal);
        let missing = skills::has_effect(it.skill) && it.ends.contains(&End::Ok) && effects == 0;
        [
            (effects > most, Kind::EffectTwice),
            (effects > 0 && refused, Kind::EffectOfRefused),
            (effects > 0 && lines.is_empty() && !killed, Kind::EffectWithoutLine),
            (effects > 0 && it.ends.iter().any(|end| matches!(end, End::NotSent(_))), Kind::NotSentButRun),
            (missing, Kind::NoEffect),
        ]
        .into_iter()
        .filter_map(|(holds, kind)| holds.then_some(kind))
        .collect()
    }

    /// Log lines and effects of attempts that nobody made.
    fn unknown(&self) -> Vec<Disagreement> {
        let known: HashSet<_> = self.attempts.iter().map(|it| it.call_id.as_str()).collect();
        let lines = self.lines.iter().map(|line| (Kind::UnknownLine, &line.call_id));
        let effects = self.effects.iter().map(|id| (Kind::UnknownEffect, id));
        let unknown = lines.chain(effects).filter(|(_, id)| !known.contains(id.as_str()));
        unknown.map(|(kind, id)| Disagreement { kind, call_id: id.clone() }).collect()
    }

    /// Calls that must not run twice but had effects in several attempts.
    fn doubled_calls(&self) -> Vec<Disagreement> {
        let effects: HashSet<_> = self.effects.iter().map(String::as_str).collect();
        let once = self.attempts.iter().filter(|it| skills::runs_at_most_once(it.skill));
        let run = once.filter(|it| effects.contains(it.call_id.as_str()));
        let calls = grouped(run.map(|it| (it.call.as_str(), ())));
        let doubled = calls.into_iter().filter(|(_, attempts)| attempts.len() > 1);
        doubled.map(|(call, _)| Disagreement { kind: Kind::CallTwice, call_id: call.to_owned() }).collect()
    }
}

fn grouped<'a, T>(pairs: impl Iterator<Item = (&'a str, T)>) -> HashMap<&'a str, Vec<T>> {
    let mut groups: HashMap<_, Vec<T>> = HashMap::new();
    for (key, value) in pairs {
        groups.entry(key).or_default().push(value);
    }
    groups
}

fn client(it: &Attempt) -> Option<Kind> {
    match it.ends.len() {
        0 => Some(Kind::NoEnd),
        1 => None,
        _ => Some(Kind::TwoEnds),
    }
}

fn gateway(it: &Attempt, lines: &[&Line]) -> Option<Kind> {
    let end = it.ends.first();
    match (end, lines) {
        (_, [_, _, ..]) => Some(Kind::TwoLines),
        // A draining gateway rejects a request before there is a call to log.
        (Some(End::Ok | End::Failed(_)), []) => Some(Kind::NoLine),
        (Some(End::Refused(code)), []) if code == "OVERLOADED" => Some(Kind::NoLine),
        (Some(End::NotSent(_)), [_]) => Some(Kind::NotSentButRun),
        (Some(end), [line]) if !agrees(end, line) => Some(Kind::OtherEnd),
        _ => None,
    }
}

fn agrees(end: &End, line: &Line) -> bool {
    match end {
        End::Ok => line.success,
        End::Failed(code) | End::Refused(code) => !line.success && line.code == *code,
        // Whether the gateway got the answer is unknown.
        End::NotSent(_) | End::Broken(_) | End::Dropped => true,
    }
}

fn is_refusal(end: &End) -> bool {
    let refusals = ["OVERLOADED", "CIRCUIT_OPEN", "INVALID_ARGUMENT"];
    matches!(end, End::Refused(_)) || matches!(end, End::Failed(code) if refusals.contains(&code.as_str()))
}

#[cfg(test)]
mod tests;
