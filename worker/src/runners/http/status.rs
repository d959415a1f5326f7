//! Maps HTTP statuses, and failures without a response, to errors. Pure.

use std::time::{Duration, SystemTime};

use openskill_net::egress::cause::{cause, refusal};
use openskill_net::egress::reach::EgressRefusal;
use openskill_net::egress::transport::{LookUpError, SendError};
use openskill_proto::json::{depth, select};
use openskill_proto::limits::MAX_JSON_DEPTH;
use openskill_proto::v1::{Blame, ErrorCode, SkillError};
use reqwest::StatusCode;
use serde_json::value::RawValue;

/// The maximum delay that a server can request with `Retry-After`.
const MAX_RETRY_AFTER: Duration = Duration::from_secs(3600);

/// The maximum size of an error's JSON body that is passed on whole, and of an excerpt of any other body, in
/// bytes.
const MAX_JSON_BYTES: usize = 16 * 1024;
const MAX_EXCERPT_BYTES: usize = 2048;

/// The maximum length of a server's message, in bytes.
const MAX_MESSAGE_BYTES: usize = 512;

/// JSON pointers to the usual places of a server's message.
const USUAL_PLACES: [&str; 6] = ["/error/message", "/message", "/error_description", "/error", "/detail", "/title"];

/// Creates the error for a response with this status. Masks secrets in `body`. `pointer`: selects the message, if
/// the manifest sets it.
pub(super) fn error_from_response(
    status: StatusCode,
    retry_after: Option<Duration>,
    body: &str,
    pointer: &str,
) -> SkillError {
    let json = serde_json::from_str::<&RawValue>(body).ok();
    let message = json.and_then(|json| message(json, pointer));
    let reason = status.canonical_reason().map(|reason| format!(" {reason}")).unwrap_or_default();
    let said = message.map(|text| format!(": {text}")).unwrap_or_default();
    let error = error_from_status(status.as_u16(), format!("the server answered {}{reason}{said}", status.as_u16()));
    let body = match json {
        Some(json) if json.get().len() <= MAX_JSON_BYTES && depth(body.as_bytes()) < MAX_JSON_DEPTH => {
            json.get().to_owned()
        }
        _ => serde_json::Value::from(excerpt(body, MAX_EXCERPT_BYTES)).to_string(),
    };
    let error = error.with_details(format!("{{\"status\":{},\"body\":{body}}}", status.as_u16()));
    match retry_after.filter(|_| error.retryable) {
        Some(time) => error.with_retry_after_ms(time.as_millis() as u64),
        None => error,
    }
}

fn error_from_status(status: u16, message: String) -> SkillError {
    let code = match status {
        400 | 413 | 414 | 422 | 431 => ErrorCode::InvalidArgument,
        // The worker's credential was rejected, so the caller can't fix this.
        401 | 403 | 407 => return SkillError::new(ErrorCode::PermissionDenied, message).with_blame(Blame::Skill),
        404 | 410 => ErrorCode::NotFound,
        408 | 504 => ErrorCode::Timeout,
        429 | 502 | 503 => ErrorCode::NetworkError,
        _ => ErrorCode::ExecutionError,
    };
    SkillError::new(code, message)
}

/// Creates the error for a request that the egress rules refused. Only the skill's author can fix it.
pub(super) fn error_from_refusal(refusal: &EgressRefusal) -> SkillError {
    SkillError::new(ErrorCode::PermissionDenied, refusal.to_string()).with_blame(Blame::Skill)
}

/// Creates the error for a request without a response.
pub(super) fn error_from_send(error: &SendError) -> SkillError {
    match error {
        SendError::TooManyInterim => SkillError::new(ErrorCode::ExecutionError, error.to_string()),
        SendError::Failed(failed) => error_from_cause(error, failed.is_connect()),
        SendError::Request(_) => error_from_cause(error, false),
    }
}

