//! Helpers for the tests of all wire formats: reading streams, and a conversation that uses every feature.

use serde_json::Value;

use crate::message::{Message, ModelCall, ModelResult};
use crate::model::{ModelRequest, ModelResponse, StopReason};
use crate::wire::{Reader, Wire, WireError};

/// The result of reading a stream: the text that was passed on, and the reply.
pub(crate) type Read = (String, Result<ModelResponse, WireError>);

/// Reads a stream that arrives in chunks of these sizes. The last size is repeated.
pub(crate) fn read_in(wire: &dyn Wire, stream: &[u8], sizes: &[usize]) -> Read {
    let (mut reader, mut seen, mut rest, mut sizes) = (Reader::new(wire.fold()), String::new(), stream, sizes.iter());
    let mut size = stream.len().max(1);
    while !rest.is_empty() {
        size = sizes.next().copied().unwrap_or(size).max(1);
        let (chunk, after) = rest.split_at(size.min(rest.len()));
        rest = after;
        match reader.take(chunk, &mut |it| seen.push_str(it)) {
            Ok(false) => {}
            Ok(true) => break,
            Err(error) => return (seen, Err(error)),
        }
    }
    let reply = reader.end(&mut |it| seen.push_str(it));
    (seen, reply)
}

/// Reads a stream that arrives in a single chunk.
pub(crate) fn read(wire: &dyn Wire, stream: &str) -> Result<ModelResponse, WireError> {
    let (seen, reply) = read_in(wire, stream.as_bytes(), &[]);
    reply.inspect(|reply| assert_eq!(seen, reply.text, "what was handed on is the reply's text"))
}

/// A recorded stream for [`Streams::hold`].
pub(crate) struct Streams<'a> {
    /// A complete stream with non-ASCII text and at least two calls.
    pub(crate) whole: &'a str,
    /// The beginning of the stream's end. Anything shorter is cut off.
    pub(crate) end: &'a str,
}

/// Builds an event stream from event data.
pub(crate) fn streams(data: &[&str]) -> String {
    data.iter().map(|it| format!("data: {it}\n\n")).collect()
}

impl Streams<'_> {
    /// Checks that chunk boundaries, line endings and comments don't change what is read, and that cut streams are
    /// rejected.
    pub(crate) fn hold(&self, wire: &dyn Wire) {
        let (seen, reply) = read_in(wire, self.whole.as_bytes(), &[]);
        let reply = reply.unwrap();
        assert!(reply.calls.len() >= 2 && !reply.text.is_ascii() && reply.tokens.output > 0, "{reply:?}");
        assert_eq!(seen, reply.text);
        for at in 1..self.whole.len() {
            assert_eq!(
                read_in(wire, self.whole.as_bytes(), &[at, usize::MAX]),
                (seen.clone(), Ok(reply.clone())),
                "cut at {at}"
            );
        }
        for size in [1, 2, 3, 7] {
            assert_eq!(read_in(wire, self.whole.as_bytes(), &[size]), (seen.clone(), Ok(reply.clone())), "by {size}");
        }
        let windows = format!(": hello\r\n\r\n{}", self.whole.replace("\n\n", "\n: ping\n\n").replace('\n', "\r\n"));
        assert_eq!(read(wire, &windows).unwrap(), reply, "CRLF and comments");
        let end = self.whole.rfind(self.end).unwrap();
        for at in 0..end {
            let (_, cut) = read_in(wire, &self.whole.as_bytes()[..at], &[]);
            assert_eq!(cut, Err(WireError::CutOff), "the stream ends at {at}");
        }
    }
}

/// Returns the JSON body of the request for a conversation.
pub(crate) fn sent(wire: &dyn Wire, request: &ModelRequest) -> Value {
    serde_json::from_slice(&wire.body(request, true)).unwrap()
}

/// Returns a conversation with text, two calls, one of which has invalid JSON, and their results. The first call
/// has `opaque` as its opaque data.
pub(crate) fn history(opaque: &str) -> ModelRequest {
    let call = |id: &str, name: &str, arguments: &str, opaque: &str| ModelCall {
        id: id.to_owned(),
        name: name.to_owned(),
        arguments: arguments.to_owned(),
        opaque: opaque.to_owned(),
    };
    let result = |id: &str, name: &str, content: &str, is_error| ModelResult {
        call_id: id.to_owned(),
        name: name.to_owned(),
        content: content.to_owned(),
        is_error,
        pictures: Vec::new(),
    };
    let calls = vec![
        call("call_1", "add", r#"{"n": 12345678901234567890123}"#, opaque),
        call("functions.get:1", "no such.tool", "[1, 2,]", ""),
    ];
    let results = vec![result("call_1", "add", "3", false), result("functions.get:1", "no such.tool", "unknown", true)];
    ModelRequest {
        system: "Be brief.".to_owned(),
        messages: vec![
            Message::User("Add é".to_owned()),
            Message::Assistant { text: "Well".to_owned(), calls },
            Message::Results(results),
        ],
        may_call: true,
        max_tokens: 100,
        ..ModelRequest::default()
    }
}

/// Returns the stop reason of a reply, and the ids, names and arguments of its calls.
pub(crate) fn calls(reply: &ModelResponse) -> (StopReason, Vec<(&str, &str, &str)>) {
    (reply.stop, reply.calls.iter().map(|it| (it.id.as_str(), it.name.as_str(), it.arguments.as_str())).collect())
}
