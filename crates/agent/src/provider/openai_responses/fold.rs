//! Puts the events of a response together.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::message::Tokens;
use crate::provider::calls::{self, Partial};
use crate::provider::failure::Said;
use crate::provider::frames::Frame;
use crate::provider::model::{Reply, Stop};
use crate::provider::opaque;
use crate::provider::wire::{Fault, Fold, string};

/// What the model reasoned before a call, as the provider wants it back.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Reasoning<'a> {
    r#type: &'a str,
    id: &'a str,
    #[serde(borrow)]
    summary: &'a RawValue,
    encrypted_content: &'a str,
}

/// A response so far.
#[derive(Default)]
pub(super) struct ResponsesFold {
    name: String,
    text: String,
    calls: Vec<Placed>,
    /// Reasoning that no call follows yet, each item as JSON.
    reasoning: Vec<Box<RawValue>>,
    tokens: Tokens,
    stop: Stop,
    refused: bool,
    over: bool,
}

/// A call, and where it is in the response.
#[derive(Default)]
struct Placed {
    at: Option<u64>,
    item: String,
    call: Partial,
}

#[derive(Deserialize)]
struct Event<'a> {
    r#type: Option<String>,
    #[serde(borrow)]
    delta: Option<&'a RawValue>,
    #[serde(borrow)]
    arguments: Option<&'a RawValue>,
    output_index: Option<u64>,
    item_id: Option<String>,
    #[serde(borrow)]
    item: Option<&'a RawValue>,
    #[serde(borrow)]
    response: Option<Response<'a>>,
}

#[derive(Deserialize)]
struct Response<'a> {
    usage: Option<Usage>,
    incomplete_details: Option<Incomplete>,
    #[serde(borrow, default)]
    output: Option<Vec<&'a RawValue>>,
}

#[derive(Deserialize)]
struct Usage {
    input_tokens: Option<u64>,
    output_tokens: Option<u64>,
}

#[derive(Deserialize)]
struct Incomplete {
    reason: Option<String>,
}

#[derive(Deserialize)]
struct Item<'a> {
    r#type: Option<String>,
    id: Option<String>,
    call_id: Option<String>,
    name: Option<String>,
    #[serde(borrow)]
    arguments: Option<&'a RawValue>,
    #[serde(borrow)]
    summary: Option<&'a RawValue>,
    encrypted_content: Option<String>,
    #[serde(borrow, default)]
    content: Option<&'a RawValue>,
}

impl ResponsesFold {
    pub(super) fn new(name: String) -> Self {
        Self { name, ..Self::default() }
    }

    fn say(&mut self, delta: Option<&RawValue>, text: &mut dyn FnMut(&str)) {
        if let Some(said) = string(delta).filter(|it| !it.is_empty()) {
            text(&said);
            self.text.push_str(&said);
        }
    }

    /// The call that an event is about: by its place, else by its item.
    fn find(&mut self, at: Option<u64>, item: Option<&str>) -> Option<&mut Placed> {
        let of_place = |it: &Placed| at.is_some() && it.at == at;
        let of_item = |it: &Placed| item.is_some_and(|item| !item.is_empty() && it.item == item);
        let found = self.calls.iter().rposition(of_place).or_else(|| self.calls.iter().rposition(of_item));
        // An event that names neither is about the last one.
        let last = self.calls.len().checked_sub(1).filter(|_| at.is_none() && item.is_none());
        found.or(last).map(|found| &mut self.calls[found])
    }

