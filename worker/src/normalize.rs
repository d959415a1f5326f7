//! Converts a run's raw output to a valid result. Pure.
//!
//! The contract of a process: stdout contains exactly one JSON value. An object with a boolean `success` is a
//! normalized result. Any other value is data. The exit code is 0 for success, 1 for an invalid argument, 2 for
//! invalid JSON, and 3 for an internal fault. The run failed if output and exit code disagree or if it left a
//! process running, because callers must be able to trust a success.

use openskill_proto::json;
use openskill_proto::limits::MAX_JSON_DEPTH;
use openskill_proto::v1::{Blame, ErrorCode, ExecuteResult, SkillError, skill_error::More};
use openskill_sandbox::protocol::Exit;
use openskill_sandbox::untrusted_json::without_byte_order_mark;
use serde_json::value::RawValue;

use crate::runner::RawOutput;

pub(crate) mod exception;
pub(crate) mod printed;
mod report;

use report::{ParsedOutput, ReportedError, SkillReport, read_artifacts};

/// The maximum length of the message and of the text in a result, in bytes. Longer ones are truncated.
const MAX_TEXT_BYTES: usize = 4096;

/// The maximum length of a line of stdout in a message, in bytes.
const MAX_PRINTED_BYTES: usize = 200;

/// The maximum size of an error's details, in bytes. Larger ones are dropped, with a warning.
const MAX_DETAILS_BYTES: usize = 64 * 1024;

/// Determines a result together with the run's output.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct NormalizeOptions {
    /// Whether an error's details include the end of stderr.
    pub(crate) with_stderr: bool,
    /// Whether the skill's jail blocks the network.
    pub(crate) networkless: bool,
    /// Whether the call was given secrets, which its stdout may contain.
    pub(crate) has_secrets: bool,
}

/// Normalizes a run's output. Artifacts in the result have no ids and the skill's own labels. The caller applies
/// the call's limits to them.
pub(crate) fn normalize(raw: RawOutput, options: NormalizeOptions) -> ExecuteResult {
    match raw {
        RawOutput::Value(text) => normalize_value(&text),
        RawOutput::Answer { json, otherwise, refused } => {
            let result = normalize_answer(&json, otherwise);
            ExecuteResult { not_started: refused && !result.success, ..result }
        }
        RawOutput::Report { data, text, truncated } => {
            let result = normalize_value(&data);
            if result.success { ExecuteResult { text: cut(&text).to_owned(), truncated, ..result } } else { result }
        }
        RawOutput::Failed(error) => failure_result(error),
        RawOutput::NotStarted(error) => ExecuteResult { not_started: true, ..failure_result(error) },
        RawOutput::Process { stdout, stderr, exit, leftovers, .. } => {
            with_reasons(normalize_process(&stdout, &stderr, exit, leftovers, options), &stderr, options)
        }
    }
}

/// Adds to a failure what stderr says about its reason.
fn with_reasons(mut result: ExecuteResult, stderr: &[u8], options: NormalizeOptions) -> ExecuteResult {
    if let Some(error) = result.error.as_mut() {
        if options.networkless {
            name_missing_network(error, stderr);
        }
        if options.with_stderr {
            add_stderr(error, stderr);
        }
    }
    result
}

/// Creates the result for a failure that this module or a runner found, not the skill itself.
pub(crate) fn failure_result(error: SkillError) -> ExecuteResult {
    ExecuteResult { success: false, error: Some(error), ..ExecuteResult::default() }
}

fn broke(message: String) -> ExecuteResult {
    failure_result(SkillError::new(ErrorCode::ExecutionError, message))
}

fn success_result(data: &RawValue) -> ExecuteResult {
    let data_json = bytes::Bytes::copy_from_slice(data.get().as_bytes());
    ExecuteResult { success: true, data_json, ..ExecuteResult::default() }
}

/// Normalizes the value of an in-process function, or a value that was selected from an answer. It is always data.
/// If it is invalid, the skill is to blame.
fn normalize_value(text: &str) -> ExecuteResult {
    match one_value(text) {
        Ok(value) => success_result(value),
        Err(reason) => broke(format!("the answer {reason}")),
    }
}

