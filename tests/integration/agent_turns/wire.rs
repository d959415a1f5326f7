//! Scripted models: the same answers in the wire format of each provider.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use openskill_tests::backend::{Backend, Reply, Seen};
use openskill_tests::system::Setup;
use serde_json::{Value, json};

/// A wire format.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wire {
    Chat,
    Responses,
    Messages,
    Gemini,
}

impl Wire {
    pub(crate) const ALL: [Self; 4] = [Self::Chat, Self::Responses, Self::Messages, Self::Gemini];

    /// The same start, with the model at this address.
    pub(crate) fn configure(self, setup: Setup, model: &Backend) -> Setup {
        let name = match self {
            Self::Chat | Self::Responses => "OPENAI",
            Self::Messages => "ANTHROPIC",
            Self::Gemini => "GEMINI",
        };
        let style = if self == Self::Responses { "responses" } else { "chat" };
        setup
            .with(&format!("{name}_API_BASE"), model.url(""))
            .with(&format!("{name}_MODEL"), "scripted")
            .with(&format!("{name}_API_KEY"), "sk-test-0123456789abcdef")
            .with("OPENAI_API_STYLE", style)
    }

    fn frames(self, said: &Said) -> String {
        match self {
            Self::Chat => chat(said),
            Self::Responses => responses(said),
            Self::Messages => messages(said),
            Self::Gemini => gemini(said),
        }
    }
}

/// What a model says in one answer.
#[derive(Debug, Clone, Default)]
pub(crate) struct Said {
    text: String,
    /// Ids, names and arguments as text.
    calls: Vec<(String, String, String)>,
}

impl Said {
    /// Gives all calls one id.
    pub(super) fn same_ids(&mut self) {
        self.calls.iter_mut().for_each(|call| call.0 = "same".to_owned());
    }
}

pub(crate) fn says(text: &str) -> Said {
    Said { text: text.to_owned(), ..Said::default() }
}

pub(crate) fn calls(calls: &[(&str, Value)]) -> Said {
    let call =
        |(i, (name, arguments)): (usize, &(&str, Value))| (format!("id{i}"), (*name).to_owned(), arguments.to_string());
    Said { calls: calls.iter().enumerate().map(call).collect(), ..Said::default() }
}

/// A call with arguments as they are written.
pub(super) fn raw_call(id: &str, name: &str, arguments: &str) -> Said {
    Said { calls: vec![(id.to_owned(), name.to_owned(), arguments.to_owned())], ..Said::default() }
}

/// An answer of the server.
pub(super) enum Step {
    Said(Said),
    /// Something else.
    Other(fn() -> Reply),
}

impl From<Said> for Step {
    fn from(said: Said) -> Self {
        Self::Said(said)
    }
}

/// A model that gives these answers in order, and the last one again and again. `bodies` has what it was asked.
pub(crate) struct Model {
    pub(crate) server: Backend,
    pub(crate) bodies: Arc<Mutex<Vec<String>>>,
}

pub(super) async fn model(wire: Wire, steps: Vec<Step>) -> Model {
    let (asked, bodies) = (AtomicUsize::new(0), Arc::new(Mutex::new(Vec::new())));
    let kept = Arc::clone(&bodies);
    let server = Backend::start(move |seen: &Seen| {
        kept.lock().unwrap().push(String::from_utf8_lossy(&seen.body).into_owned());
        let step = asked.fetch_add(1, Ordering::Relaxed).min(steps.len() - 1);
        match &steps[step] {
            Step::Said(said) => Reply::new(200, "text/event-stream", wire.frames(said)),
            Step::Other(reply) => reply(),
        }
    })
    .await;
    Model { server, bodies }
}

/// A model whose answers follow from how often it was asked before and from the request's body. `bodies` as in [`model`].
pub(crate) async fn reading(wire: Wire, script: impl Fn(usize, &str) -> Said + Send + Sync + 'static) -> Model {
    let bodies = Arc::new(Mutex::new(Vec::new()));
    let kept = Arc::clone(&bodies);
    let server = Backend::start(move |seen: &Seen| {
        let body = String::from_utf8_lossy(&seen.body).into_owned();
        let mut kept = kept.lock().unwrap();
        let said = script(kept.len(), &body);
        kept.push(body);
        Reply::new(200, "text/event-stream", wire.frames(&said))
    })
    .await;
    Model { server, bodies }
}

/// A model that answers by what it was told: how many results it has since the user's last message.
pub(super) async fn knowing(script: impl Fn(usize) -> Said + Send + Sync + 'static) -> Backend {
    Backend::start(move |seen| {
        let body = seen.json();
        let messages = body["messages"].as_array().unwrap();
        let since = messages.iter().rev().take_while(|it| it["role"] != "user");
        let rounds = since.filter(|it| it["role"] == "assistant").count();
        Reply::new(200, "text/event-stream", chat(&script(rounds)))
    })
    .await
}

/// The stream of an answer that consists of text, in the format of chat completions. It costs 110 tokens.
pub(crate) fn streamed(text: &str) -> Reply {
    Reply::new(200, "text/event-stream", chat(&says(text)))
}

fn event(name: &str, data: &Value) -> String {
    format!("event: {name}\ndata: {data}\n\n")
}

/// Pieces of a text, as models stream it.
fn pieces(text: &str) -> Vec<String> {
    let characters: Vec<_> = text.chars().collect();
    characters.chunks(7).map(|it| it.iter().collect()).collect()
}

