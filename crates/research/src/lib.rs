//! Reads pages, ranks their sentences for a question, and quotes them. Pure: no I/O, no clock.
//!
//! ```text
//! bytes -> charset -> html | markdown | plain -> Document -> sentences -> rank(Question) -> quotes -> answer
//! ```
//!
//! - [`document`]: the text of a page, in blocks beneath headings; [`html`], [`markdown`], [`plain`]: where it comes from
//! - [`pdf_protocol`]: how the process is talked to that reads PDF files
//! - [`charset`]: from bytes to text
//! - [`words`], [`stem`], [`stopwords`]: what a word is; [`sentences`]: where a sentence ends
//! - [`question`], [`cues`]: what is asked for, and what looks like it
//! - [`index`]: finds pages among many; [`rarity`]: which words say most; [`rank`]: finds sentences in pages
//! - [`quote`]: what is cited, and its verification; [`answer`]: the text made of quotes; [`gaps`]: what no quote covers;
//!   [`support`]: what of a model's answer the quotes say
//!
//! Everything is linear in the text and bounded: pages are written by strangers.

pub mod answer;
pub mod charset;
pub mod cues;
pub mod document;
pub mod gaps;
pub mod html;
pub mod index;
pub mod markdown;
pub mod pdf_protocol;
pub mod plain;
pub mod question;
pub mod quote;
pub mod rank;
pub mod rarity;
pub mod sentences;
pub mod stem;
pub mod stopwords;
pub mod support;
pub mod words;
