//! Interprets provider errors: statuses, messages, and retry delays. Does no I/O.

use std::time::{Duration, SystemTime};

use serde_json::Value;

use crate::config::Secret;
use crate::model::ModelError;

/// The maximum length of a provider's message that is passed on, in bytes.
const MAX_REASON_BYTES: usize = 512;

/// The maximum retry delay that is passed on.
const MAX_RETRY_AFTER: Duration = Duration::from_secs(24 * 3600);

/// JSON pointers to error messages.
const MESSAGES: [&str; 8] = [
    "/error/message",
    "/message",
    "/response/error/message",
    "/error",
    "/detail",
    "/detail/0/msg",
    "/errors/0/message",
    "/0/error/message",
];

/// JSON pointers to error codes and types, most specific first.
const CODES: [&str; 8] = [
    "/error/code",
    "/code",
    "/response/error/code",
    "/0/error/code",
    "/error/type",
    "/error/status",
    "/type",
    "/status",
];

/// An error reported by a provider.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ProviderError {
    /// The HTTP status in the error, or the one that corresponds to its code.
    pub(crate) status: u16,
    /// The unmodified message.
    message: String,
    retry_after: Option<Duration>,
}

impl ProviderError {
    /// Parses an error object in any known position. Returns `None` if the JSON contains no error.
    pub(crate) fn from_json(json: &str) -> Option<Self> {
        let json: Value = serde_json::from_str(json).ok()?;
        let holds = |place: &str| json.pointer(place).is_some_and(|it| !it.is_null());
        let is_error = ["/error", "/errors", "/0/error", "/response/error"].iter().any(|place| holds(place))
            || ["/object", "/type"].iter().any(|place| json.pointer(place).and_then(Value::as_str) == Some("error"));
        is_error.then(|| Self {
            status: CODES.iter().find_map(|place| status(json.pointer(place)?)).unwrap_or(500),
            message: message(&json).unwrap_or_default(),
            retry_after: retry_info(&json),
        })
    }

    /// Creates an error from text that contains no error object.
    pub(crate) fn from_text(text: &str) -> Self {
        Self { status: 500, message: text.to_owned(), retry_after: None }
    }

    /// Converts the error for display, with a sanitized message.
    pub(crate) fn into_error(self, provider: &str, key: Option<&Secret>) -> ModelError {
        let reason = sanitize(&self.message, key);
        let reason = if reason.is_empty() { "it gave no reason".to_owned() } else { reason };
        ModelError::Refused {
            provider: provider.to_owned(),
            status: self.status,
            reason,
            retry_after: self.retry_after,
        }
    }
}

/// Returns the error for a response with a failure status. `body` is the beginning of the response body.
pub(crate) fn error_from_status(
    provider: &str,
    status: u16,
    body: &str,
    retry_after: Option<Duration>,
    key: Option<&Secret>,
) -> ModelError {
    let json: Option<Value> = serde_json::from_str(body).ok();
    let message = json.as_ref().and_then(message).unwrap_or_else(|| plain(body));
    let retry_after = retry_after.or_else(|| json.as_ref().and_then(retry_info));
    ProviderError { status, message, retry_after }.into_error(provider, key)
}

/// Returns the error for a successful response that is not a stream.
pub(crate) fn error_from_unstreamed(provider: &str, body: &str, key: Option<&Secret>) -> ModelError {
    if let Some(error) = ProviderError::from_json(body) {
        return error.into_error(provider, key);
    }
    let reason = if body.trim_start().starts_with('<') {
        "it is an HTML page: the base URL leads to something else"
    } else {
        "it is one JSON document instead of a stream of events"
    };
    ModelError::Malformed { provider: provider.to_owned(), reason: reason.to_owned() }
}

/// Sanitizes a provider's text: a single line of limited length, printable, and without the key.
pub(crate) fn sanitize(text: &str, key: Option<&Secret>) -> String {
    let masked = match key {
        Some(key) => text.replace(key.expose(), "***"),
        None => text.to_owned(),
    };
    let mut line = String::new();
    for word in masked.split(|it: char| it.is_whitespace() || is_unprintable(it)).filter(|word| !word.is_empty()) {
        if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(word);
        if line.len() > MAX_REASON_BYTES {
            break;
        }
    }
    line.truncate(line.floor_char_boundary(MAX_REASON_BYTES));
    line
}

