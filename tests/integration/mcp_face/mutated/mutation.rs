//! Valid messages of all methods, and what may happen to them: to values and keys, to bytes, to headers.

use http::{HeaderMap, HeaderName, HeaderValue};
use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};
use serde_json::{Value, json};

use super::super::{NEWEST, meta};

/// What is sent.
pub(super) struct Mutated {
    pub(super) headers: HeaderMap,
    pub(super) body: Vec<u8>,
}

/// Random numbers from a seed.
pub(super) struct Random(StdRng);

impl Random {
    pub(super) fn new(seed: u64) -> Self {
        Self(StdRng::seed_from_u64(seed))
    }

    fn below(&mut self, limit: usize) -> usize {
        self.0.random_range(0..limit.max(1))
    }

    /// True once in so many times.
    fn once_in(&mut self, times: usize) -> bool {
        self.below(times) == 0
    }

    fn one_of<'a, T: ?Sized>(&mut self, of: &[&'a T]) -> &'a T {
        of[self.below(of.len())]
    }
}

/// Methods and their parameters.
fn methods() -> Vec<(&'static str, Value)> {
    let filter =
        json!({"toolsListChanged": true, "promptsListChanged": true, "resourceSubscriptions": ["test://static-text"]});
    let reference = json!({"type": "ref/prompt", "name": "test_prompt_with_arguments"});
    vec![
        (
            "initialize",
            json!({"protocolVersion": "2025-11-25", "capabilities": {"elicitation": {}}, "clientInfo": {"name": "t", "version": "1"}}),
        ),
        ("ping", json!({})),
        ("server/discover", json!({})),
        ("tools/list", json!({"cursor": "AAAA"})),
        ("tools/call", json!({"name": "in_echo", "arguments": {"text": "hello", "n": 1.5}})),
        (
            "tools/call",
            json!({"name": "in_echo", "arguments": {}, "requestState": "AAAA", "inputResponses": {"a": {"action": "accept"}}}),
        ),
        ("prompts/list", json!({})),
        ("prompts/get", json!({"name": "test_prompt_with_arguments", "arguments": {"arg1": "a", "arg2": "b"}})),
        ("resources/list", json!({})),
        ("resources/templates/list", json!({})),
        ("resources/read", json!({"uri": "test://template/1/data"})),
        ("resources/read", json!({"uri": "openskill://results/abc?offset=1&length=2"})),
        ("resources/subscribe", json!({"uri": "test://static-text"})),
        ("resources/unsubscribe", json!({"uri": "test://static-text"})),
        (
            "completion/complete",
            json!({"ref": reference, "argument": {"name": "arg1", "value": "p"}, "context": {"arguments": {}}}),
        ),
        ("logging/setLevel", json!({"level": "debug"})),
        ("tasks/get", json!({"taskId": "0123"})),
        ("tasks/update", json!({"taskId": "0123", "inputResponses": {}})),
        ("tasks/cancel", json!({"taskId": "0123"})),
        ("subscriptions/listen", json!({"notifications": filter})),
        ("notifications/cancelled", json!({"requestId": 7})),
        ("notifications/initialized", json!({})),
    ]
}

/// A valid message, and its headers.
fn valid(random: &mut Random, session: &str) -> (Value, Vec<(String, String)>) {
    let methods = methods();
    let (method, mut params) = methods[random.below(methods.len())].clone();
    let mut headers = vec![
        ("content-type".to_owned(), "application/json".to_owned()),
        ("accept".to_owned(), "application/json, text/event-stream".to_owned()),
    ];
    if random.once_in(2) {
        let name = ["name", "uri", "taskId"].iter().find_map(|it| params[*it].as_str()).unwrap_or("none").to_owned();
        params["_meta"] = meta();
        for (header, value) in [("mcp-protocol-version", NEWEST), ("mcp-method", method), ("mcp-name", &name)] {
            headers.push((header.to_owned(), value.to_owned()));
        }
    } else if random.once_in(2) {
        headers.push(("mcp-session-id".to_owned(), session.to_owned()));
    }
    if random.once_in(4) {
        params["_meta"]["progressToken"] = json!(5);
    }
    let mut message = json!({"jsonrpc": "2.0", "id": random.below(1000), "method": method, "params": params});
    if method.starts_with("notifications/") {
        message.as_object_mut().unwrap().remove("id");
    }
    if random.once_in(20) {
        message = json!({"jsonrpc": "2.0", "id": "q-1", "result": {"action": "accept", "content": {}}});
    }
    if random.once_in(20) {
        message = Value::from(vec![message; 1 + random.below(3)]);
    }
    (message, headers)
}

