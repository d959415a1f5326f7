//! Trace ids: the caller's `X-Trace-Id`, and W3C trace context. A malformed id is replaced and never propagated.

use sha2::{Digest as _, Sha256};

use crate::limits::MAX_TRACE_ID_BYTES;
use crate::tracestate;

/// The trace ids of a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Trace {
    /// The `X-Trace-Id`, from the caller or generated here.
    pub id: String,
    /// The parent span of the call in its OpenTelemetry trace.
    pub context: TraceContext,
    /// Whether the caller sent a valid `traceparent`. If so, `context` is a span of the caller.
    pub has_parent: bool,
    /// The caller's `tracestate`. Empty without a valid `traceparent`.
    pub state: String,
    /// Whether the caller sent a malformed `X-Trace-Id`, which was replaced.
    pub replaced: bool,
}

/// A W3C trace context: a trace, a span in it, and whether the trace is sampled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TraceContext {
    /// The trace id. Never all zero.
    pub trace_id: [u8; 16],
    /// The id of the calling span. Never all zero.
    pub span_id: [u8; 8],
    /// The W3C trace flags. Bit 0 means sampled.
    pub flags: u8,
}

impl Trace {
    /// Returns the warning for a caller whose `X-Trace-Id` was replaced.
    pub fn warning(&self) -> Option<String> {
        self.replaced.then(|| "X-Trace-Id was replaced: it must be 1 to 128 visible ASCII characters".to_owned())
    }

    /// Parses the three trace headers of a request.
    ///
    /// Without a `traceparent`, callers can find the trace by their own id: an `X-Trace-Id` of 32 hex digits
    /// becomes the OpenTelemetry trace id, and any other id is hashed to the first 16 bytes of its SHA-256.
    pub fn from_headers(trace_id: Option<&[u8]>, traceparent: Option<&[u8]>, tracestate: Option<&[u8]>) -> Self {
        let given = trace_id.and_then(valid_trace_id);
        let parent = traceparent.and_then(|value| TraceContext::parse(std::str::from_utf8(value).ok()?));
        let context = parent.unwrap_or_else(|| TraceContext {
            trace_id: given.map_or_else(random_id, derive_trace_id),
            span_id: random_id(),
            flags: 1,
        });
        Self {
            id: given.map_or_else(|| hex(&context.trace_id), str::to_owned),
            context,
            has_parent: parent.is_some(),
            state: parent.and(tracestate).and_then(tracestate::valid).unwrap_or_default().to_owned(),
            replaced: trace_id.is_some() && given.is_none(),
        }
    }
}

impl TraceContext {
    /// Parses a `traceparent`. For versions above 00, it reads the fields of version 00, as W3C requires.
    pub fn parse(value: &str) -> Option<Self> {
        let mut parts = value.trim().split('-');
        let (version, trace, span, flags) = (parts.next()?, parts.next()?, parts.next()?, parts.next()?);
        let version = unhex::<1>(version)?[0];
        if version == 0xff || (version == 0 && parts.next().is_some()) {
            return None;
        }
        let context = Self { trace_id: unhex(trace)?, span_id: unhex(span)?, flags: unhex::<1>(flags)?[0] };
        (context.trace_id != [0; 16] && context.span_id != [0; 8]).then_some(context)
    }

    /// Whether the caller marked the trace as sampled.
    pub fn is_sampled(&self) -> bool {
        self.flags & 1 == 1
    }

    /// Formats a `traceparent`, version 00.
    pub fn to_traceparent(&self) -> String {
        // Version 00 defines one flag. The other flags are not propagated.
        let (trace, span) = (u128::from_be_bytes(self.trace_id), u64::from_be_bytes(self.span_id));
        format!("00-{trace:032x}-{span:016x}-{:02x}", u8::from(self.is_sampled()))
    }
}

/// Derives the OpenTelemetry trace id of an `X-Trace-Id`, so that callers can look up a trace by the id that they
/// sent.
pub fn derive_trace_id(id: &str) -> [u8; 16] {
    if let Some(bytes) = unhex::<16>(&id.to_ascii_lowercase()).filter(|bytes| *bytes != [0; 16]) {
        return bytes;
    }
    let digest = Sha256::digest(id.as_bytes());
    let mut trace_id = [0; 16];
    trace_id.copy_from_slice(&digest[..16]);
    trace_id
}