pub(super) fn chat(said: &Said) -> String {
    let chunk = |delta: Value, reason: Value| {
        format!("data: {}\n\n", json!({"choices": [{"index": 0, "delta": delta, "finish_reason": reason}]}))
    };
    let mut all: String =
        pieces(&said.text).into_iter().map(|it| chunk(json!({ "content": it }), Value::Null)).collect();
    for (index, (id, name, arguments)) in said.calls.iter().enumerate() {
        let begin = json!({"index": index, "id": id, "type": "function", "function": {"name": name, "arguments": ""}});
        all.push_str(&chunk(json!({ "tool_calls": [begin] }), Value::Null));
        for piece in pieces(arguments) {
            let more = json!({"index": index, "function": {"arguments": piece}});
            all.push_str(&chunk(json!({ "tool_calls": [more] }), Value::Null));
        }
    }
    let reason = if said.calls.is_empty() { "stop" } else { "tool_calls" };
    all.push_str(&chunk(json!({}), reason.into()));
    let usage = json!({"choices": [], "usage": {"prompt_tokens": 100, "completion_tokens": 10, "total_tokens": 110}});
    all + &format!("data: {usage}\n\ndata: [DONE]\n\n")
}

fn responses(said: &Said) -> String {
    let send = |data: Value| event(data["type"].as_str().unwrap(), &data);
    let mut all = String::new();
    if !said.text.is_empty() {
        let item = json!({"id": "msg_1", "type": "message", "role": "assistant", "content": []});
        all.push_str(&send(json!({"type": "response.output_item.added", "output_index": 0, "item": item})));
        for piece in pieces(&said.text) {
            let delta = json!({"type": "response.output_text.delta", "output_index": 0, "item_id": "msg_1", "content_index": 0, "delta": piece});
            all.push_str(&send(delta));
        }
        let whole = json!([{"type": "output_text", "text": said.text}]);
        let item = json!({"id": "msg_1", "type": "message", "role": "assistant", "content": whole});
        all.push_str(&send(json!({"type": "response.output_item.done", "output_index": 0, "item": item})));
    }
    for (index, (id, name, arguments)) in (1..).zip(&said.calls) {
        let item = |arguments: &str| json!({"id": format!("fc_{index}"), "type": "function_call", "call_id": id, "name": name, "arguments": arguments});
        all.push_str(&send(json!({"type": "response.output_item.added", "output_index": index, "item": item("")})));
        for piece in pieces(arguments) {
            let delta = json!({"type": "response.function_call_arguments.delta", "output_index": index, "item_id": format!("fc_{index}"), "delta": piece});
            all.push_str(&send(delta));
        }
        all.push_str(&send(
            json!({"type": "response.output_item.done", "output_index": index, "item": item(arguments)}),
        ));
    }
    let usage = json!({"input_tokens": 100, "output_tokens": 10});
    let response = json!({"id": "r", "status": "completed", "error": null, "incomplete_details": null, "output": [], "usage": usage});
    all + &send(json!({"type": "response.completed", "response": response}))
}

fn messages(said: &Said) -> String {
    let send = |data: Value| event(data["type"].as_str().unwrap(), &data);
    let usage = json!({"input_tokens": 100, "output_tokens": 1});
    let mut all = send(json!({"type": "message_start", "message": {"id": "m", "content": [], "usage": usage}}));
    let mut index = 0;
    let mut block = |start: Value, deltas: Vec<Value>| {
        all.push_str(&send(json!({"type": "content_block_start", "index": index, "content_block": start})));
        for delta in deltas {
            all.push_str(&send(json!({"type": "content_block_delta", "index": index, "delta": delta})));
        }
        all.push_str(&send(json!({"type": "content_block_stop", "index": index})));
        index += 1;
    };
    if !said.text.is_empty() {
        let deltas = pieces(&said.text).into_iter().map(|it| json!({"type": "text_delta", "text": it})).collect();
        block(json!({"type": "text", "text": ""}), deltas);
    }
    for (id, name, arguments) in &said.calls {
        let deltas = pieces(arguments).into_iter().map(|it| json!({"type": "input_json_delta", "partial_json": it}));
        block(json!({"type": "tool_use", "id": id, "name": name, "input": {}}), deltas.collect());
    }
    let reason = if said.calls.is_empty() { "end_turn" } else { "tool_use" };
    let delta = json!({"stop_reason": reason, "stop_sequence": null});
    all.push_str(&send(json!({"type": "message_delta", "delta": delta, "usage": {"output_tokens": 10}})));
    all + &send(json!({"type": "message_stop"}))
}

fn gemini(said: &Said) -> String {
    let mut parts: Vec<String> = pieces(&said.text).into_iter().map(|it| json!({ "text": it }).to_string()).collect();
    for (_, name, arguments) in &said.calls {
        // Gemini gives no ids, and arguments as JSON.
        parts.push(format!(r#"{{"functionCall":{{"name":"{name}","args":{arguments}}}}}"#));
    }
    let usage = r#""usageMetadata":{"promptTokenCount":100,"candidatesTokenCount":10}"#;
    let last = parts.len().saturating_sub(1);
    let chunk = |(i, part): (usize, &String)| {
        let end = if i == last { r#","finishReason":"STOP""# } else { "" };
        format!("data: {{\"candidates\":[{{\"content\":{{\"role\":\"model\",\"parts\":[{part}]}}{end}}}],{usage}}}\n\n")
    };
    parts.iter().enumerate().map(chunk).collect()
}
