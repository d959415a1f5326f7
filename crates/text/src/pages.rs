//! Reads pages, ranks their sentences for a question, and quotes them. Does no I/O and uses no clock.
//!
//! ```text
//! bytes -> charset -> html | markdown | plain -> Document -> sentences -> rank(Question) -> quotes -> answer
//! ```
//!
//! - [`document`]: the text of a page, in blocks with headings; [`html`], [`markdown`], [`plain`]: the parsers
//! - [`charset`]: decodes bytes into text
//! - [`sentences`]: splits text into sentences; [`crate::words`] splits it into words
//! - [`question`], [`cues`]: what a question asks for, and which words indicate an answer
//! - [`index`]: finds pages among many, and how rare words are; [`rank`]: finds sentences in pages
//! - [`quote`]: selects and verifies quotes; [`answer`]: composes them; [`gaps`]: what no quote covers;
//!   [`support`]: the parts of a model's answer that the quotes support
//!
//! All work is bounded and linear in the length of the text, because pages are untrusted.

pub mod answer;
pub mod charset;
pub mod cues;
pub mod document;
pub mod gaps;
pub mod html;
pub mod index;
pub mod markdown;
pub mod plain;
pub mod question;
pub mod quote;
pub mod rank;
pub mod sentences;
pub mod support;
