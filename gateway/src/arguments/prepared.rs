//! The outcome of preparing arguments.

use std::borrow::Cow;

use super::feedback::Feedback;
use super::kind::Repair;

/// Arguments that match the skill's schema.
#[derive(Debug, Clone, PartialEq)]
pub struct Prepared<'a> {
    /// A JSON object as text. Arguments that were valid are here byte for byte.
    pub text: Cow<'a, str>,
    /// What was changed, in order. Empty if and only if `text` is the original text.
    pub repairs: Vec<Repair>,
}

/// Why a call is rejected.
#[derive(Debug, Clone, PartialEq)]
pub enum Rejected {
    /// The text is not JSON that can be read. The message says why.
    Unreadable(String),
    /// The arguments are JSON, but do not match the schema.
    Unfit(Box<Feedback>),
}
