//! User inputs to a conversation.

use openskill_proto::v1;
/// A user input: a message that begins a turn, answers, a decision about a call, or the end of the turn.
pub use openskill_proto::v1::chat_request::Request as Input;

/// Returns the id of the request that an input answers or decides about.
pub(crate) fn request_id(input: &Input) -> Option<&str> {
    match input {
        Input::Answers(it) => Some(&it.request_id),
        Input::Decision(it) => Some(&it.request_id),
        Input::Message(_) | Input::Cancel(_) => None,
    }
}

/// Returns the id of the request whose call may continue after an input, or `None` if no call may continue.
pub(crate) fn permits(input: &Input) -> Option<&str> {
    match input {
        Input::Answers(it) if !it.declined => Some(&it.request_id),
        Input::Decision(it) if it.decision() != v1::Decision::Deny => Some(&it.request_id),
        _ => None,
    }
}