/// Normalizes a server's answer, which may be in the format of scripts (see [`ParsedOutput::read_from_server`]). A
/// reason for a failure overrides the status. A claimed success does not.
fn normalize_answer(text: &str, otherwise: Option<SkillError>) -> ExecuteResult {
    let answer = one_value(text).map(|value| (value, ParsedOutput::read_from_server(value)));
    match (answer, otherwise) {
        (Ok((_, ParsedOutput::Report(report))), otherwise) if otherwise.is_none() || report.outcome.is_err() => {
            normalize_report(&report, 0)
        }
        (_, Some(error)) => failure_result(error),
        (Ok((_, ParsedOutput::Broken(reason))), None) => broke(format!("the server's answer {reason}")),
        (Ok((value, _)), None) => success_result(value),
        (Err(reason), None) => broke(format!("the server's answer {reason}")),
    }
}

/// Returns the exit code of a process that exited on its own and left no processes running. Otherwise returns why
/// the run failed.
fn exit_code(exit: Exit, leftovers: u32) -> Result<i32, String> {
    match exit {
        Exit::Signal(signal) => Err(format!("the skill was killed by {}", signal_name(signal))),
        _ if leftovers > 0 => Err(format!(
            "the skill left {leftovers} process(es) running when it ended; they were killed: \
             a skill must wait for every process that it starts"
        )),
        Exit::Code(code) => Ok(code),
    }
}

fn normalize_process(
    stdout: &[u8],
    stderr: &[u8],
    exit: Exit,
    leftovers: u32,
    options: NormalizeOptions,
) -> ExecuteResult {
    let code = match exit_code(exit, leftovers) {
        Ok(code) => code,
        Err(reason) => return broke(reason),
    };
    let Ok(text) = std::str::from_utf8(without_byte_order_mark(stdout)) else {
        return broke(format!("the skill's output is not UTF-8 (exit code {code})"));
    };
    if text.trim_ascii().is_empty() {
        let look = match exception::last_line(stderr).filter(|_| code != 0) {
            Some(exception) => format!(": {exception}"),
            None if code == 0 => String::new(),
            None => "; its stderr is in the worker's log at level debug".to_owned(),
        };
        return broke(format!("the skill printed nothing on stdout (exit code {code}){look}"));
    }
    match one_value(text) {
        Ok(value) => match ParsedOutput::read(value) {
            ParsedOutput::Report(report) => normalize_report(&report, code),
            ParsedOutput::Bare => normalize_bare_value(value, code),
            ParsedOutput::Broken(reason) => broke(format!("the skill's output {reason} (exit code {code})")),
        },
        Err(fault) => {
            // An exception is the reason why nothing followed what the skill printed before.
            let exception = exception::last_line(stderr).filter(|_| code != 0);
            let exception = exception.map_or_else(String::new, |it| format!(": {it}"));
            broke(format!("the skill's output {fault} (exit code {code}){exception}{}", fault.printed(text, options)))
        }
    }
}

/// The reasons why a text is not exactly one JSON value.
#[derive(Debug, thiserror::Error)]
enum ValueFault {
    #[error("is nested deeper than {MAX_JSON_DEPTH} levels")]
    TooDeep,
    #[error("has a key more than once, at '{}': keep only one", cut(.0))]
    RepeatedKey(String),
    /// Where the text after the first value begins.
    #[error("contains more than one JSON value: a skill must print exactly one")]
    Several(usize),
    #[error("is not valid JSON: {0}")]
    Invalid(serde_json::Error),
    #[error("is empty")]
    Empty,
}

impl ValueFault {
    /// Returns the line of stdout that is not part of the result, and what belongs on stdout. Empty if stdout
    /// contains nothing but the result. The line is not quoted if the call has secrets.
    fn printed(&self, stdout: &str, options: NormalizeOptions) -> String {
        let line = match self {
            Self::Several(at) => stdout[..*at].matches('\n').count() + 1,
            Self::Invalid(error) => error.line(),
            Self::TooDeep | Self::RepeatedKey(_) | Self::Empty => return String::new(),
        };
        let shown = stdout.lines().nth(line.saturating_sub(1)).and_then(|it| exception::quote(it, MAX_PRINTED_BYTES));
        let shown = match shown {
            None => String::new(),
            Some(_) if options.has_secrets => format!("; line {line} of stdout is not part of it"),
            Some(it) => format!("; line {line} of stdout is '{it}'"),
        };
        format!("{shown}; stdout is the result: print everything else to stderr")
    }
}