/// Returns whether this is a control character, or a character that changes how the surrounding text is displayed.
fn is_unprintable(it: char) -> bool {
    it.is_control()
        || matches!(it, '\u{ad}' | '\u{61c}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{feff}')
        || matches!(it, '\u{2060}'..='\u{206f}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}')
}

/// Returns the delay before a retry, from `retry-after-ms`, or from `retry-after` in seconds or as an HTTP date
/// relative to `now`.
pub(crate) fn retry_after(millis: Option<&str>, header: Option<&str>, now: SystemTime) -> Option<Duration> {
    let from_millis = millis.and_then(|it| it.trim().parse::<f64>().ok()).and_then(|it| seconds(it / 1000.0));
    let wait = from_millis.or_else(|| {
        let text = header?.trim();
        let date = || httpdate::parse_http_date(text).ok().map(|at| at.duration_since(now).unwrap_or_default());
        text.parse::<f64>().ok().and_then(seconds).or_else(date)
    })?;
    Some(wait.min(MAX_RETRY_AFTER))
}

fn seconds(number: f64) -> Option<Duration> {
    if number.is_nan() {
        return None;
    }
    Duration::try_from_secs_f64(number.min(MAX_RETRY_AFTER.as_secs_f64())).ok()
}

/// Returns the retry delay in Google's error details: `"retryDelay": "17s"`.
fn retry_info(json: &Value) -> Option<Duration> {
    let error = json.get("error").or_else(|| json.pointer("/0/error"))?;
    let delay = error.get("details")?.as_array()?.iter().find_map(|it| it.get("retryDelay")?.as_str())?;
    seconds(delay.strip_suffix('s')?.parse().ok()?)
}

fn message(json: &Value) -> Option<String> {
    MESSAGES.iter().find_map(|place| json.pointer(place)?.as_str()).map(str::to_owned)
}

/// Returns the HTTP status that corresponds to an error code.
fn status(code: &Value) -> Option<u16> {
    let number = code.as_u64().or_else(|| code.as_str()?.parse().ok());
    if let Some(number) = number {
        return u16::try_from(number).ok().filter(|it| (400..600).contains(it));
    }
    let code = code.as_str()?.to_ascii_lowercase();
    let has = |parts: &[&str]| parts.iter().any(|part| code.contains(part));
    Some(match code.as_str() {
        // These are only event names.
        "error" | "response.failed" => return None,
        _ if has(&["overloaded"]) => 529,
        _ if has(&["insufficient_quota", "billing", "arrearage"]) => 402,
        _ if has(&["rate_limit", "resource_exhausted", "throttling", "too_many_requests"]) => 429,
        _ if has(&["invalid_api_key", "authentication", "unauthenticated"]) => 401,
        _ if has(&["permission"]) => 403,
        _ if has(&["not_found"]) => 404,
        _ if has(&["timeout", "deadline_exceeded"]) => 504,
        _ if has(&["unavailable"]) => 503,
        _ if has(&["too_large"]) => 413,
        _ if has(&["invalid", "bad_request", "badrequest", "context_length", "failed_precondition", "inspection"]) => {
            400
        }
        _ if has(&["server_error", "api_error", "internal"]) => 500,
        _ => return None,
    })
}

