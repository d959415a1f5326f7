//! Splits texts into words, scores how well they match a query, and decodes event streams. Does no I/O and uses no
//! clock.
//!
//! - [`words`]: splits text into words; [`stem`]: stems words; [`bm25`]: scores texts by shared words
//! - [`tools`]: ranks tools for a query; [`task`]: the words of a task in English or Chinese, and those that tools use
//! - [`word_list`]: the format of the lists in `data/`
//! - [`sse`]: decodes server-sent events; [`glob`]: matches patterns with stars

pub mod bm25;
pub mod glob;
pub mod pages;
pub mod sse;
pub mod stem;
pub mod task;
pub mod tools;
pub mod word_list;
pub mod words;