    /// An item that begins or ends. What an item says at its end counts.
    fn item(&mut self, json: &RawValue, at: Option<u64>, text: &mut dyn FnMut(&str)) -> Result<(), Fault> {
        let item: Item<'_> = serde_json::from_str(json.get()).map_err(|error| Fault::of_json(&error))?;
        match item.r#type.as_deref() {
            Some("function_call") => self.function_call(item, at),
            Some("reasoning") => {
                self.reason(item);
                Ok(())
            }
            // Servers that send a message at once only.
            Some("message") if self.text.is_empty() => {
                for part in item.content.map(parts).unwrap_or_default() {
                    text(&part);
                    self.text.push_str(&part);
                }
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn function_call(&mut self, item: Item<'_>, at: Option<u64>) -> Result<(), Fault> {
        let (id, call_id) = (item.id.unwrap_or_default(), item.call_id.unwrap_or_default());
        let found = match self.find(at, Some(&id)) {
            Some(found) => found,
            None => {
                let reasoned = std::mem::take(&mut self.reasoning);
                let opaque = if reasoned.is_empty() { String::new() } else { opaque::pack(&self.name, &reasoned) };
                let call = Partial { opaque, ..Partial::default() };
                calls::add(&mut self.calls, Placed { at, item: id, call })?
            }
        };
        if found.call.id.is_empty() {
            found.call.id = call_id;
        }
        if found.call.name.is_empty() {
            found.call.name = item.name.unwrap_or_default();
        }
        if let Some(whole) = calls::arguments(item.arguments).filter(|it| !it.is_empty()) {
            found.call.set(&whole);
        }
        Ok(())
    }

    /// Keeps reasoning that can go back: without its encrypted content, the provider would look for it in its store.
    fn reason(&mut self, item: Item<'_>) {
        let (Some(id), Some(encrypted_content)) = (item.id, item.encrypted_content) else { return };
        let summary = item.summary.map_or("[]", RawValue::get);
        let Ok(summary) = serde_json::from_str(summary) else { return };
        let kept = Reasoning { r#type: "reasoning", id: &id, summary, encrypted_content: &encrypted_content };
        self.reasoning.extend(serde_json::value::to_raw_value(&kept));
    }

    fn end(&mut self, response: Option<Response<'_>>, text: &mut dyn FnMut(&str)) -> Result<(), Fault> {
        self.over = true;
        let Some(response) = response else { return Ok(()) };
        if let Some(usage) = response.usage {
            let (input, output) = (usage.input_tokens.unwrap_or_default(), usage.output_tokens.unwrap_or_default());
            self.tokens = Tokens { input, output };
        }
        self.stop = match response.incomplete_details.and_then(|it| it.reason).as_deref() {
            Some("max_output_tokens" | "max_tokens") => Stop::Length,
            Some(_) => Stop::Refused,
            None => Stop::Done,
        };
        if self.text.is_empty() && self.calls.is_empty() {
            let output = response.output.unwrap_or_default();
            (0..).zip(output).try_for_each(|(at, json)| self.item(json, Some(at), text))?;
        }
        Ok(())
    }
}

impl Fold for ResponsesFold {
    fn take(&mut self, frame: &Frame, text: &mut dyn FnMut(&str)) -> Result<(), Fault> {
        if frame.data.trim() == "[DONE]" {
            return Ok(());
        }
        let event: Event<'_> = serde_json::from_str(&frame.data).map_err(|error| Fault::of_json(&error))?;
        match event.r#type.as_deref().unwrap_or(&frame.event) {
            "response.output_text.delta" => self.say(event.delta, text),
            "response.refusal.delta" => {
                self.refused = true;
                self.say(event.delta, text);
            }
            "response.output_item.added" => {
                // A message has its text still before it; reasoning is complete only at its end.
                if let Some(item) = event.item.filter(|it| is_call(it)) {
                    self.item(item, event.output_index, text)?;
                }
            }
            "response.output_item.done" => {
                if let Some(item) = event.item {
                    self.item(item, event.output_index, text)?;
                }
            }
            "response.function_call_arguments.delta" => {
                let part = calls::arguments(event.delta).unwrap_or_default();
                match self.find(event.output_index, event.item_id.as_deref()) {
                    Some(found) => found.call.push(&part),
                    None => return Err(Fault::Malformed("it has arguments of a call that did not begin".to_owned())),
                }
            }
            "response.function_call_arguments.done" => {
                let found = self.find(event.output_index, event.item_id.as_deref());
                if let (Some(found), Some(whole)) = (found, calls::arguments(event.arguments)) {
                    found.call.set(&whole);
                }
            }
            "response.completed" | "response.incomplete" => self.end(event.response, text)?,
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

    fn finish(self: Box<Self>) -> Result<Reply, Fault> {
        if !self.over {
            return Err(Fault::CutOff);
        }
        let stop = if self.refused && self.stop == Stop::Done { Stop::Refused } else { self.stop };
        let calls = self.calls.into_iter().map(|it| it.call).collect();
        Ok(Reply { text: self.text, calls: calls::finished(calls, stop), tokens: self.tokens, stop })
    }
}

fn is_call(item: &RawValue) -> bool {
    serde_json::from_str::<Item<'_>>(item.get()).is_ok_and(|it| it.r#type.as_deref() == Some("function_call"))
}

/// The text of a message's parts.
fn parts(content: &RawValue) -> Vec<String> {
    #[derive(Deserialize)]
    struct Part {
        text: Option<String>,
        refusal: Option<String>,
    }
    let parts: Vec<Part> = serde_json::from_str(content.get()).unwrap_or_default();
    parts.into_iter().filter_map(|it| it.text.or(it.refusal)).filter(|it| !it.is_empty()).collect()
}