/// Returns the message in a body that is not JSON: the title of an HTML page, or else the whole text.
fn plain(body: &str) -> String {
    let body = body.trim();
    if !body.starts_with('<') {
        return body.to_owned();
    }
    let lower = body.to_ascii_lowercase();
    let title = lower.find("<title>").map(|at| at + 7).and_then(|from| {
        let to = lower[from..].find("</title>")? + from;
        body.get(from..to)
    });
    match title {
        Some(title) if !title.trim().is_empty() => format!("an HTML page: {}", title.trim()),
        _ => "an HTML page".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(json: &str) -> (u16, String) {
        let error = ProviderError::from_json(json).unwrap();
        (error.status, error.message)
    }

    #[test]
    fn every_provider_s_error_is_understood() {
        for (json, status, message) in [
            (r#"{"error":{"message":"Slow down","type":"requests","code":"rate_limit_exceeded"}}"#, 429, "Slow down"),
            (r#"{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}"#, 529, "Overloaded"),
            (r#"{"type":"error","error":{"type":"api_error","message":"Oops"}}"#, 500, "Oops"),
            (r#"{"error":{"code":503,"message":"Busy","status":"UNAVAILABLE"}}"#, 503, "Busy"),
            (r#"[{"error":{"code":429,"message":"Quota","status":"RESOURCE_EXHAUSTED"}}]"#, 429, "Quota"),
            (r#"{"object":"error","message":"too long","type":"BadRequestError","code":400}"#, 400, "too long"),
            (r#"{"type":"error","code":"server_error","message":"Oh","sequence_number":3}"#, 500, "Oh"),
            (
                r#"{"type":"response.failed","response":{"error":{"code":"rate_limit_exceeded","message":"No"}}}"#,
                429,
                "No",
            ),
            (r#"{"error":"model 'x' not found"}"#, 500, "model 'x' not found"),
            (r#"{"error":{}}"#, 500, ""),
        ] {
            assert_eq!(parsed(json), (status, message.to_owned()), "{json}");
        }
        for no_error in [r#"{"error":null,"choices":[]}"#, "{}", "[]", "<html>", "\"error\""] {
            assert_eq!(ProviderError::from_json(no_error), None, "{no_error}");
        }
    }

    #[test]
    fn a_reason_is_one_printable_line_of_at_most_512_bytes_without_the_key() {
        let key = Secret::new("sk-secret").unwrap();
        let text = "Bad\u{1b}[31m key:\n\tsk-secret\u{202e} x";
        assert_eq!(sanitize(text, Some(&key)), "Bad [31m key: *** x");
        let long = sanitize(&"é".repeat(1000), None);
        assert_eq!((long.len(), long.chars().all(|it| it == 'é')), (512, true));
    }

    #[test]
    fn an_error_page_is_named_by_its_title() {
        let page = "<!DOCTYPE html><html><head><TITLE>502 Bad\nGateway</TITLE></head><body>...</body></html>";
        let reason = |body: &str| match error_from_status("openai", 502, body, None, None) {
            ModelError::Refused { reason, .. } => reason,
            other => panic!("{other:?}"),
        };
        assert_eq!(reason(page), "an HTML page: 502 Bad Gateway");
        assert_eq!(reason("<html><title>"), "an HTML page");
        assert_eq!(reason("upstream connect error"), "upstream connect error");
        assert_eq!(reason(""), "it gave no reason");
        assert_eq!(reason(r#"{"detail":[{"loc":["body"],"msg":"field required"}]}"#), "field required");
    }

    #[test]
    fn when_to_ask_again_is_read_in_every_form() {
        let now = httpdate::parse_http_date("Sun, 06 Nov 1994 08:49:37 GMT").unwrap();
        let at = |header: &str| retry_after(None, Some(header), now);
        assert_eq!(at("7"), Some(Duration::from_secs(7)));
        assert_eq!(at(" 1.5 "), Some(Duration::from_millis(1500)));
        assert_eq!(at("Sun, 06 Nov 1994 08:50:07 GMT"), Some(Duration::from_secs(30)));
        assert_eq!(at("Sun, 06 Nov 1994 08:00:00 GMT"), Some(Duration::ZERO), "a date that passed");
        assert_eq!(at("99999999999999999999"), Some(MAX_RETRY_AFTER));
        assert_eq!((at("soon"), at("-1"), at("NaN"), at("")), (None, None, None, None));
        assert_eq!(retry_after(Some("250"), Some("7"), now), Some(Duration::from_millis(250)));
        let google = r#"{"error":{"code":429,"message":"x","details":[{"@type":"t"},{"retryDelay":"17s"}]}}"#;
        match error_from_status("gemini", 429, google, None, None) {
            ModelError::Refused { retry_after, .. } => assert_eq!(retry_after, Some(Duration::from_secs(17))),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn an_answer_at_once_is_an_error_that_says_why() {
        let of = |body: &str| error_from_unstreamed("openai", body, None).to_string();
        assert_eq!(of(r#"{"error":{"message":"no such model","code":404}}"#), "openai answered 404: no such model");
        assert!(of("<html>").contains("HTML page"));
        assert!(of(r#"{"choices":[]}"#).contains("instead of a stream"));
    }
}
