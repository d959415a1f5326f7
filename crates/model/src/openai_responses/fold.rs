//! Assembles a response from its events.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::assembler::{Assembler, Draft, Key, Unclear, unknown_call};
use crate::calls;
use crate::failure::ProviderError;
use crate::frames::Frame;
use crate::json::{Json, Object};
use crate::message::Tokens;
use crate::model::{ModelResponse, StopReason};
use crate::opaque;
use crate::pieces::{JoinedText, Piece};
use crate::wire::{Fold, WireError};

/// The reasoning before a call, in the form that must be returned to the provider.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Reasoning<'a> {
    r#type: &'a str,
    id: &'a str,
    #[serde(borrow)]
    summary: &'a RawValue,
    encrypted_content: &'a str,
}

/// A response that is still arriving.
#[derive(Default)]
pub(super) struct ResponsesFold {
    name: String,
    answer: Assembler,
    /// The offset at which the current message's text begins.
    message: usize,
    /// The reasoning items that precede the next call, as JSON.
    reasoning: Vec<Box<RawValue>>,
    has_reasoned: bool,
    /// Arguments for calls that have not begun. Items with the same arguments must follow.
    strays: Vec<String>,
    tokens: Tokens,
    stop: StopReason,
    refused: bool,
    over: bool,
}

impl ResponsesFold {
    pub(super) fn new(name: String) -> Self {
        Self { name, ..Self::default() }
    }

