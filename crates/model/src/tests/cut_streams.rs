//! Cuts and reorders streams at random within the rules of their format: the calls either arrive intact, or the
//! stream is unreadable. `OPENSKILL_FUZZ_ROUNDS` sets the number of streams, and `OPENSKILL_FUZZ_SEED` the first
//! seed.

use std::fmt::Write as _;

use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};
use serde_json::json;

use super::exchange::KINDS;
use super::folding::{calls, read_in, streams};
use super::quirks::wire;
use crate::WireFormat;
use crate::wire::WireError;

struct Dice(StdRng);

impl Dice {
    fn roll(&mut self, sides: usize) -> usize {
        self.0.random_range(0..sides)
    }

    fn one_in(&mut self, sides: usize) -> bool {
        self.roll(sides) == 0
    }

    fn pick<'a, T: ?Sized>(&mut self, of: &[&'a T]) -> &'a T {
        of[self.roll(of.len())]
    }
}

/// A call as the model intended it.
#[derive(Debug, Clone)]
struct ExpectedCall {
    id: String,
    name: &'static str,
    arguments: String,
}

fn random_call(dice: &mut Dice, n: usize) -> ExpectedCall {
    let mut value = String::new();
    for _ in 0..dice.roll(6) {
        value += dice.pick(&["🍸", "é", "{\\\"", "}", "\\\\", "\\ud83c\\udf78", "[", "a b", "\\n", "</x>"]);
    }
    let arguments = match dice.roll(5) {
        0 => "{}".to_owned(),
        1 => format!("{{\"n\": 12345678901234567890123, \"in\": {{\"text\": \"{value}\"}}}}"),
        _ => format!("{{\"text\": \"{value}\"}}"),
    };
    ExpectedCall { id: format!("c{n}"), name: ["text", "read_file", "now"][dice.roll(3)], arguments }
}

/// Splits a text into JSON strings at arbitrary UTF-16 positions.
fn split_text(dice: &mut Dice, text: &str) -> Vec<String> {
    let units: Vec<u16> = text.encode_utf16().collect();
    let (mut pieces, mut from) = (Vec::new(), 0);
    while from < units.len() {
        let to = if dice.one_in(3) { units.len() } else { (from + 1 + dice.roll(8)).min(units.len()) };
        let mut piece = "\"".to_owned();
        for unit in char::decode_utf16(units[from..to].iter().copied()) {
            match unit {
                Ok(it) if it.is_ascii() || dice.one_in(2) => {
                    let quoted = json!(it).to_string();
                    piece += &quoted[1..quoted.len() - 1];
                }
                Ok(it) => it.encode_utf16(&mut [0; 2]).iter().for_each(|it| write!(piece, "\\u{it:04x}").unwrap()),
                Err(half) => write!(piece, "\\u{:04x}", half.unpaired_surrogate()).unwrap(),
            }
        }
        pieces.push(piece + "\"");
        from = to;
    }
    pieces
}

/// Merges lists into one while keeping the order within each: concatenated, or interleaved if `mixed`.
fn merge(dice: &mut Dice, mut lists: Vec<Vec<String>>, mixed: bool) -> Vec<String> {
    lists.iter_mut().for_each(|it| it.reverse());
    let mut all = Vec::new();
    while lists.iter().any(|it| !it.is_empty()) {
        let left: Vec<usize> = (0..lists.len()).filter(|at| !lists[*at].is_empty()).collect();
        let at = if mixed { left[dice.roll(left.len())] } else { left[0] };
        all.extend(lists[at].pop());
    }
    all
}

/// Returns an index as a server may write it: the call's own index, the same one for all calls, or no index.
fn place(dice: &mut Dice, style: usize, n: usize) -> String {
    match style {
        0 => [format!("{n}"), format!("{n}.0"), format!("\"{n}\"")][dice.roll(3)].clone(),
        1 => "0".to_owned(),
        _ => "null".to_owned(),
    }
}

