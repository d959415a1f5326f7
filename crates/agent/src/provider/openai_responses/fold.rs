//! Puts the events of a response together.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::message::Tokens;
use crate::provider::assembler::{Assembler, Draft, Key, Unclear};
use crate::provider::failure::Said;
use crate::provider::frames::Frame;
use crate::provider::json::{Json, Object};
use crate::provider::model::{Reply, Stop};
use crate::provider::opaque;
use crate::provider::pieces::{Joined, Piece};
use crate::provider::wire::{Fault, Fold};

/// What the model reasoned before a call, as the provider wants it back.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Reasoning<'a> {
    r#type: &'a str,
    id: &'a str,
    #[serde(borrow)]
    summary: &'a RawValue,
    encrypted_content: &'a str,
}

/// How many calls may have arguments before they begin.
const MAX_STRAYS: usize = 256;

/// A response so far.
#[derive(Default)]
pub(super) struct ResponsesFold {
    name: String,
    answer: Assembler,
    /// Where the text of the current message begins.
    message: usize,
    /// Reasoning that no call follows yet, each item as JSON.
    reasoning: Vec<Box<RawValue>>,
    has_reasoned: bool,
    /// Arguments of calls that did not begin: their items come later, with the same ones.
    strays: Vec<String>,
    tokens: Tokens,
    stop: Stop,
    refused: bool,
    over: bool,
}

impl ResponsesFold {
    pub(super) fn new(name: String) -> Self {
        Self { name, ..Self::default() }
    }

