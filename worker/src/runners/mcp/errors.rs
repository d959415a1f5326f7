//! Classifies servers' errors. Pure.
//!
//! Servers report an unknown tool or invalid arguments in different ways: as a JSON-RPC error, as a result with
//! `isError`, or as a plain answer. A plain answer counts as an error only if it is the only block, has the exact
//! wording of a known library, and names the called tool where that library does.

use openskill_proto::v1::{Blame, ErrorCode, SkillError};
use openskill_sandbox::untrusted_json::parse;

use super::texts::clean;

/// The maximum length of a message, in bytes.
const MAX_MESSAGE_BYTES: usize = 4096;

/// The maximum length of a plain answer that is checked for an error, in bytes.
const MAX_PLAIN_BYTES: usize = 4096;

/// The code of an error that replaces an oversized answer. Servers use higher numbers.
pub(super) const TOO_LARGE: i32 = i32::MIN;

/// The error code for failures that have no code in the protocol.
pub(super) const REFUSED: i32 = -32000;

/// The ways in which a call can fail.
#[derive(Debug, Clone, Copy)]
pub(super) enum CallFault<'a> {
    /// The server answered with a JSON-RPC error.
    Rpc { code: i32, message: &'a str },
    /// The text of a result with `isError`.
    Tool { text: &'a str },
    /// An answer that is not a valid tool result.
    NoResult,
    /// The connection ended, or broke, after the request was sent.
    Lost,
    /// The server answered with this HTTP status.
    Status(u16),
    /// No connection will be available before the deadline.
    Away { reason: &'a str },
    /// The call's deadline passed.
    Late,
}

/// Converts a fault to the call's error. `asked`: the server asked for input that the caller could not give.
pub(super) fn classify(fault: CallFault<'_>, asked: bool) -> SkillError {
    let said;
    let (code, message) = match fault {
        CallFault::Rpc { code, message } => (classify_rpc(code, message), message),
        CallFault::Tool { text } => (classify_text(text), text),
        CallFault::NoResult => (ErrorCode::McpParseError, "the server's answer is not a valid result of a tool"),
        CallFault::Lost => {
            (ErrorCode::McpNetworkError, "the connection to the server was lost; whether it ran the tool is not known")
        }
        CallFault::Status(status) => {
            let (code, what) = classify_status(status);
            said = format!("the server {what} (HTTP status {status})");
            (code, said.as_str())
        }
        CallFault::Away { reason } => (ErrorCode::McpNetworkError, reason),
        CallFault::Late => (ErrorCode::McpTimeout, "the server did not answer before the call's deadline"),
    };
    let server_failed = matches!(fault, CallFault::Rpc { .. } | CallFault::Tool { .. });
    let code = if asked && server_failed && code == ErrorCode::McpExecutionError {
        ErrorCode::AskUserUnavailable
    } else {
        code
    };
    let message = clean(message.trim(), MAX_MESSAGE_BYTES);
    let message = if message.is_empty() { "the server failed and did not say why".to_owned() } else { message };
    let error = SkillError::new(code, message);
    // The caller may use the skill. The server rejected the skill's own credentials.
    if matches!(fault, CallFault::Status(_)) { error.with_blame(Blame::Skill) } else { error }
}

fn classify_status(status: u16) -> (ErrorCode, &'static str) {
    match status {
        401 | 403 => (ErrorCode::PermissionDenied, "rejected the skill's credentials: check them"),
        429 => (ErrorCode::McpNetworkError, "is rate limiting"),
        503 => (ErrorCode::McpNetworkError, "is temporarily unavailable"),
        500.. => (ErrorCode::McpNetworkError, "failed; whether it ran the tool is not known"),
        _ => (ErrorCode::McpExecutionError, "refused the request"),
    }
}

fn classify_rpc(code: i32, message: &str) -> ErrorCode {
    match code {
        -32601 => ErrorCode::McpNotFound,
        -32602 if names_unknown_tool(&bare(message)) => ErrorCode::McpNotFound,
        -32602 => ErrorCode::McpParamError,
        -32700 | -32600 => ErrorCode::McpParseError,
        TOO_LARGE => ErrorCode::OutputTooLarge,
        // The codes for elicitation by URL, and for a client without this capability.
        -32042 | -32021 => ErrorCode::AskUserUnavailable,
        // The timeout code of the official TypeScript library.
        -32001 if says_late(&bare(message)) => ErrorCode::McpTimeout,
        _ => match classify_text(message) {
            // An internal error of the server. Its text may still refer to the caller's arguments or a timeout.
            code @ (ErrorCode::McpNotFound | ErrorCode::McpTimeout | ErrorCode::AskUserUnavailable) => code,
            _ => ErrorCode::McpExecutionError,
        },
    }
}

fn classify_text(text: &str) -> ErrorCode {
    if let Some((code, message)) = quoted_rpc(text) {
        return classify_rpc(code, message);
    }
    let bare = bare(text);
    if names_unknown_tool(&bare) {
        ErrorCode::McpNotFound
    } else if says_bad_arguments(&bare) {
        ErrorCode::McpParamError
    } else if says_late(&bare) {
        ErrorCode::McpTimeout
    } else if bare.contains("support elicitation") || bare.contains("elicitation not supported") {
        ErrorCode::AskUserUnavailable
    } else {
        ErrorCode::McpExecutionError
    }
}

/// Returns whether a plain answer is an error, according to the rule in the module's documentation.
pub(super) fn hidden_in(text: &str, tool: &str) -> bool {
    if text.len() > MAX_PLAIN_BYTES {
        return false;
    }
    let text = text.trim();
    let said = [
        format!("unknown tool: {tool}"),
        format!("unknown tool: '{tool}'"),
        format!("unknown tool '{tool}'"),
        format!("tool {tool} not found"),
        format!("tool '{tool}' not found"),
        format!("tool not found: {tool}"),
    ];
    let lower = text.to_ascii_lowercase();
    let whole = lower.strip_prefix("error: ").unwrap_or(&lower).trim_end_matches(['.', '!']);
    said.iter().any(|it| it.to_ascii_lowercase() == whole)
        || text.starts_with(&format!("Error executing tool {tool}: "))
        || text.starts_with(&format!("Error calling tool '{tool}': "))
        || text.starts_with("Input validation error: ")
        || text.starts_with(&format!("MCP error -32602: Input validation error: Invalid arguments for tool {tool}: "))
        || is_pydantic(&lower) && lower.contains(&format!("for {}arguments\n", tool.to_ascii_lowercase()))
}

/// Parses `MCP error -32602: ...`, the form in which the official TypeScript library quotes a JSON-RPC error in a text.
fn quoted_rpc(text: &str) -> Option<(i32, &str)> {
    let rest = text.trim_start();
    let rest = rest.strip_prefix("Error: ").or_else(|| rest.strip_prefix("McpError: ")).unwrap_or(rest);
    let (code, message) = rest.strip_prefix("MCP error ")?.split_once(": ")?;
    Some((code.parse().ok()?, message))
}

/// Returns the text in lower case, without the prefixes that libraries add.
fn bare(text: &str) -> String {
    let mut text = text.trim_start();
    loop {
        let known = ["Error: ", "McpError: ", "ToolError: ", "ValueError: ", "ValidationError: "];
        if let Some(rest) = known.iter().find_map(|prefix| text.strip_prefix(prefix)) {
            text = rest;
            continue;
        }
        let by_tool = text.strip_prefix("Error executing tool ").or_else(|| text.strip_prefix("Error calling tool "));
        match by_tool.and_then(|rest| rest.split_once(": ")).filter(|(tool, _)| !tool.contains(' ')) {
            Some((_, rest)) => text = rest,
            None => return text.to_ascii_lowercase(),
        }
    }
}

fn names_unknown_tool(bare: &str) -> bool {
    let starts = ["unknown tool", "tool not found", "no such tool", "unrecognized tool", "method not found"];
    let line = bare.lines().next().unwrap_or_default().trim_end_matches(['.', '!']);
    starts.iter().any(|it| line.starts_with(it))
        || line
            .strip_prefix("tool ")
            .and_then(|rest| rest.strip_suffix(" not found"))
            .is_some_and(|name| !name.contains(' '))
}

fn says_bad_arguments(bare: &str) -> bool {
    let starts = [
        "input validation error",
        "invalid arguments",
        "invalid argument:",
        "invalid params",
        "invalid parameters",
        "missing required argument",
        "missing required parameter",
        "missing 1 required positional argument",
    ];
    starts.iter().any(|it| bare.starts_with(it)) || is_pydantic(bare) || is_zod(bare)
}

/// Matches `2 validation errors for statusArguments`.
fn is_pydantic(bare: &str) -> bool {
    let rest = bare.trim_start_matches(|it: char| it.is_ascii_digit());
    rest.len() < bare.len()
        && (rest.starts_with(" validation error for ") || rest.starts_with(" validation errors for "))
}

/// Matches a list of zod issues: `[{"code": "invalid_type", "path": ["x"], ...}]`.
fn is_zod(bare: &str) -> bool {
    let issues = parse::<Vec<serde_json::Map<String, serde_json::Value>>>(bare.trim().as_bytes());
    issues.is_ok_and(|issues| {
        !issues.is_empty()
            && issues.iter().all(|it| it.contains_key("code") && it.contains_key("path") && it.contains_key("message"))
    })
}

fn says_late(bare: &str) -> bool {
    ["request timed out", "timed out", "timeout", "tool execution timed out"].iter().any(|it| bare.starts_with(it))
}

#[cfg(test)]
mod tests {
    use super::*;
    use openskill_proto::v1::{Blame, Grade};

    #[test]
    fn each_wording_of_an_error_has_its_code() {
        use ErrorCode as Code;
        let rpc = |code, message| CallFault::Rpc { code, message };
        let tool = |text| CallFault::Tool { text };
        let pydantic =
            "Error executing tool git_status: 1 validation error for statusArguments\nrepo_path\n  Field required";
        let zod = r#"[{"code": "invalid_type", "path": ["a"], "message": "Required"}]"#;
        let zod_quoted = "MCP error -32602: Invalid arguments for tool add: [\n]";
        let table = [
            (rpc(-32601, "Method not found"), Code::McpNotFound),
            (rpc(-32602, "Unknown tool: nope"), Code::McpNotFound),
            (rpc(-32602, "Tool nope not found"), Code::McpNotFound),
            (rpc(-32602, "timezone is required"), Code::McpParamError),
            (rpc(-32700, "Parse error"), Code::McpParseError),
            (rpc(-32600, "Invalid request"), Code::McpParseError),
            (rpc(-32603, "boom"), Code::McpExecutionError),
            (rpc(-32603, "Unknown tool: nope"), Code::McpNotFound),
            (rpc(-32001, "Request timed out"), Code::McpTimeout),
            (rpc(-32001, "quota"), Code::McpExecutionError),
            (rpc(-32603, "Timed out after 30 s"), Code::McpTimeout),
            (rpc(-32042, "open a page"), Code::AskUserUnavailable),
            (rpc(7, "1 validation error for x\n"), Code::McpExecutionError),
            (tool("Unknown tool: nope"), Code::McpNotFound),
            (tool("Error: Tool 'nope' not found."), Code::McpNotFound),
            (tool("MCP error -32602: Tool nope not found"), Code::McpNotFound),
            (tool(pydantic), Code::McpParamError),
            (tool("2 validation errors for GitLog\nx"), Code::McpParamError),
            (tool("Input validation error: 'a' is a required property"), Code::McpParamError),
            (tool(zod), Code::McpParamError),
            (tool(zod_quoted), Code::McpParamError),
            (tool("Error executing tool x: Invalid timezone"), Code::McpExecutionError),
            (tool("The tool box not found in the garage not found"), Code::McpExecutionError),
            (tool("Client does not support elicitation"), Code::AskUserUnavailable),
            (tool(""), Code::McpExecutionError),
            (CallFault::NoResult, Code::McpParseError),
            (CallFault::Lost, Code::McpNetworkError),
            (CallFault::Status(401), Code::PermissionDenied),
            (CallFault::Status(403), Code::PermissionDenied),
            (CallFault::Status(429), Code::McpNetworkError),
            (CallFault::Status(503), Code::McpNetworkError),
            (CallFault::Status(413), Code::McpExecutionError),
            (CallFault::Away { reason: "gone" }, Code::McpNetworkError),
            (CallFault::Late, Code::McpTimeout),
        ];
        for (fault, code) in table {
            assert_eq!(classify(fault, false).code(), code, "{fault:?}");
        }
    }

    #[test]
    fn grade_and_blame_follow_the_code() {
        let error = classify(CallFault::Rpc { code: -32602, message: "x" }, false);
        assert_eq!((error.grade(), error.blame(), error.retryable), (Grade::ParamError, Blame::Caller, false));
        let error = classify(CallFault::Status(401), false);
        assert_eq!((error.blame(), error.retryable), (Blame::Skill, false));
        assert!(classify(CallFault::Status(503), false).message.contains("503"));
        let error = classify(CallFault::Lost, false);
        assert_eq!((error.grade(), error.blame(), error.retryable), (Grade::NetworkError, Blame::Skill, true));
    }

    #[test]
    fn a_failure_after_an_unanswered_question_is_ask_user_unavailable() {
        assert_eq!(classify(CallFault::Tool { text: "no name given" }, true).code(), ErrorCode::AskUserUnavailable);
        assert_eq!(classify(CallFault::Lost, true).code(), ErrorCode::McpNetworkError);
        assert_eq!(classify(CallFault::Rpc { code: -32602, message: "x" }, true).code(), ErrorCode::McpParamError);
    }

    #[test]
    fn a_plain_answer_is_an_error_only_in_a_known_wording() {
        for text in [
            "Unknown tool: add",
            "Error: Tool add not found.",
            "Error executing tool add: boom",
            "Input validation error: 'a' is a required property",
            "1 validation error for addArguments\na\n  Field required",
        ] {
            assert!(hidden_in(text, "add"), "{text}");
        }
        for text in [
            "Error: the disk was full",
            "Unknown tool: hammer",
            "Unknown tool: add, says the log",
            "error",
            "The word 'timeout' means",
            "1 validation error for somebody else\n",
        ] {
            assert!(!hidden_in(text, "add"), "{text}");
        }
    }

    #[test]
    fn a_message_is_bounded_and_has_no_control_characters() {
        let long = format!("\u{1b}[2J{}", "x".repeat(100_000));
        let error = classify(CallFault::Tool { text: &long }, false);
        assert!(error.message.len() <= MAX_MESSAGE_BYTES && error.message.starts_with("[2J"));
    }
}
