//! What the tests of all wire formats share: how a stream is read, and a conversation with everything in it.

use serde_json::Value;

use crate::message::{Message, ModelCall, ModelResult};
use crate::provider::model::{Reply, Request, Stop};
use crate::provider::reader::{ReadError, Reader};
use crate::provider::wire::{Fault, Wire};

/// What came of a stream: the text that was handed on, and the reply.
pub(in crate::provider) type Read = (String, Result<Reply, ReadError>);

/// Reads a stream that arrives in chunks of these sizes, the last of which repeats.
pub(in crate::provider) fn read_in(wire: &dyn Wire, stream: &[u8], sizes: &[usize]) -> Read {
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
    (seen, reply.map_err(ReadError::Fold))
}

/// Reads a stream that arrives at once.
pub(in crate::provider) fn read(wire: &dyn Wire, stream: &str) -> Result<Reply, ReadError> {
    let (seen, reply) = read_in(wire, stream.as_bytes(), &[]);
    reply.inspect(|reply| assert_eq!(seen, reply.text, "what was handed on is the reply's text"))
}

/// One recorded stream of each kind, for [`Streams::hold`].
pub(in crate::provider) struct Streams<'a> {
    /// A whole one, with text that is not ASCII and at least two calls.
    pub(in crate::provider) whole: &'a str,
    /// Where its end begins: anything before it is cut off.
    pub(in crate::provider) end: &'a str,
}

/// Builds a stream of events from their data.
pub(in crate::provider) fn streams(data: &[&str]) -> String {
    data.iter().map(|it| format!("data: {it}\n\n")).collect()
}

impl Streams<'_> {
    /// Borders of chunks, line ends, comments and cuts: none changes what is read, or lets half an answer pass.
    pub(in crate::provider) fn hold(&self, wire: &dyn Wire) {
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
            assert_eq!(cut, Err(ReadError::Fold(Fault::CutOff)), "the stream ends at {at}");
        }
    }
}

/// The request's body as JSON, for a conversation.
pub(in crate::provider) fn sent(wire: &dyn Wire, request: &Request) -> Value {
    serde_json::from_slice(&wire.body(request, true)).unwrap()
}

/// A conversation with text, two calls, one of them not JSON, and their results. The first call has this to go back.
pub(in crate::provider) fn history(opaque: &str) -> Request {
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
    Request {
        system: "Be brief.".to_owned(),
        messages: vec![
            Message::User("Add é".to_owned()),
            Message::Assistant { text: "Well".to_owned(), calls },
            Message::Results(results),
        ],
        may_call: true,
        max_tokens: 100,
        ..Request::default()
    }
}

/// The stop and the calls of a reply: their ids, names and arguments.
pub(in crate::provider) fn calls(reply: &Reply) -> (Stop, Vec<(&str, &str, &str)>) {
    (reply.stop, reply.calls.iter().map(|it| (it.id.as_str(), it.name.as_str(), it.arguments.as_str())).collect())
}
