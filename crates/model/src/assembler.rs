//! Assembles an answer: its text, and its calls in the order in which they began. The wire format tells to which
//! part of the answer an event belongs. If this is ambiguous, the answer is rejected as unreadable, so that no
//! call runs with incomplete arguments. Does no I/O.

use crate::calls::{self, Partial};
use crate::json::Json;
use crate::message::Tokens;
use crate::model::{ModelResponse, StopReason};
use crate::pieces::{JoinedText, Piece};
use crate::wire::WireError;

/// Identifies a part of an answer. Fields missing from the wire format are empty.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Key {
    /// The part's index in the answer.
    pub(crate) place: String,
    /// The item id.
    pub(crate) item: String,
    /// The call id.
    pub(crate) call: String,
}

/// A call that is still arriving, with its key.
#[derive(Debug, Default)]
pub(crate) struct Draft {
    pub(crate) key: Key,
    pub(crate) call: Partial,
    /// Whether the provider reported the end of the call.
    pub(crate) is_ended: bool,
    /// Whether arguments may be missing because they could not be assigned to a call.
    pub(crate) is_unclear: bool,
}

impl Draft {
    /// Returns whether more arguments may arrive.
    pub(crate) fn is_open(&self) -> bool {
        !self.is_ended && !self.call.is_closed()
    }

    /// Sets the complete arguments. Ignores empty text.
    pub(crate) fn set(&mut self, arguments: Option<Json<'_>>) -> Result<(), WireError> {
        let whole = arguments.map_or(Ok("".into()), Json::whole_text)?;
        if !whole.trim().is_empty() {
            self.call.set(&whole)?;
            self.is_unclear = false;
        }
        Ok(())
    }
}

/// The error for arguments that could belong to more than one call.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Unclear;

impl From<Unclear> for WireError {
    fn from(_: Unclear) -> Self {
        Self::Malformed("it does not say which call its arguments belong to".to_owned())
    }
}

/// Returns the error for arguments of a call that has not begun.
pub(crate) fn unknown_call() -> WireError {
    WireError::Malformed("it has arguments for a tool call that the provider did not start".to_owned())
}

/// An answer that is still arriving.
#[derive(Debug, Default)]
pub(crate) struct Assembler {
    text: JoinedText,
    pub(crate) calls: Vec<Draft>,
}

impl Assembler {
    /// Appends text and passes it to `text`.
    pub(crate) fn say(&mut self, piece: &Piece, text: &mut dyn FnMut(&str)) {
        let said = self.text.push(piece);
        if !said.is_empty() {
            text(said);
        }
    }

    /// Returns the text received so far.
    pub(crate) fn text(&self) -> &str {
        self.text.as_str()
    }

    /// Begins a call and returns its index.
    pub(crate) fn begin(&mut self, key: Key) -> Result<usize, WireError> {
        if calls::room(&self.calls) == 0 {
            return Err(WireError::Malformed(format!("it has more than {} calls", calls::MAX_CALLS)));
        }
        let call = Partial { id: key.call.clone(), ..Partial::default() };
        self.calls.push(Draft { key, call, ..Draft::default() });
        Ok(self.calls.len() - 1)
    }

    /// Returns the index of the last matching call.
    pub(crate) fn last(&self, fits: impl Fn(&Draft) -> bool) -> Option<usize> {
        self.calls.iter().rposition(fits)
    }

    /// Returns the indexes of the open calls, in order.
    pub(crate) fn open(&self) -> Vec<usize> {
        (0..self.calls.len()).filter(|at| self.calls[*at].is_open()).collect()
    }

    /// Returns the matching call to which the next arguments belong: the only open one, or the last one if none is
    /// open.
    pub(crate) fn call_to_continue(&self, fits: impl Fn(&Draft) -> bool) -> Result<Option<usize>, Unclear> {
        let mut open = self.open().into_iter().filter(|at| fits(&self.calls[*at]));
        match (open.next(), open.next()) {
            (Some(only), None) => Ok(Some(only)),
            (None, _) => Ok(self.last(&fits)),
            _ => Err(Unclear),
        }
    }

    /// Returns the complete answer. If the token limit cut off the last call, drops that call.
    pub(crate) fn finish(
        mut self,
        stop: StopReason,
        tokens: Tokens,
        text: &mut dyn FnMut(&str),
    ) -> Result<ModelResponse, WireError> {
        let rest = self.text.end();
        if !rest.is_empty() {
            text(rest);
        }
        if stop == StopReason::Length {
            self.calls.pop_if(|last| !last.call.is_closed());
        }
        let finish = |draft: Draft| if draft.is_unclear { Err(Unclear.into()) } else { draft.call.finish() };
        let calls = self.calls.into_iter().map(finish).collect::<Result<_, _>>()?;
        Ok(ModelResponse { text: self.text.into_text(), calls, tokens, stop })
    }
}
