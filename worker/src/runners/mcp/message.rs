//! Reads the messages of a server.

use openskill_proto::limits::MAX_JSON_VALUES;
use rmcp::model::{ErrorCode, ErrorData, NumberOrString, RequestId, ServerJsonRpcMessage};

use super::broken::Remains;
use crate::untrusted_json::{Unreadable, count, parse};

/// The longest message, in bytes.
pub(super) const MAX_MESSAGE_BYTES: usize = 16 * 1024 * 1024;

/// The code of errors in place of answers that are too large. Servers use smaller numbers.
pub(super) const TOO_LARGE: i32 = i32::MIN;

/// A text that is not a message.
pub(super) struct Unread {
    /// What can be told of it all the same.
    pub(super) remains: Remains,
    reason: Unreadable,
}

/// Reads one message.
///
/// # Errors
/// It has too many values, or is not a message.
pub(super) fn read(text: &[u8]) -> Result<ServerJsonRpcMessage, Unread> {
    parse(text).map_err(|reason| Unread { remains: Remains::of(text), reason })
}

/// A text that the protocol library is about to parse, if it has not too many values. If it has, the error in its place, unless
/// it answers no request. `asked`: the request that it can only belong to.
pub(super) fn bounded(text: String, asked: Option<RequestId>) -> Option<String> {
    let Err(reason) = count(text.as_bytes()) else { return Some(text) };
    let remains = Remains::of(text.as_bytes());
    let answered = asked.or(remains.id.map(NumberOrString::Number)).filter(|_| !remains.has_method)?;
    serde_json::to_string(&Unread { remains, reason }.into_answer(answered)).ok()
}

impl Unread {
    /// The error that its request is answered with: no other answer follows.
    pub(super) fn into_answer(self, request: RequestId) -> ServerJsonRpcMessage {
        let error = match self.reason {
            Unreadable::TooManyValues => {
                let message = format!("the server's answer has more than {MAX_JSON_VALUES} values");
                ErrorData::new(ErrorCode(TOO_LARGE), message, None)
            }
            Unreadable::Invalid(_) => {
                ErrorData::parse_error("the server's answer is not a valid JSON-RPC response", None)
            }
        };
        ServerJsonRpcMessage::error(error, Some(request))
    }
}
