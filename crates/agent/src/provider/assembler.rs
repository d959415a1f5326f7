//! Puts an answer together: its text, and its calls in the order in which they began. A wire format says what each event is
//! about; what can't be told for certain makes the answer unreadable, so that no call runs with a part of its arguments. Pure.

use super::calls::{self, Partial};
use super::json::Json;
use super::model::{Reply, Stop};
use super::pieces::{Joined, Piece};
use super::wire::Fault;
use crate::message::Tokens;

/// What a format calls a part of an answer. What it does not say is empty.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Key {
    /// Its place in the answer.
    pub(super) place: String,
    /// Its own id.
    pub(super) item: String,
    /// The id of the call that it is.
    pub(super) call: String,
}

/// A call so far.
#[derive(Debug, Default)]
pub(super) struct Draft {
    pub(super) key: Key,
    pub(super) call: Partial,
    /// The provider said that nothing more comes.
    pub(super) is_ended: bool,
    /// Arguments may be missing.
    pub(super) is_unclear: bool,
}

impl Draft {
    /// Whether arguments may still come.
    pub(super) fn is_open(&self) -> bool {
        !self.is_ended && !self.call.is_closed()
    }

    /// Takes the arguments as the provider gives them at once. An empty text gives none.
    pub(super) fn set(&mut self, arguments: Option<Json<'_>>) -> Result<(), Fault> {
        let whole = arguments.map_or(Ok("".into()), Json::whole_text)?;
        if !whole.trim().is_empty() {
            self.call.set(&whole)?;
            self.is_unclear = false;
        }
        Ok(())
    }
}

/// Something is about a call, and could be about another one as well.
#[derive(Debug, Clone, Copy)]
pub(super) struct Unclear;

impl From<Unclear> for Fault {
    fn from(_: Unclear) -> Self {
        Self::Malformed("it does not say which call its arguments belong to".to_owned())
    }
}

/// An answer so far.
#[derive(Debug, Default)]
pub(super) struct Assembler {
    text: Joined,
    pub(super) calls: Vec<Draft>,
}

impl Assembler {
    /// Appends text, and hands it on.
    pub(super) fn say(&mut self, piece: &Piece, text: &mut dyn FnMut(&str)) {
        let said = self.text.push(piece);
        if !said.is_empty() {
            text(said);
        }
    }

    /// The text so far.
    pub(super) fn text(&self) -> &str {
        self.text.as_str()
    }

    /// Begins a call. Returns its number.
    pub(super) fn begin(&mut self, key: Key) -> Result<usize, Fault> {
        let call = Partial { id: key.call.clone(), ..Partial::default() };
        calls::add(&mut self.calls, Draft { key, call, ..Draft::default() })?;
        Ok(self.calls.len() - 1)
    }

    /// The last call that fits.
    pub(super) fn last(&self, fits: impl Fn(&Draft) -> bool) -> Option<usize> {
        self.calls.iter().rposition(fits)
    }

    /// The calls that are open, in order.
    pub(super) fn open(&self) -> Vec<usize> {
        (0..self.calls.len()).filter(|at| self.calls[*at].is_open()).collect()
    }

    /// The call that arguments continue, of those that fit: the only open one, or the last one if none is open.
    pub(super) fn continued(&self, fits: impl Fn(&Draft) -> bool) -> Result<Option<usize>, Unclear> {
        let mut open = self.open().into_iter().filter(|at| fits(&self.calls[*at]));
        match (open.next(), open.next()) {
            (Some(only), None) => Ok(Some(only)),
            (None, _) => Ok(self.last(&fits)),
            _ => Err(Unclear),
        }
    }

    /// The whole answer. A last call that the bound of tokens cut off is left out.
    pub(super) fn finish(mut self, stop: Stop, tokens: Tokens, text: &mut dyn FnMut(&str)) -> Result<Reply, Fault> {
        let rest = self.text.end();
        if !rest.is_empty() {
            text(rest);
        }
        if stop == Stop::Length {
            self.calls.pop_if(|last| !last.call.is_closed());
        }
        let finish = |draft: Draft| if draft.is_unclear { Err(Unclear.into()) } else { draft.call.finish() };
        let calls = self.calls.into_iter().map(finish).collect::<Result<_, _>>()?;
        Ok(Reply { text: self.text.into_text(), calls, tokens, stop })
    }
}