/// A value that nobody expects.
fn odd(random: &mut Random) -> Value {
    let deep = |levels: usize| (0..levels).fold(json!(1), |inner, _| json!([inner]));
    match random.below(16) {
        0 => Value::Null,
        1 => json!(true),
        2 => json!(-1),
        3 => json!(u64::MAX),
        4 => json!(1e308),
        5 => json!(""),
        6 => json!("x".repeat(1 + random.below(3000))),
        7 => json!("\u{0}\u{7f}\u{202e}é\n"),
        8 => json!([]),
        9 => json!({}),
        10 => deep(random.below(100)),
        11 => json!("2025-03-26"),
        12 => json!("=?base64?!?="),
        13 => json!([null, {"a": [1, "2"]}]),
        14 => json!({"text": {"text": {"text": null}}}),
        _ => json!("tools/call"),
    }
}

/// Every place in a value, as JSON pointers.
fn places(value: &Value, at: &str, all: &mut Vec<String>) {
    all.push(at.to_owned());
    match value {
        Value::Object(fields) => {
            for (name, inner) in fields {
                places(inner, &format!("{at}/{}", name.replace('~', "~0").replace('/', "~1")), all);
            }
        }
        Value::Array(items) => {
            items.iter().enumerate().for_each(|(index, it)| places(it, &format!("{at}/{index}"), all))
        }
        _ => {}
    }
}

/// Changes a value somewhere: another one in its place, a field that is gone, one more.
fn mutate_value(random: &mut Random, message: &mut Value) {
    let mut all = Vec::new();
    places(message, "", &mut all);
    let (what, new) = (random.below(4), odd(random));
    let Some(place) = message.pointer_mut(&all[random.below(all.len())]) else { return };
    match (what, place.as_object_mut()) {
        (0, Some(fields)) => {
            let name = fields.keys().nth(random.below(fields.len())).cloned();
            name.into_iter().for_each(|it| drop(fields.remove(&it)));
        }
        (1, Some(fields)) => {
            let names = ["_meta", "id", "params", "cursor", "name", "uri", "result", "error", "task", "made up"];
            fields.insert(random.one_of(&names).to_owned(), new);
        }
        _ => *place = new,
    }
}

/// Changes bytes: flips, removes, repeats, inserts.
fn mutate_bytes(random: &mut Random, body: &mut Vec<u8>) {
    let at = random.below(body.len());
    let to = (at + random.below(40)).min(body.len());
    let inserted: [&[u8]; 8] =
        [b"\"id\":8,", b"\xff\xfe", b"\\u0000", b"\\ud800", b"{}", b"]", b"\"method\":\"ping\",", b"\0"];
    match random.below(5) {
        0 if !body.is_empty() => body[at] ^= 1 << random.below(8),
        1 => drop(body.drain(at..to)),
        2 => {
            let part = body[at..to].to_vec();
            drop(body.splice(at..at, part));
        }
        3 => drop(body.splice(at..at, random.one_of(&inserted).iter().copied())),
        _ => body.truncate(at),
    }
}

fn mutate_headers(random: &mut Random, headers: &mut Vec<(String, String)>) {
    let values = [
        "",
        " ",
        NEWEST,
        "2025-03-26",
        "2024-11-05",
        "1999-01-01",
        "tools/call",
        "in_echo",
        "=?base64?aW5fZWNobw==?=",
        "=?base64?!?=",
        "application/json",
        "text/event-stream",
        "*/*;q=0",
        "é",
        "AAAA.BBBB",
        "5",
    ];
    let names = [
        "mcp-protocol-version",
        "mcp-method",
        "mcp-name",
        "mcp-session-id",
        "accept",
        "content-type",
        "traceparent",
        "idempotency-key",
        "mcp-param-region",
        "content-encoding",
        "last-event-id",
        "origin",
    ];
    let at = random.below(headers.len());
    match random.below(4) {
        0 if headers.len() > 1 => drop(headers.remove(at)),
        1 => headers[at].1 = random.one_of(&values).to_owned(),
        2 => headers.push(headers[at].clone()),
        _ => headers.push((random.one_of(&names).to_owned(), random.one_of(&values).to_owned())),
    }
}

/// The next message: valid, and then not always.
pub(super) fn next(random: &mut Random, session: &str) -> Mutated {
    let (mut message, mut given) = valid(random, session);
    for _ in 0..random.below(3) {
        mutate_value(random, &mut message);
    }
    let mut body = message.to_string().into_bytes();
    if random.once_in(3) {
        for _ in 0..=random.below(3) {
            mutate_bytes(random, &mut body);
        }
    }
    for _ in 0..random.below(3) {
        mutate_headers(random, &mut given);
    }
    let mut headers = HeaderMap::new();
    for (name, value) in given {
        if let (Ok(name), Ok(value)) = (HeaderName::try_from(name), HeaderValue::from_bytes(value.as_bytes())) {
            headers.append(name, value);
        }
    }
    Mutated { headers, body }
}