/// Formats bytes as lower-case hexadecimal digits.
pub fn hex(bytes: &[u8]) -> String {
    // Faster than `hex::encode`, which pushes one character after the other.
    let mut digits = vec![0; 2 * bytes.len()];
    let _ = hex::encode_to_slice(bytes, &mut digits);
    String::from_utf8(digits).unwrap_or_default()
}

/// Returns random bytes for an id. Never all zero.
pub fn random_id<const N: usize>() -> [u8; N] {
    loop {
        let id: [u8; N] = rand::random();
        if id != [0; N] {
            return id;
        }
    }
}

fn valid_trace_id(value: &[u8]) -> Option<&str> {
    let fits = !value.is_empty() && value.len() <= MAX_TRACE_ID_BYTES && value.iter().all(u8::is_ascii_graphic);
    fits.then(|| std::str::from_utf8(value).ok()).flatten()
}

/// Parses exactly `N` bytes of lower-case hexadecimal digits.
pub fn unhex<const N: usize>(text: impl AsRef<[u8]>) -> Option<[u8; N]> {
    let mut bytes = [0; N];
    let is_lower = !text.as_ref().iter().any(u8::is_ascii_uppercase);
    hex::decode_to_slice(text, &mut bytes).ok().filter(|()| is_lower).map(|()| bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PARENT: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

    #[test]
    fn a_traceparent_round_trips() {
        let context = TraceContext::parse(PARENT).expect("valid");
        assert_eq!(context.to_traceparent(), PARENT);
    }

    #[test]
    fn a_malformed_traceparent_is_rejected() {
        for text in [
            "",
            "00-00000000000000000000000000000000-00f067aa0ba902b7-01",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01",
            "ff-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
            "00-4BF92F3577B34DA6A3CE929D0E0E4736-00f067aa0ba902b7-01",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-extra",
            "00-4bf92f3577b34da6a3ce929d0e0e473-00f067aa0ba902b7-01",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7",
        ] {
            assert_eq!(TraceContext::parse(text), None, "{text}");
        }
    }

    #[test]
    fn a_later_version_is_parsed_as_version_zero() {
        let later = format!("cc{}-what-the-future-will-be-like", &PARENT[2..]);
        assert!(TraceContext::parse(&later).is_some());
    }

    #[test]
    fn a_valid_id_is_kept_and_determines_the_trace() {
        let trace = Trace::from_headers(Some(b"demo-123"), None, None);
        assert_eq!(trace.id, "demo-123");
        assert_eq!(trace.context.trace_id, derive_trace_id("demo-123"));
        let hex_id = "4bf92f3577b34da6a3ce929d0e0e4736";
        let trace = Trace::from_headers(Some(hex_id.as_bytes()), None, None);
        assert_eq!(hex(&trace.context.trace_id), hex_id);
    }

    #[test]
    fn a_malformed_id_is_replaced_and_reported() {
        for bad in [&b""[..], b"two words", b"tab\there", "snow\u{2603}".as_bytes(), &[b'x'; 129]] {
            let trace = Trace::from_headers(Some(bad), None, None);
            assert!(trace.replaced);
            assert_eq!(trace.id.len(), 32);
        }
    }

    #[test]
    fn the_callers_traceparent_takes_precedence_over_its_trace_id() {
        let trace = Trace::from_headers(Some(b"demo-123"), Some(PARENT.as_bytes()), Some(b"vendor=1"));
        assert_eq!(trace.id, "demo-123");
        assert_eq!(trace.context.to_traceparent(), PARENT);
        assert!(trace.has_parent);
        assert_eq!(trace.state, "vendor=1");
    }

    #[test]
    fn a_tracestate_without_a_traceparent_is_dropped() {
        assert_eq!(Trace::from_headers(None, None, Some(b"vendor=1")).state, "");
    }
}