/// Returns a stream of events, and whether any conforming server may send it.
fn stream(dice: &mut Dice, kind: WireFormat, text: &str, meant: &[ExpectedCall]) -> (Vec<String>, bool) {
    match kind {
        WireFormat::OpenAiChat | WireFormat::DashScope => chat(dice, text, meant),
        WireFormat::OpenAiResponses => responses(dice, text, meant),
        WireFormat::Anthropic => messages(dice, text, meant),
        WireFormat::Gemini => gemini(dice, text, meant),
    }
}

fn chat(dice: &mut Dice, text: &str, meant: &[ExpectedCall]) -> (Vec<String>, bool) {
    let (style, ids, names, late) = (dice.roll(3), dice.roll(3), dice.roll(3), dice.one_in(2));
    let mut lists = Vec::new();
    for (n, call) in meant.iter().enumerate() {
        let mut parts = split_text(dice, &call.arguments);
        let mut name = vec![format!("\"{}\"", call.name)];
        if names == 1 {
            let at = 1 + dice.roll(call.name.len() - 1);
            name = vec![format!("\"{}\"", &call.name[..at]), format!("\"{}\"", &call.name[at..])];
        }
        let before = name.len() - 1 + usize::from(late);
        (0..before).for_each(|_| parts.insert(0, "\"\"".to_owned()));
        let part = |dice: &mut Dice, at: usize, arguments: &str| {
            let id = if ids == 2 || (ids == 1 && at > 0) { "null".to_owned() } else { format!("\"{}\"", call.id) };
            let whole = format!("\"{}\"", call.name);
            let name = name.get(at).or(Some(&whole).filter(|_| names == 2)).map_or("null", String::as_str);
            let place = place(dice, style, n);
            format!(r#"{{"index":{place},"id":{id},"function":{{"name":{name},"arguments":{arguments}}}}}"#)
        };
        lists.push(parts.iter().enumerate().map(|(at, it)| part(dice, at, it)).collect::<Vec<String>>());
    }
    let mixed = style == 0 || ids == 0;
    let delta = |delta: &str| format!(r#"{{"choices":[{{"index":0,"delta":{delta}}}]}}"#);
    let all: Vec<_> = if mixed || dice.one_in(2) {
        merge(dice, lists, mixed)
    } else {
        // Interleave the parts of all calls, position by position.
        let longest = lists.iter().map(Vec::len).max().unwrap_or(0);
        let none = r#"{"function":{"arguments":""}}"#.to_owned();
        let row = |at: usize| lists.iter().map(|it| it.get(at).unwrap_or(&none).clone()).collect::<Vec<_>>().join(",");
        (0..longest).map(row).collect()
    };
    let all = all.iter().map(|it| delta(&format!(r#"{{"tool_calls":[{it}]}}"#))).collect();
    let said = split_text(dice, text).iter().map(|it| delta(&format!(r#"{{"content":{it}}}"#))).collect();
    let mut events = merge(dice, vec![said, all], true);
    events.push(
        r#"{"choices":[{"index":"0","delta":{},"finish_reason":"tool_calls"}],"usage":{"prompt_tokens":"x"}}"#
            .to_owned(),
    );
    events.push("[DONE]".to_owned());
    (events, style == 0)
}

fn responses(dice: &mut Dice, text: &str, meant: &[ExpectedCall]) -> (Vec<String>, bool) {
    // Item ids: the item's own id, no id, or a new id in each event.
    let (style, items, whole, snapshot) = (dice.roll(3), dice.roll(3), dice.roll(3), dice.one_in(2));
    let mut lists = Vec::new();
    let item = |call: &ExpectedCall, id: &str, arguments: &str| {
        let arguments = json!(arguments);
        format!(
            r#"{{"type":"function_call","id":{id},"call_id":"{}","name":"{}","arguments":{arguments}}}"#,
            call.id, call.name
        )
    };
    for (n, call) in meant.iter().enumerate() {
        let parts = split_text(dice, &call.arguments);
        let mut events = Vec::new();
        let mut event = |dice: &mut Dice, kind: &str, rest: &str, is_item: bool| {
            let id = match items {
                0 => format!("\"i{n}\""),
                1 => "null".to_owned(),
                _ => format!("\"x{}\"", dice.roll(1 << 30)),
            };
            let (place, rest) = (place(dice, style, n), rest.replace("$id", &id));
            let id = if is_item { String::new() } else { format!(r#","item_id":{id}"#) };
            events.push(format!(r#"{{"type":"response.{kind}","output_index":{place}{id},{rest}}}"#));
        };
        let (done, given) = (if whole == 1 { "" } else { call.arguments.as_str() }, json!(call.arguments));
        event(dice, "output_item.added", &format!(r#""item":{}"#, item(call, "$id", "")), true);
        if whole < 2 {
            parts
                .iter()
                .for_each(|it| event(dice, "function_call_arguments.delta", &format!(r#""delta":{it}"#), false));
        }
        if dice.one_in(2) {
            event(dice, "function_call_arguments.done", &format!(r#""arguments":{given}"#), false);
        }
        event(dice, "output_item.done", &format!(r#""item":{}"#, item(call, "$id", done)), true);
        lists.push(events);
    }
    let mixed = style == 0 || items == 0;
    let all = merge(dice, lists, mixed);
    let delta = |it: &String| format!(r#"{{"type":"response.output_text.delta","delta":{it}}}"#);
    let said = split_text(dice, text).iter().map(delta).collect();
    let mut events = merge(dice, vec![said, all], true);
    let mut output: Vec<_> = meant.iter().map(|it| item(it, "null", &it.arguments)).collect();
    output.insert(0, format!(r#"{{"type":"message","content":[{{"type":"output_text","text":{}}}]}}"#, json!(text)));
    let output = if snapshot { output.join(",") } else { String::new() };
    events.push(format!(r#"{{"type":"response.completed","response":{{"output":[{output}],"usage":7}}}}"#));
    (events, (style == 0 && items != 2) || (items == 0 && style != 1))
}

fn messages(dice: &mut Dice, text: &str, meant: &[ExpectedCall]) -> (Vec<String>, bool) {
    let (style, stops) = (dice.roll(3), dice.one_in(2));
    let mut lists = Vec::new();
    for (n, call) in meant.iter().enumerate() {
        let (id, name, at) = (&call.id, call.name, place(dice, style, n));
        let mut events = vec![format!(
            r#"{{"type":"content_block_start","index":{at},"content_block":{{"type":"tool_use","id":"{id}","name":"{name}","input":{{}}}}}}"#
        )];
        for part in split_text(dice, &call.arguments) {
            let at = place(dice, style, n);
            events.push(format!(r#"{{"type":"content_block_delta","index":{at},"delta":{{"partial_json":{part}}}}}"#));
        }
        if stops {
            events.push(format!(r#"{{"type":"content_block_stop","index":{at}}}"#));
        }
        lists.push(events);
    }
    let all = merge(dice, lists, style == 0);
    let said = split_text(dice, text);
    let said = said.iter().map(|it| format!(r#"{{"type":"content_block_delta","index":99,"delta":{{"text":{it}}}}}"#));
    let said = said.collect();
    let mut events = merge(dice, vec![said, all], true);
    events
        .push(r#"{"type":"message_delta","delta":{"stop_reason":"tool_use"},"usage":{"output_tokens":[]}}"#.to_owned());
    events.push(r#"{"type":"message_stop"}"#.to_owned());
    (events, true)
}

fn gemini(dice: &mut Dice, text: &str, meant: &[ExpectedCall]) -> (Vec<String>, bool) {
    let mut parts = Vec::new();
    for call in meant {
        let (id, name, arguments) = (&call.id, call.name, &call.arguments);
        if dice.one_in(2) {
            parts.push(format!(r#"{{"functionCall":{{"id":"{id}","name":"{name}","args":{arguments}}}}}"#));
        } else {
            parts.push(format!(r#"{{"functionCall":{{"id":"{id}","name":"{name}","args":{{}}}}}}"#));
            parts.push(format!(r#"{{"functionCall":{{"args":{arguments}}}}}"#));
        }
    }
    let said = split_text(dice, text).iter().map(|it| format!(r#"{{"text":{it}}}"#)).collect();
    let chunk = |it: &String| format!(r#"{{"candidates":[{{"content":{{"parts":[{it}]}}}}],"usageMetadata":"none"}}"#);
    let mut events: Vec<_> = merge(dice, vec![said, parts], true).iter().map(chunk).collect();
    events.push(r#"{"candidates":[{"content":{"parts":[]},"finishReason":"STOP"}]}"#.to_owned());
    (events, true)
}

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|it| it.parse().unwrap_or_else(|_| panic!("{name} is a number")))
}

#[test]
fn the_calls_of_a_stream_are_whole_or_it_is_unreadable() {
    let rounds = number("OPENSKILL_FUZZ_ROUNDS").unwrap_or(500);
    let seed = number("OPENSKILL_FUZZ_SEED").unwrap_or(7);
    let (mut whole, mut unreadable) = (0, 0);
    for round in 0..rounds {
        let mut dice = Dice(StdRng::seed_from_u64(seed.wrapping_add(round)));
        let kind = KINDS[dice.roll(KINDS.len())];
        let count = 1 + dice.roll(3);
        let meant: Vec<_> = (0..count).map(|n| random_call(&mut dice, n)).collect();
        let text = dice.pick(&["", "Grüß 🍸 dich", "🍸🍸"]);
        let (events, is_certain) = stream(&mut dice, kind, text, &meant);
        let events: Vec<_> = events.iter().map(String::as_str).collect();
        let (stream, wire) = (streams(&events), wire(kind));
        let case =
            || format!("{kind:?}, OPENSKILL_FUZZ_SEED={} OPENSKILL_FUZZ_ROUNDS=1: {stream}", seed.wrapping_add(round));
        let expected: Vec<_> = meant.iter().map(|it| (it.id.as_str(), it.name, it.arguments.as_str())).collect();
        let mut check = |bytes: &[u8], sizes: &[usize], is_cut: bool| match read_in(&*wire, bytes, sizes) {
            (seen, Ok(reply)) => {
                // Calls are in the order in which they begin, and some servers send no ids for them.
                let (mut read, mut expected) = (calls(&reply).1, expected.clone());
                if read.iter().all(|it| it.0.is_empty()) {
                    expected.iter_mut().for_each(|it| it.0 = "");
                }
                read.sort_unstable();
                expected.sort_unstable();
                assert_eq!((read, seen.as_str(), reply.text.as_str()), (expected, text, text), "{}", case());
                whole += 1;
            }
            (_, Err(WireError::CutOff)) if is_cut => {}
            (_, Err(WireError::Malformed(why))) => {
                assert!(is_cut || !is_certain, "{why}: {}", case());
                unreadable += 1;
            }
            (_, Err(error)) => panic!("{error:?}: {}", case()),
        };
        let size = 1 + dice.roll(64);
        check(stream.as_bytes(), &[size], false);
        let at = dice.roll(stream.len());
        let cuts = if round % 500 == 0 { 0..stream.len() } else { at..at + 1 };
        for at in cuts {
            check(stream.as_bytes(), &[at, usize::MAX], false);
            check(&stream.as_bytes()[..at], &[], true);
        }
    }
    eprintln!("{whole} whole, {unreadable} unreadable");
    assert!(whole > unreadable, "{whole} whole, {unreadable} unreadable");
}