/// Creates the error for a failure with this cause. `connecting`: there was no connection yet.
pub(super) fn error_from_cause(error: &(dyn std::error::Error + 'static), connecting: bool) -> SkillError {
    if let Some(refusal) = refusal(error) {
        return error_from_refusal(refusal);
    }
    let io = cause::<std::io::Error>(error).map(std::io::Error::kind);
    let message = if cause::<LookUpError>(error).is_some() {
        "the server's name cannot be resolved".to_owned()
    } else if let Some(tls) = cause::<rustls::Error>(error) {
        format!(
            "a secure connection to the server could not be established: {}",
            excerpt(&tls.to_string(), MAX_MESSAGE_BYTES)
        )
    } else if io == Some(std::io::ErrorKind::TimedOut) {
        "the connection to the server timed out".to_owned()
    } else if connecting {
        format!("the connection to the server failed{}", io.map(|kind| format!(": {kind}")).unwrap_or_default())
    } else {
        "the connection to the server broke before its answer was complete".to_owned()
    };
    SkillError::new(ErrorCode::NetworkError, message)
}

/// Parses `Retry-After` as a delay relative to `now`: seconds, or a date in the preferred format.
pub(super) fn retry_after(value: &str, now: SystemTime) -> Option<Duration> {
    let value = value.trim();
    let wait = match value.parse::<u64>() {
        Ok(seconds) if value.bytes().all(|it| it.is_ascii_digit()) => Duration::from_secs(seconds),
        _ => httpdate::parse_http_date(value).ok()?.duration_since(now).unwrap_or_default(),
    };
    Some(wait.min(MAX_RETRY_AFTER))
}

fn message(json: &RawValue, pointer: &str) -> Option<String> {
    let places = if pointer.is_empty() { &USUAL_PLACES[..] } else { &[pointer][..] };
    let text = |place: &&str| serde_json::from_str::<String>(select(json.get(), place)?).ok();
    let text = places.iter().find_map(text)?;
    Some(excerpt(&text, MAX_MESSAGE_BYTES)).filter(|it| !it.is_empty())
}

/// Sanitizes a server's text for people: truncates it and removes control characters.
pub(super) fn excerpt(text: &str, limit: usize) -> String {
    let cut = &text[..text.floor_char_boundary(limit)];
    let plain = cut.chars().map(|it| if it.is_control() && it != '\n' { ' ' } else { it });
    plain.collect::<String>().trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(status: u16, body: &str) -> SkillError {
        error_from_response(StatusCode::from_u16(status).unwrap(), Some(Duration::from_secs(7)), body, "")
    }

    #[test]
    fn each_status_has_its_code_and_blame() {
        for (status, code, blame, retryable) in [
            (400, ErrorCode::InvalidArgument, Blame::Caller, false),
            (422, ErrorCode::InvalidArgument, Blame::Caller, false),
            (401, ErrorCode::PermissionDenied, Blame::Skill, false),
            (403, ErrorCode::PermissionDenied, Blame::Skill, false),
            (407, ErrorCode::PermissionDenied, Blame::Skill, false),
            (404, ErrorCode::NotFound, Blame::Caller, false),
            (410, ErrorCode::NotFound, Blame::Caller, false),
            (408, ErrorCode::Timeout, Blame::Skill, true),
            (504, ErrorCode::Timeout, Blame::Skill, true),
            (409, ErrorCode::ExecutionError, Blame::Skill, false),
            (405, ErrorCode::ExecutionError, Blame::Skill, false),
            (413, ErrorCode::InvalidArgument, Blame::Caller, false),
            (429, ErrorCode::NetworkError, Blame::Skill, true),
            (500, ErrorCode::ExecutionError, Blame::Skill, false),
            (502, ErrorCode::NetworkError, Blame::Skill, true),
            (503, ErrorCode::NetworkError, Blame::Skill, true),
            (599, ErrorCode::ExecutionError, Blame::Skill, false),
        ] {
            let error = of(status, "");
            assert_eq!((error.code(), error.blame(), error.retryable), (code, blame, retryable), "{status}");
            assert_eq!(error.retry_after_ms, if retryable { 7000 } else { 0 }, "{status}");
        }
    }

    #[test]
    fn the_servers_message_is_found_and_its_body_passed_on() {
        let error = of(404, r#"{"error": {"message": "no such\u0007 city"}}"#);
        assert_eq!(error.message, "the server answered 404 Not Found: no such  city");
        let more = format!("{:?}", error.more);
        assert!(more.contains(r#"\"status\":404"#) && more.contains("no such"), "{more}");
        let error = error_from_response(StatusCode::BAD_REQUEST, None, r#"{"why": ["a", "b"]}"#, "/why/1");
        assert!(error.message.ends_with(": b"), "{error:?}");
        let deep = of(500, &("[".repeat(64) + &"]".repeat(64)));
        assert!(format!("{:?}", deep.more).contains(r#"\"body\":\"[[["#), "{deep:?}");
        let long = of(500, &format!("<html>{}", "x".repeat(100_000)));
        assert!(format!("{:?}", long.more).len() < 3000);
        assert_eq!(long.message, "the server answered 500 Internal Server Error");
    }

    #[test]
    fn retry_after_is_read_and_bounded() {
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(784_111_777 - 30);
        let seconds = |text: &str| retry_after(text, now).map(|it| it.as_secs());
        assert_eq!(seconds("120"), Some(120));
        assert_eq!(seconds("Sun, 06 Nov 1994 08:49:37 GMT"), Some(30));
        assert_eq!(seconds("Sun, 06 Nov 1994 08:00:00 GMT"), Some(0));
        assert_eq!(seconds("99999999"), Some(3600));
        assert_eq!(seconds("Fri, 31 Dec 9999 23:59:59 GMT"), Some(3600));
        for bad in ["", "soon", "-5", "+5", "1.5", "Sun, 06 Foo 1994 08:49:37 GMT", "Thu, 01 Jan 1970 00:00:00 UTC"] {
            assert_eq!(seconds(bad), None, "{bad}");
        }
        assert_eq!(seconds("Thu, 01 Jan 1970 00:00:00 GMT"), Some(0));
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(1_709_208_000 - 5);
        assert_eq!(retry_after("Thu, 29 Feb 2024 12:00:00 GMT", now), Some(Duration::from_secs(5)));
    }
}