/// Parses exactly one JSON value with nothing after it. Rejects objects with repeated keys, because parsers
/// silently drop one of the values.
fn one_value(text: &str) -> Result<&RawValue, ValueFault> {
    if json::depth(text.as_bytes()) > MAX_JSON_DEPTH {
        return Err(ValueFault::TooDeep);
    }
    let mut values = serde_json::Deserializer::from_str(text).into_iter::<&RawValue>();
    let value = values.next().ok_or(ValueFault::Empty)?.map_err(ValueFault::Invalid)?;
    let rest = text[values.byte_offset()..].trim_ascii_start();
    if !rest.is_empty() {
        return Err(ValueFault::Several(text.len() - rest.len()));
    }
    json::repeated_key(value.get()).map_or(Ok(value), |path| Err(ValueFault::RepeatedKey(path)))
}

fn normalize_report(report: &SkillReport<'_>, code: i32) -> ExecuteResult {
    let mut result = match &report.outcome {
        Ok(_) if code != 0 => return broke(format!("the skill reported success but its exit code was {code}")),
        Ok(data) => success_result(data.unwrap_or(RawValue::NULL)),
        Err(reported) => normalize_reported_error(reported),
    };
    result.text = cut(&report.text).to_owned();
    result.version = cut(&report.version).to_owned();
    result.truncated = report.truncated;
    if let Some(listed) = report.artifacts {
        let (artifacts, warning) = read_artifacts(listed);
        result.artifacts = artifacts;
        result.warnings.extend(warning);
    }
    result
}

fn normalize_reported_error(reported: &ReportedError<'_>) -> ExecuteResult {
    let (code, unknown) = reported.code();
    let mut error = SkillError::new(code, cut(&reported.message));
    if matches!(error.blame(), Blame::Worker | Blame::Gateway) {
        // The skill itself reported the error, so the worker is not to blame.
        error = error.with_blame(Blame::Skill);
    }
    let mut warnings = Vec::new();
    if let Some(name) = unknown {
        let known = ErrorCode::names_for_skills().collect::<Vec<_>>().join(", ");
        warnings.push(format!("the skill returned the unknown error code '{}': use one of {known}", cut(&name)));
    }
    match reported.details {
        Some(details) if details.get().len() > MAX_DETAILS_BYTES => {
            warnings.push(format!("the error's details were dropped because they exceed {MAX_DETAILS_BYTES} bytes"));
        }
        Some(details) => error = error.with_details(details.get()),
        None => {}
    }
    ExecuteResult { warnings, ..failure_result(error) }
}

fn normalize_bare_value(value: &RawValue, exit: i32) -> ExecuteResult {
    let code = match exit {
        0 => return success_result(value),
        1 => ErrorCode::InvalidArgument,
        2 => ErrorCode::InvalidJson,
        3 => ErrorCode::Internal,
        _ => ErrorCode::ExecutionError,
    };
    let error = SkillError::new(code, format!("the skill ended with exit code {exit}"));
    let details = format!("{{\"output\": {}}}", value.get());
    failure_result(if details.len() > MAX_DETAILS_BYTES { error } else { error.with_details(details) })
}

/// Adds to the error that the skill has no network, if the failure suggests this.
fn name_missing_network(error: &mut SkillError, stderr: &[u8]) {
    let stderr = String::from_utf8_lossy(stderr);
    if exception::lacks_network(&error.message) || exception::lacks_network(&stderr) {
        error.message.push_str("; the skill has no network: grant it in its manifest, such as `network: [443]`");
    }
}

/// Adds the end of stderr to the error's details. Only for debugging, because stderr may contain paths and
/// secrets.
fn add_stderr(error: &mut SkillError, stderr: &[u8]) {
    if stderr.is_empty() {
        return;
    }
    let mut details = match &error.more {
        Some(More::DetailsJson(text)) => serde_json::from_str(text).unwrap_or_default(),
        _ => serde_json::Map::new(),
    };
    details.insert("stderr".to_owned(), String::from_utf8_lossy(stderr).into());
    error.more = Some(More::DetailsJson(serde_json::Value::Object(details).to_string()));
}

/// Truncates a text to `MAX_TEXT_BYTES` at a character boundary.
fn cut(text: &str) -> &str {
    &text[..text.floor_char_boundary(MAX_TEXT_BYTES)]
}

fn signal_name(signal: i32) -> String {
    let name = match signal {
        6 => "SIGABRT",
        9 => "SIGKILL (killed, or out of memory)",
        11 => "SIGSEGV",
        13 => "SIGPIPE",
        15 => "SIGTERM",
        24 => "SIGXCPU (over its CPU time)",
        25 => "SIGXFSZ (wrote a file over the limit)",
        _ => return format!("signal {signal}"),
    };
    name.to_owned()
}

#[cfg(test)]
mod tests;