    /// Processes a completed item.
    fn item(&mut self, item: &Object<'_>, place: String, text: &mut dyn FnMut(&str)) -> Result<(), WireError> {
        match item.word("type").as_str() {
            "function_call" => {
                let key = key(item, place);
                let found = self.find(&key);
                let at = found.map_or_else(|| self.begin(key), Ok)?;
                self.end_call(at, item)
            }
            "reasoning" => {
                self.reason(item);
                Ok(())
            }
            "message" => {
                let said = self.message(item)?;
                self.say_rest(&said, self.message, text);
                self.message = self.answer.text().len();
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// Finds the call to which an item refers, by the item's id, the call's id, or the index. Ignores a match that
    /// contradicts another identifier.
    fn find(&self, key: &Key) -> Option<usize> {
        let differs = |one: &str, other: &str| !one.is_empty() && !other.is_empty() && one != other;
        let has_other_id = |it: &Draft| differs(&it.call.id, &key.call);
        let is_elsewhere = |it: &Draft| differs(&it.key.item, &key.item) && differs(&it.key.place, &key.place);
        let is_item = |it: &Draft| !key.item.is_empty() && it.key.item == key.item && !has_other_id(it);
        let is_call = |it: &Draft| !key.call.is_empty() && it.call.id == key.call && !is_elsewhere(it);
        let is_there = |it: &Draft| !key.place.is_empty() && it.key.place == key.place && !has_other_id(it);
        let answer = &self.answer;
        answer.last(is_item).or_else(|| answer.last(is_call)).or_else(|| answer.last(is_there))
    }

    fn begin(&mut self, key: Key) -> Result<usize, WireError> {
        let at = self.answer.begin(key)?;
        let reasoned = std::mem::take(&mut self.reasoning);
        if !reasoned.is_empty() {
            self.answer.calls[at].call.opaque = opaque::pack(&self.name, &reasoned);
        }
        Ok(at)
    }

    /// Begins a call. The item may contain the beginning of the arguments.
    fn begin_call(&mut self, item: &Object<'_>, place: String) -> Result<(), WireError> {
        let key = key(item, place);
        // An item with an unknown id begins a new call, even if its index is already in use.
        let is_known = |at: &usize| {
            let draft = &self.answer.calls[*at];
            let is_call = !key.call.is_empty() && draft.call.id == key.call;
            is_call || key.item.is_empty() || draft.key.item == key.item
        };
        let found = self.find(&key).filter(is_known);
        let at = found.map_or_else(|| self.begin(key), Ok)?;
        let draft = &mut self.answer.calls[at];
        draft.call.add_name(&item.text("name")?.into_text())?;
        let is_object = |it: Json<'_>| it.whole_text().is_ok_and(|text| Object::parse(&text).is_ok());
        match item.get("arguments") {
            Some(part) if part.is_text() && !is_object(part) => draft.call.take(part),
            whole => draft.set(whole),
        }
    }

    /// Completes a call. The values in the completed item take precedence.
    fn end_call(&mut self, at: usize, item: &Object<'_>) -> Result<(), WireError> {
        let (draft, name) = (&mut self.answer.calls[at], item.text("name")?.into_text());
        if name.starts_with(&draft.call.name) {
            draft.call.name = name;
        } else if !name.is_empty() {
            draft.call.add_name(&name)?;
        }
        if draft.call.id.is_empty() {
            draft.call.id = item.word("call_id");
        }
        draft.is_ended = true;
        draft.set(item.get("arguments"))
    }

    /// Adds arguments to a call, either a delta or the complete arguments.
    fn arguments(&mut self, event: &Object<'_>, is_whole: bool) -> Result<(), WireError> {
        let (item, place) = (event.word("item_id"), event.place("output_index"));
        let is_item = |it: &Draft| !item.is_empty() && it.key.item == item;
        let is_there = |it: &Draft| !place.is_empty() && it.key.place == place;
        let (has_item, has_both) = (self.answer.last(is_item), self.answer.last(|it| is_item(it) && is_there(it)));
        let fits = |it: &Draft| match (has_item, has_both) {
            (_, Some(_)) => is_item(it) && is_there(it),
            (Some(_), _) => is_item(it),
            _ => is_there(it) || (item.is_empty() && place.is_empty()),
        };
        let arguments = event.get(if is_whole { "arguments" } else { "delta" });
        let whole = arguments.filter(|_| is_whole).map(Json::whole_text).transpose()?;
        let read = whole.and_then(|whole| self.answer.last(|it| fits(it) && !it.is_ended && it.call.reads(&whole)));
        let found = match read {
            Some(read) => Ok(Some(read)),
            None => self.answer.call_to_continue(fits),
        };
        match (found, arguments) {
            (Ok(Some(at)), arguments) if is_whole => self.answer.calls[at].set(arguments),
            (Ok(Some(at)), Some(part)) => self.answer.calls[at].call.take(part),
            (Ok(None), Some(whole)) if is_whole && calls::room(&self.strays) > 0 => {
                self.strays.push(whole.whole_text()?.into_owned());
                Ok(())
            }
            (Ok(None), Some(_)) => Err(unknown_call()),
            // Completed items may resolve the ambiguity later.
            (Err(Unclear), Some(_)) => {
                let open = self.answer.open();
                open.into_iter().for_each(|at| self.answer.calls[at].is_unclear = true);
                Ok(())
            }
            (_, None) => Ok(()),
        }
    }

    /// Returns the text of a message item.
    fn message(&mut self, item: &Object<'_>) -> Result<String, WireError> {
        let mut said = JoinedText::default();
        for part in item.list("content")? {
            let part = part.object()?;
            let refusal = part.text("refusal")?;
            self.refused |= !refusal.is_empty();
            said.push(&part.text("text")?);
            said.push(&refusal);
        }
        Ok(said.into_text())
    }

    /// Passes on text that did not arrive in deltas. `from` is the offset at which the text of the deltas begins.
    fn say_rest(&mut self, said: &str, from: usize, text: &mut dyn FnMut(&str)) {
        let parts = self.answer.text().get(from..).unwrap_or_default();
        if let Some(rest) = said.strip_prefix(parts).map(Piece::from) {
            self.answer.say(&rest, text);
        }
    }

    /// Keeps reasoning that can be returned. Without encrypted content, the provider would look it up in its
    /// store.
    fn reason(&mut self, item: &Object<'_>) {
        let (id, encrypted_content) = (item.word("id"), item.word("encrypted_content"));
        if id.is_empty() || encrypted_content.is_empty() {
            return;
        }
        self.has_reasoned = true;
        let summary = item.get("summary").map_or("[]", |it| it.raw().get());
        let Ok(summary) = serde_json::from_str(summary) else { return };
        let reasoning = Reasoning { r#type: "reasoning", id: &id, summary, encrypted_content: &encrypted_content };
        self.reasoning.extend(serde_json::value::to_raw_value(&reasoning));
    }

    fn end(&mut self, response: &Object<'_>, text: &mut dyn FnMut(&str)) -> Result<(), WireError> {
        if let Some(usage) = response.object("usage") {
            self.tokens = Tokens { input: usage.sum(&["input_tokens"]), output: usage.sum(&["output_tokens"]) };
        }
        self.stop = match response.object("incomplete_details").map(|it| it.word("reason")).as_deref() {
            Some("max_output_tokens" | "max_tokens") => StopReason::Length,
            Some("") | None => StopReason::Done,
            Some(_) => StopReason::Refused,
        };
        let output = response.list("output")?.into_iter().map(Json::object).collect::<Result<Vec<_>, _>>()?;
        let messages = output.iter().filter(|it| it.word("type") == "message");
        let said = messages.map(|it| self.message(it)).collect::<Result<String, _>>()?;
        self.say_rest(&said, 0, text);
        self.snapshot(&output)
    }

    /// Merges the final output, which repeats all items and may contain items not announced by any event.
    fn snapshot(&mut self, output: &[Object<'_>]) -> Result<(), WireError> {
        let mut unsaid: BTreeSet<usize> = (0..self.answer.calls.len()).collect();
        let (mut new, has_reasoned) = (Vec::new(), self.has_reasoned);
        for (place, item) in output.iter().enumerate() {
            let key = key(item, place.to_string());
            match item.word("type").as_str() {
                "function_call" => match self.find(&key).filter(|at| unsaid.remove(at)) {
                    Some(at) => self.end_call(at, item)?,
                    None if unsaid.is_empty() => {
                        let at = self.begin(key)?;
                        self.end_call(at, item)?;
                    }
                    None => new.push((key, item)),
                },
                "reasoning" if !has_reasoned => self.reason(item),
                _ => {}
            }
        }
        for (key, item) in new {
            let arguments = item.get("arguments").map(Json::whole_text).transpose()?.unwrap_or_default();
            let is_same = |at: &&usize| {
                let call = &self.answer.calls[**at].call;
                call.name == item.word("name") && call.reads(&arguments)
            };
            let at = match unsaid.iter().find(is_same).copied() {
                Some(at) => at,
                None if unsaid.is_empty() => self.begin(key)?,
                // Retrying is better than running a call twice under two ids.
                None => return Err(WireError::Malformed("the ids of its calls change".to_owned())),
            };
            unsaid.remove(&at);
            self.end_call(at, item)?;
        }
        Ok(())
    }
}

/// Returns the identifiers of an item.
fn key(item: &Object<'_>, place: String) -> Key {
    Key { place, item: item.word("id"), call: item.word("call_id") }
}

impl Fold for ResponsesFold {
    fn take(&mut self, frame: &Frame, text: &mut dyn FnMut(&str)) -> Result<(), WireError> {
        if frame.data.trim() == "[DONE]" {
            return Ok(());
        }
        let event = Object::parse(&frame.data)?;
        let kind = event.get("type").and_then(Json::word);
        let kind = kind.as_deref().unwrap_or(&frame.event);
        match kind {
            "response.output_text.delta" | "response.refusal.delta" => {
                self.refused |= kind == "response.refusal.delta";
                self.answer.say(&event.text("delta")?, text);
            }
            "response.output_item.added" | "response.output_item.done" => {
                let Some(item) = event.part("item")? else { return Ok(()) };
                let (place, is_call) = (event.place("output_index"), item.word("type") == "function_call");
                match kind {
                    "response.output_item.done" => self.item(&item, place, text)?,
                    _ if is_call => self.begin_call(&item, place)?,
                    // The text of a message follows this event. Reasoning is complete only at its end.
                    _ => self.message = self.answer.text().len(),
                }
            }
            "response.function_call_arguments.delta" => self.arguments(&event, false)?,
            "response.function_call_arguments.done" => self.arguments(&event, true)?,
            "response.completed" | "response.incomplete" => {
                self.over = true;
                event.part("response")?.map_or(Ok(()), |response| self.end(&response, text))?;
            }
            "response.failed" | "error" => {
                return Err(WireError::from_error_event(&frame.data));
            }
            "response.cancelled" => return Err(WireError::CutOff),
            "" => {
                if let Some(failure) = ProviderError::from_json(&frame.data) {
                    return Err(WireError::Failed(failure));
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn is_over(&self) -> bool {
        self.over
    }

    fn finish(self: Box<Self>, text: &mut dyn FnMut(&str)) -> Result<ModelResponse, WireError> {
        if !self.over {
            return Err(WireError::CutOff);
        }
        let is_read = |stray: &String| self.answer.calls.iter().any(|it| it.call.reads(stray));
        if !self.strays.iter().all(is_read) {
            return Err(unknown_call());
        }
        let stop = if self.refused && self.stop == StopReason::Done { StopReason::Refused } else { self.stop };
        self.answer.finish(stop, self.tokens, text)
    }
}
