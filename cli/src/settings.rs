//! Settings, in two stages.
//!
//! [`RawSettings`] has each value as text, from the first source that sets it: flag, environment, `.env` and
//! `openskill.toml` of the [`project`], default. [`Settings`] has only valid values. All problems are reported at once,
//! each with its source.

mod access;
mod agent;
mod files;
mod mcp;
pub(crate) mod names;
mod operations;
pub(crate) mod otlp;
pub(crate) mod paths;
mod problem;
pub(crate) mod project;
mod raw;
mod reader;
mod recorder;
mod resolve;
mod tls;
mod unknown;
#[cfg(feature = "worker")]
mod worker;

pub(crate) use mcp::McpFiles;
pub(crate) use problem::{SettingProblem, SettingProblems, mask_setting};
pub(crate) use raw::{Origin, Overrides, RawSettings};
pub(crate) use resolve::{LogFormat, Settings};
pub(crate) use unknown::unknown_variables;
#[cfg(feature = "worker")]
pub(crate) use worker::OWN_BINARY;
