//! What must not be in a history.

use std::fmt::{Display, Formatter};

/// Something that must not happen. `key` is the call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Violation {
    Missing { key: String, operation: String },
    Unfinished { key: String, operation: String, state: String },
    ResultChanged { key: String, operation: String },
    OtherEnd { key: String, operation: String },
    ResultOfUnknown { key: String, operation: String },
    EventGap { key: String, operation: String, number: u64 },
    RanTwice { key: String, runs: usize },
    SuccessWithoutEffect { key: String, operation: String },
    EffectOfNotRun { key: String, operation: String, code: String },
    EffectAfterCancel { key: String, operation: String },
    EffectTooEarly { key: String, by_ms: u64 },
    EffectOfRefused { key: String },
    EffectWithoutOperation { key: String },
    UnknownEffect { key: String },
    UnknownOperation { key: String, operation: String },
    TooManyOperations { key: String, operations: usize, most: usize },
}

impl Display for Violation {
    fn fmt(&self, to: &mut Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Missing { key, operation } => write!(to, "{key}: {operation} was acknowledged, and is not there"),
            Self::Unfinished { key, operation, state } => {
                write!(to, "{key}: {operation} has no result at the end, its state is {state}")
            }
            Self::ResultChanged { key, operation } => {
                write!(to, "{key}: two reads of {operation} gave different results")
            }
            Self::OtherEnd { key, operation } => {
                write!(to, "{key}: {operation} has another result at the end than one that a client read")
            }
            Self::ResultOfUnknown { key, operation } => {
                write!(to, "{key}: the result of {operation} was read before anybody knew that operation")
            }
            Self::EventGap { key, operation, number } => {
                write!(to, "{key}: a stream of {operation} continued with event {number}, which is not the next one")
            }
            Self::RanTwice { key, runs } => write!(to, "{key}: the skill ran {runs} times and is not idempotent"),
            Self::SuccessWithoutEffect { key, operation } => {
                write!(to, "{key}: {operation} succeeded, and the run that it names had no effect")
            }
            Self::EffectOfNotRun { key, operation, code } => {
                write!(to, "{key}: {operation} ended with {code} and may_have_run = false, and its skill ran")
            }
            Self::EffectAfterCancel { key, operation } => {
                write!(to, "{key}: the skill of {operation} ran after it was cancelled without a start")
            }
            Self::EffectTooEarly { key, by_ms } => write!(to, "{key}: the skill ran {by_ms} ms before start_at"),
            Self::EffectOfRefused { key } => write!(to, "{key}: every submit was refused, and the skill ran"),
            Self::EffectWithoutOperation { key } => write!(to, "{key}: the skill ran, and there is no operation"),
            Self::UnknownEffect { key } => write!(to, "{key}: a skill ran for a call that nobody submitted"),
            Self::UnknownOperation { key, operation } => {
                write!(to, "{key}: there is {operation} of a call that nobody submitted")
            }
            Self::TooManyOperations { key, operations, most } => {
                write!(to, "{key}: the call has {operations} operations, and may have {most}")
            }
        }
    }
}
