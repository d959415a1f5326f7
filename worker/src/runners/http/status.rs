//! Maps HTTP statuses, and failures without one, to errors. Pure.

use std::time::{Duration, SystemTime};

use openskill_proto::json::depth;
use openskill_proto::limits::MAX_JSON_DEPTH;
use openskill_proto::v1::{Blame, ErrorCode, SkillError};
use reqwest::StatusCode;
use serde_json::value::RawValue;

use super::cause::{cause, refusal};
use super::egress::Refusal;
use super::pointer;
use super::transport::{LookUpError, SendError};

/// The longest `Retry-After` that is passed on.
const MAX_RETRY_AFTER: Duration = Duration::from_secs(3600);

/// The largest JSON body of an error that is passed on whole, and the length to which any other is truncated.
const MAX_JSON_BYTES: usize = 16 * 1024;
const MAX_EXCERPT_BYTES: usize = 2048;

/// The longest message of a server that is passed on.
const MAX_MESSAGE_BYTES: usize = 512;

/// Where servers put their messages.
const USUAL_PLACES: [&str; 6] = ["/error/message", "/message", "/error_description", "/error", "/detail", "/title"];

/// The error of an answer with this status. Secrets in `body` are masked; `pointer` is the place of the message, if the
/// manifest names one.
pub(super) fn of_answer(status: StatusCode, retry_after: Option<Duration>, body: &str, pointer: &str) -> SkillError {
    let json = serde_json::from_str::<&RawValue>(body).ok();
    let message = json.and_then(|json| message(json, pointer));
    let reason = status.canonical_reason().map(|reason| format!(" {reason}")).unwrap_or_default();
    let said = message.map(|text| format!(": {text}")).unwrap_or_default();
    let error = of_status(status.as_u16(), format!("the server answered {}{reason}{said}", status.as_u16()));
    let body = match json {
        Some(json) if json.get().len() <= MAX_JSON_BYTES && depth(body.as_bytes()) < MAX_JSON_DEPTH => {
            json.get().to_owned()
        }
        _ => serde_json::Value::from(shown(body, MAX_EXCERPT_BYTES)).to_string(),
    };
    let error = error.with_details(format!("{{\"status\":{},\"body\":{body}}}", status.as_u16()));
    match retry_after.filter(|_| error.retryable) {
        Some(time) => error.with_retry_after_ms(time.as_millis() as u64),
        None => error,
    }
}

fn of_status(status: u16, message: String) -> SkillError {
    let code = match status {
        400 | 413 | 414 | 422 | 431 => ErrorCode::InvalidArgument,
        // The credential is the worker's: the caller cannot fix it.
        401 | 403 | 407 => return SkillError::new(ErrorCode::PermissionDenied, message).with_blame(Blame::Skill),
        404 | 410 => ErrorCode::NotFound,
        408 | 504 => ErrorCode::Timeout,
        429 | 502 | 503 => ErrorCode::NetworkError,
        _ => ErrorCode::ExecutionError,
    };
    SkillError::new(code, message)
}

/// The error of a request that the egress rules refused: the skill's author has to act.
pub(super) fn of_refusal(refusal: &Refusal) -> SkillError {
    SkillError::new(ErrorCode::PermissionDenied, refusal.to_string()).with_blame(Blame::Skill)
}

/// The error of a request without an answer.
pub(super) fn of_unanswered(error: &SendError) -> SkillError {
    match error {
        SendError::TooManyInterim => SkillError::new(ErrorCode::ExecutionError, error.to_string()),
        SendError::Failed(failed) => of_fault(error, failed.is_connect()),
        SendError::Request(_) => of_fault(error, false),
    }
}

/// The error of an answer that is not complete.
pub(super) fn of_broken_answer(error: &reqwest::Error) -> SkillError {
    of_fault(error, false)
}

fn of_fault(error: &(dyn std::error::Error + 'static), connecting: bool) -> SkillError {
    if let Some(refusal) = refusal(error) {
        return of_refusal(refusal);
    }
    let io = cause::<std::io::Error>(error).map(std::io::Error::kind);
    let message = if cause::<LookUpError>(error).is_some() {
        "the server's name cannot be resolved".to_owned()
    } else if let Some(tls) = cause::<rustls::Error>(error) {
        format!("no secure connection to the server: {}", shown(&tls.to_string(), MAX_MESSAGE_BYTES))
    } else if io == Some(std::io::ErrorKind::TimedOut) {
        "the connection to the server timed out".to_owned()
    } else if connecting {
        format!("the connection to the server failed{}", io.map(|kind| format!(": {kind}")).unwrap_or_default())
    } else {
        "the connection to the server broke before its answer was complete".to_owned()
    };
    SkillError::new(ErrorCode::NetworkError, message)
}

/// The delay that `Retry-After` asks for, from `now`: seconds, or a date in the preferred format.
pub(super) fn retry_after(value: &str, now: SystemTime) -> Option<Duration> {
    let value = value.trim();
    let wait = match value.parse::<u64>() {
        Ok(seconds) if value.bytes().all(|it| it.is_ascii_digit()) => Duration::from_secs(seconds),
        _ => (SystemTime::UNIX_EPOCH + Duration::from_secs(seconds_of(value)?)).duration_since(now).unwrap_or_default(),
    };
    Some(wait.min(MAX_RETRY_AFTER))
}

/// `Sun, 06 Nov 1994 08:49:37 GMT` as seconds since 1970.
fn seconds_of(date: &str) -> Option<u64> {
    const MONTHS: [&str; 12] = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    let parts: Vec<_> = date.split([' ', ':']).collect();
    let [_, day, month, year, hour, minute, second, "GMT"] = parts[..] else { return None };
    let number = |text: &str, most: u64| text.parse::<u64>().ok().filter(|it| *it <= most);
    let month = MONTHS.iter().position(|it| *it == month)? as u64 + 1;
    let (day, year) = (number(day, 31)?, number(year, 9999).filter(|it| *it >= 1970)?);
    // In years that begin in March the leap day is the last day.
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let days = 365 * year + year / 4 - year / 100 + year / 400 + (153 * month + 2) / 5 + day;
    let days = days.checked_sub(719_469)?;
    Some(days * 86_400 + number(hour, 23)? * 3600 + number(minute, 59)? * 60 + number(second, 60)?)
}

fn message(json: &RawValue, pointer: &str) -> Option<String> {
    let places = if pointer.is_empty() { &USUAL_PLACES[..] } else { &[pointer][..] };
    let text = |place: &&str| serde_json::from_str::<String>(pointer::find(json, place)?.get()).ok();
    let text = places.iter().find_map(text)?;
    Some(shown(&text, MAX_MESSAGE_BYTES)).filter(|it| !it.is_empty())
}

/// A server's text for people: bounded, without control characters.
pub(super) fn shown(text: &str, limit: usize) -> String {
    let cut = &text[..text.floor_char_boundary(limit)];
    let plain = cut.chars().map(|it| if it.is_control() && it != '\n' { ' ' } else { it });
    plain.collect::<String>().trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(status: u16, body: &str) -> SkillError {
        of_answer(StatusCode::from_u16(status).unwrap(), Some(Duration::from_secs(7)), body, "")
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
        let error = of_answer(StatusCode::BAD_REQUEST, None, r#"{"why": ["a", "b"]}"#, "/why/1");
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
        assert_eq!(seconds_of("Thu, 01 Jan 1970 00:00:00 GMT"), Some(0));
        assert_eq!(seconds_of("Thu, 29 Feb 2024 12:00:00 GMT"), Some(1_709_208_000));
    }
}