    /// An item that ended.
    fn item(&mut self, item: &Object<'_>, place: String, text: &mut dyn FnMut(&str)) -> Result<(), Fault> {
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

    /// The call that an item is: by its own id, by the call's, or by its place, whichever does not contradict another one.
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

    fn begin(&mut self, key: Key) -> Result<usize, Fault> {
        let at = self.answer.begin(key)?;
        let reasoned = std::mem::take(&mut self.reasoning);
        if !reasoned.is_empty() {
            self.answer.calls[at].call.opaque = opaque::pack(&self.name, &reasoned);
        }
        Ok(at)
    }

    /// A call that begins, perhaps with the beginning of its arguments.
    fn begin_call(&mut self, item: &Object<'_>, place: String) -> Result<(), Fault> {
        let key = key(item, place);
        // Items with ids of their own that are not known begin, wherever they say they are.
        let is_known = |at: &usize| {
            let draft = &self.answer.calls[*at];
            let is_call = !key.call.is_empty() && draft.call.id == key.call;
            is_call || key.item.is_empty() || draft.key.item == key.item
        };
        let found = self.find(&key).filter(is_known);
        let at = found.map_or_else(|| self.begin(key), Ok)?;
        let draft = &mut self.answer.calls[at];
        draft.call.add_name(&item.text("name")?.into_text())?;
        let is_object =
            |it: Json<'_>| it.whole_text().is_ok_and(|text| Json::parse(&text).and_then(Json::object).is_ok());
        match item.get("arguments") {
            Some(part) if part.is_text() && !is_object(part) => draft.call.take(part),
            whole => draft.set(whole),
        }
    }

    /// What an item says at its end counts.
    fn end_call(&mut self, at: usize, item: &Object<'_>) -> Result<(), Fault> {
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

    /// Arguments of a call, or a part of them.
    fn arguments(&mut self, event: &Object<'_>, is_whole: bool) -> Result<(), Fault> {
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
            None => self.answer.continued(fits),
        };
        match (found, arguments) {
            (Ok(Some(at)), arguments) if is_whole => self.answer.calls[at].set(arguments),
            (Ok(Some(at)), Some(part)) => self.answer.calls[at].call.take(part),
            (Ok(None), Some(whole)) if is_whole && self.strays.len() < MAX_STRAYS => {
                self.strays.push(whole.whole_text()?.into_owned());
                Ok(())
            }
            (Ok(None), Some(_)) => Err(stray()),
            // Their items may tell at their end.
            (Err(Unclear), Some(_)) => {
                let open = self.answer.open();
                open.into_iter().for_each(|at| self.answer.calls[at].is_unclear = true);
                Ok(())
            }
            (_, None) => Ok(()),
        }
    }

    /// The text of a message.
    fn message(&mut self, item: &Object<'_>) -> Result<String, Fault> {
        let mut said = Joined::default();
        for part in item.list("content")? {
            let part = part.object()?;
            let refusal = part.text("refusal")?;
            self.refused |= !refusal.is_empty();
            said.push(&part.text("text")?);
            said.push(&refusal);
        }
        Ok(said.into_text())
    }

    /// Says what did not come in parts, of a text whose parts began here.
    fn say_rest(&mut self, said: &str, from: usize, text: &mut dyn FnMut(&str)) {
        let parts = self.answer.text().get(from..).unwrap_or_default();
        if let Some(rest) = said.strip_prefix(parts).map(Piece::from) {
            self.answer.say(&rest, text);
        }
    }

    /// Keeps reasoning that can go back: without its encrypted content, the provider would look for it in its store.
    fn reason(&mut self, item: &Object<'_>) {
        let (id, encrypted_content) = (item.word("id"), item.word("encrypted_content"));
        if id.is_empty() || encrypted_content.is_empty() {
            return;
        }
        self.has_reasoned = true;
        let summary = item.get("summary").map_or("[]", |it| it.raw().get());
        let Ok(summary) = serde_json::from_str(summary) else { return };
        let kept = Reasoning { r#type: "reasoning", id: &id, summary, encrypted_content: &encrypted_content };
        self.reasoning.extend(serde_json::value::to_raw_value(&kept));
    }

    fn end(&mut self, response: &Object<'_>, text: &mut dyn FnMut(&str)) -> Result<(), Fault> {
        if let Some(usage) = response.object("usage") {
            self.tokens = Tokens { input: usage.sum(&["input_tokens"]), output: usage.sum(&["output_tokens"]) };
        }
        self.stop = match response.object("incomplete_details").map(|it| it.word("reason")).as_deref() {
            Some("max_output_tokens" | "max_tokens") => Stop::Length,
            Some("") | None => Stop::Done,
            Some(_) => Stop::Refused,
        };
        let output = response.list("output")?.into_iter().map(Json::object).collect::<Result<Vec<_>, _>>()?;
        let messages = output.iter().filter(|it| it.word("type") == "message");
        let said = messages.map(|it| self.message(it)).collect::<Result<String, _>>()?;
        self.say_rest(&said, 0, text);
        self.snapshot(&output)
    }

    /// What the whole output says once more, and what it alone says.
    fn snapshot(&mut self, output: &[Object<'_>]) -> Result<(), Fault> {
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
                // To run a call twice, under two ids, is worse than to ask again.
                None => return Err(Fault::Malformed("its calls change their ids".to_owned())),
            };
            unsaid.remove(&at);
            self.end_call(at, item)?;
        }
        Ok(())
    }
}

fn stray() -> Fault {
    Fault::Malformed("it has arguments of a call that did not begin".to_owned())
}

/// What an item is called.
fn key(item: &Object<'_>, place: String) -> Key {
    Key { place, item: item.word("id"), call: item.word("call_id") }
}

impl Fold for ResponsesFold {
    fn take(&mut self, frame: &Frame, text: &mut dyn FnMut(&str)) -> Result<(), Fault> {
        if frame.data.trim() == "[DONE]" {
            return Ok(());
        }
        let event = Json::parse(&frame.data)?.object()?;
        let kind = event.get("type").and_then(Json::word);
        let kind = kind.as_deref().unwrap_or(&frame.event);
        match kind {
            "response.output_text.delta" | "response.refusal.delta" => {
                self.refused |= kind == "response.refusal.delta";
                self.answer.say(&event.text("delta")?, text);
            }
            "response.output_item.added" | "response.output_item.done" => {
                let Some(item) = event.get("item").map(Json::object).transpose()? else { return Ok(()) };
                let (place, is_call) = (event.place("output_index"), item.word("type") == "function_call");
                match kind {
                    "response.output_item.done" => self.item(&item, place, text)?,
                    _ if is_call => self.begin_call(&item, place)?,
                    // A message has its text still before it; reasoning is complete only at its end.
                    _ => self.message = self.answer.text().len(),
                }
            }
            "response.function_call_arguments.delta" => self.arguments(&event, false)?,
            "response.function_call_arguments.done" => self.arguments(&event, true)?,
            "response.completed" | "response.incomplete" => {
                self.over = true;
                if let Some(response) = event.get("response") {
                    self.end(&response.object()?, text)?;
                }
            }
            "response.failed" | "error" => {
                return Err(Fault::Failed(Said::of_json(&frame.data).unwrap_or_else(|| Said::unexplained(""))));
            }
            "response.cancelled" => return Err(Fault::CutOff),
            "" => {
                if let Some(said) = Said::of_json(&frame.data) {
                    return Err(Fault::Failed(said));
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn is_over(&self) -> bool {
        self.over
    }

    fn finish(self: Box<Self>, text: &mut dyn FnMut(&str)) -> Result<Reply, Fault> {
        if !self.over {
            return Err(Fault::CutOff);
        }
        let is_read = |stray: &String| self.answer.calls.iter().any(|it| it.call.reads(stray));
        if !self.strays.iter().all(is_read) {
            return Err(stray());
        }
        let stop = if self.refused && self.stop == Stop::Done { Stop::Refused } else { self.stop };
        self.answer.finish(stop, self.tokens, text)
    }
}
