//! Streams as real servers send them: split within characters and names, with indexes that are duplicate, missing
//! or of another type.

use super::exchange::KINDS;
use super::folding::{calls, read, streams};
use crate::anthropic::Anthropic;
use crate::gemini::Gemini;
use crate::model::ModelResponse;
use crate::openai_chat::{Flavour, OpenAiChat};
use crate::openai_responses::OpenAiResponses;
use crate::wire::{Wire, WireError};
use crate::{ModelError, WireFormat};

pub(super) fn wire(kind: WireFormat) -> Box<dyn Wire> {
    let (model, name) = ("m".to_owned(), "test:m".to_owned());
    match kind {
        WireFormat::OpenAiChat => Box::new(OpenAiChat { model, name, flavour: Flavour::Compatible }),
        WireFormat::DashScope => Box::new(OpenAiChat { model, name, flavour: Flavour::DashScope }),
        WireFormat::OpenAiResponses => Box::new(OpenAiResponses { model, name }),
        WireFormat::Anthropic => Box::new(Anthropic { model, name }),
        WireFormat::Gemini => Box::new(Gemini { model, name }),
    }
}

/// Returns chat chunks with these lists of call deltas, and the end of the stream.
fn chat(lists: &[&str]) -> Vec<String> {
    let chunk = |list: &&str| format!(r#"{{"choices":[{{"index":0,"delta":{{"tool_calls":[{list}]}}}}]}}"#);
    let end = [r#"{"choices":[{"index":0,"delta":{},"finish_reason":"tool_calls"}]}"#, "[DONE]"];
    lists.iter().map(chunk).chain(end.map(str::to_owned)).collect()
}

/// Returns response events, and the end of the stream.
fn responses(events: &[&str]) -> Vec<String> {
    events.iter().chain(&[r#"{"type":"response.completed","response":{}}"#]).map(|it| (*it).to_owned()).collect()
}

fn messages(events: &[&str]) -> Vec<String> {
    events.iter().chain(&[r#"{"type":"message_stop"}"#]).map(|it| (*it).to_owned()).collect()
}

fn gemini(parts: &[&str]) -> Vec<String> {
    let chunk = |part: &&str| format!(r#"{{"candidates":[{{"content":{{"parts":[{part}]}}}}]}}"#);
    let end = r#"{"candidates":[{"content":{"parts":[]},"finishReason":"STOP"}]}"#;
    parts.iter().map(chunk).chain([end.to_owned()]).collect()
}

fn answer(kind: WireFormat, events: &[String]) -> Result<ModelResponse, WireError> {
    let events: Vec<_> = events.iter().map(String::as_str).collect();
    read(&*wire(kind), &streams(&events))
}

#[track_caller]
fn assert_calls(kind: WireFormat, events: &[String], expected: &[(&str, &str, &str)]) {
    let reply = answer(kind, events).unwrap_or_else(|error| panic!("{error:?}: {events:#?}"));
    assert_eq!(calls(&reply).1, expected, "{events:#?}");
}

#[track_caller]
fn assert_unreadable(kind: WireFormat, events: &[String]) {
    let read = answer(kind, events);
    assert!(matches!(read, Err(WireError::Malformed(_))), "{read:?}: {events:#?}");
}

#[test]
fn a_character_whose_halves_come_apart_is_whole_again_and_takes_no_text_with_it() {
    let expected = [("c1", "text", r#"{"text": "keep MIDDLE 🍸 END tail"}"#)];
    let first = r#"{"index":0,"id":"c1","function":{"name":"text","arguments":"{\"text\": \"keep "}}"#;
    let (high, low) = (r#""MIDDLE \ud83c""#, r#""\udf78 END tail\"}""#);
    let part = |text: &str| format!(r#"{{"index":0,"function":{{"arguments":{text}}}}}"#);
    assert_calls(WireFormat::OpenAiChat, &chat(&[first, &part(high), &part(low)]), &expected);
    assert_unreadable(WireFormat::OpenAiChat, &chat(&[first, &part(high), &part(r#"" END tail\"}""#)]));
    let added = r#"{"type":"response.output_item.added","output_index":0,"item":{"id":"i1","type":"function_call","call_id":"c1","name":"text","arguments":"{\"text\": \"keep "}}"#;
    let delta = |text: &str| {
        format!(r#"{{"type":"response.function_call_arguments.delta","item_id":"i1","output_index":0,"delta":{text}}}"#)
    };
    assert_calls(WireFormat::OpenAiResponses, &responses(&[added, &delta(high), &delta(low)]), &expected);
    assert_unreadable(WireFormat::OpenAiResponses, &responses(&[added, &delta(high)]));
    let start = r#"{"type":"content_block_start","index":1,"content_block":{"type":"tool_use","id":"c1","name":"text","input":{}}}"#;
    let block = |text: &str| {
        format!(
            r#"{{"type":"content_block_delta","index":1,"delta":{{"type":"input_json_delta","partial_json":{text}}}}}"#
        )
    };
    let begins = block(r#""{\"text\": \"keep ""#);
    assert_calls(WireFormat::Anthropic, &messages(&[start, &begins, &block(high), &block(low)]), &expected);
    assert_unreadable(WireFormat::Anthropic, &messages(&[start, &begins, &block(high), &block(r#""\"}""#)]));
}

#[test]
fn text_loses_nothing_but_half_a_character_that_stays_alone() {
    let text = |kind: WireFormat, piece: &str| match kind {
        WireFormat::OpenAiChat | WireFormat::DashScope => {
            format!(r#"{{"choices":[{{"delta":{{"content":"{piece}"}}}}]}}"#)
        }
        WireFormat::OpenAiResponses => format!(r#"{{"type":"response.output_text.delta","delta":"{piece}"}}"#),
        WireFormat::Anthropic => format!(r#"{{"type":"content_block_delta","delta":{{"text":"{piece}"}}}}"#),
        WireFormat::Gemini => format!(r#"{{"candidates":[{{"content":{{"parts":[{{"text":"{piece}"}}]}}}}]}}"#),
    };
    for kind in KINDS {
        let end = match kind {
            WireFormat::OpenAiChat | WireFormat::DashScope => chat(&[]),
            WireFormat::OpenAiResponses => responses(&[]),
            WireFormat::Anthropic => messages(&[]),
            WireFormat::Gemini => gemini(&[]),
        };
        let read = |pieces: &[&str]| {
            let events: Vec<_> = pieces.iter().map(|it| text(kind, it)).chain(end.clone()).collect();
            answer(kind, &events).unwrap().text
        };
        assert_eq!(read(&["start \\ud83c", "\\udf78 tail"]), "start 🍸 tail", "{kind:?}");
        assert_eq!(read(&["start \\ud83c", " tail \\ud83c"]), "start \u{fffd} tail \u{fffd}", "{kind:?}");
    }
}

#[test]
fn a_name_in_parts_is_one_name() {
    let expected = [("c1", "text", r#"{"text": "one"}"#)];
    let first = r#"{"index":0,"id":"c1","function":{"name":"te","arguments":""}}"#;
    for rest in [
        r#"{"index":0,"function":{"name":"xt","arguments":"{\"text\": \"one\"}"}}"#,
        r#"{"index":0,"id":"c1","function":{"name":"xt","arguments":"{\"text\": \"one\"}"}}"#,
        r#"{"id":"c1","function":{"name":"xt","arguments":"{\"text\": \"one\"}"}}"#,
        r#"{"function":{"name":"xt","arguments":"{\"text\": \"one\"}"}}"#,
    ] {
        assert_calls(WireFormat::OpenAiChat, &chat(&[first, rest]), &expected);
    }
    let late = [
        r#"{"index":0,"id":"c1","function":{"arguments":"{\"text\": "}}"#,
        r#"{"index":0,"function":{"name":"text","arguments":"\"one\"}"}}"#,
    ];
    assert_calls(WireFormat::OpenAiChat, &chat(&late), &expected);
    // Without an id or index, these could also be two calls, so the stream is rejected. So is a call without a
    // name.
    let plain = [r#"{"function":{"name":"te","arguments":""}}"#, r#"{"function":{"name":"xt","arguments":"{}"}}"#];
    assert_unreadable(WireFormat::OpenAiChat, &chat(&plain));
    assert_unreadable(WireFormat::OpenAiChat, &chat(&late[..1]));
}

#[test]
fn parts_without_a_place_belong_to_the_only_call_they_can_belong_to() {
    let two = r#"{"id":"c1","function":{"name":"text","arguments":""}},{"id":"c2","function":{"name":"text","arguments":""}}"#;
    let part = |text: &str| format!(r#"{{"function":{{"arguments":"{{\"text\":\"{text}\"}}"}}}}"#);
    let (one, other) = (part("one"), part("two"));
    let expected = [("c1", "text", r#"{"text":"one"}"#), ("c2", "text", r#"{"text":"two"}"#)];
    assert_calls(WireFormat::OpenAiChat, &chat(&[two, &format!("{one},{other}")]), &expected);
    let cut = r#"{"function":{"arguments":"{\"te"}},{"function":{"arguments":"{\"text\":\"two\"}"}}"#;
    assert_calls(
        WireFormat::OpenAiChat,
        &chat(&[two, cut, r#"{"function":{"arguments":"xt\":\"one\"}"}}"#]),
        &expected,
    );
    assert_unreadable(WireFormat::OpenAiChat, &chat(&[two, &one, &other]));
    let same_place = two.replace(r#"{"id""#, r#"{"index":0,"id""#);
    let (one, other) =
        (one.replace("{\"function", "{\"index\":0,\"function"), other.replace("{\"f", "{\"index\":0,\"f"));
    assert_unreadable(WireFormat::OpenAiChat, &chat(&[&same_place, &one, &other]));
    let with_id = |part: &str, id: &str| part.replace("\"index\":0", &format!("\"index\":0,\"id\":\"{id}\""));
    assert_calls(
        WireFormat::OpenAiChat,
        &chat(&[&same_place, &with_id(&one, "c1"), &with_id(&other, "c2")]),
        &expected,
    );
}

#[test]
fn items_of_a_response_are_told_apart_by_their_ids() {
    let item = |kind: &str, n: u32, place: u32, arguments: &str| {
        format!(
            r#"{{"type":"response.output_item.{kind}","output_index":{place},"item":{{"id":"i{n}","type":"function_call","call_id":"c{n}","name":"text","arguments":"{arguments}"}}}}"#
        )
    };
    let (one, two) = (r#"{\"text\":\"one\"}"#, r#"{\"text\":\"two\"}"#);
    let expected = [("c1", "text", r#"{"text":"one"}"#), ("c2", "text", r#"{"text":"two"}"#)];
    let (begun, ended) =
        ([item("added", 1, 0, ""), item("added", 2, 0, "")], [item("done", 1, 0, one), item("done", 2, 0, two)]);
    let kind = WireFormat::OpenAiResponses;
    assert_calls(kind, &responses(&[&begun[0], &ended[0], &begun[1], &ended[1]]), &expected);
    assert_calls(kind, &responses(&[&begun[0], &begun[1], &ended[1], &ended[0]]), &expected);
    let done =
        |arguments: &str| format!(r#"{{"type":"response.function_call_arguments.done","arguments":"{arguments}"}}"#);
    let (done, empty) = ([done(one), done(two)], [item("done", 1, 0, ""), item("done", 2, 1, "")]);
    assert_unreadable(
        kind,
        &responses(&[&begun[0], &item("added", 2, 1, ""), &done[0], &done[1], &empty[0], &empty[1]]),
    );
    assert_calls(kind, &responses(&[&begun[0], &begun[1], &done[0], &done[1], &ended[0], &ended[1]]), &expected);
    assert_calls(kind, &responses(&[&begun[0], &done[0], &empty[0], &item("added", 2, 1, ""), &done[1]]), &expected);
    // Some servers give an item a different id in each event.
    let changed = ended[0].replace("\"i1\"", "\"x\"");
    assert_calls(kind, &responses(&[&begun[0], &changed]), &expected[..1]);
}

#[test]
fn what_only_the_end_of_a_response_has_is_read_and_what_it_repeats_counts_once() {
    let call = |id: &str, text: &str| {
        format!(
            r#"{{"type":"function_call","id":"i{id}","call_id":"{id}","name":"text","arguments":"{{\"text\":\"{text}\"}}"}}"#
        )
    };
    let message = r#"{"type":"message","content":[{"type":"output_text","text":"Let me. So."}]}"#;
    let completed =
        |output: &[&str]| format!(r#"{{"type":"response.completed","response":{{"output":[{}]}}}}"#, output.join(","));
    let said = r#"{"type":"response.output_text.delta","item_id":"m","output_index":0,"delta":"Let me."}"#.to_owned();
    let streamed = format!(r#"{{"type":"response.output_item.done","output_index":1,"item":{}}}"#, call("c1", "one"));
    let (one, two) = (("c1", "text", r#"{"text":"one"}"#), ("c2", "text", r#"{"text":"two"}"#));
    let (first, second) = (call("c1", "one"), call("c2", "two"));
    for (events, expected) in [
        (vec![said.clone(), completed(&[message, &first])], &[one][..]),
        (vec![said.clone(), streamed.clone(), completed(&[message, &first])], &[one]),
        (vec![said.clone(), streamed.clone(), completed(&[message, &second, &first])], &[one, two]),
        (vec![said.clone(), streamed.clone(), completed(&[message, &call("c9", "one")])], &[one]),
    ] {
        assert_calls(WireFormat::OpenAiResponses, &events, expected);
        assert_eq!(answer(WireFormat::OpenAiResponses, &events).unwrap().text, "Let me. So.");
    }
    for output in [vec![call("c1", "two")], vec![call("c9", "two")]] {
        let output: Vec<_> = output.iter().map(String::as_str).collect();
        assert_unreadable(WireFormat::OpenAiResponses, &[streamed.clone(), completed(&output)]);
    }
}

#[test]
fn a_call_of_gemini_that_comes_in_parts_is_one_call_or_none() {
    let first = r#"{"functionCall":{"name":"text","args":{}}}"#;
    let one = [("", "text", r#"{"text":"one"}"#)];
    assert_calls(WireFormat::Gemini, &gemini(&[first, r#"{"functionCall":{"args":{"text":"one"}}}"#]), &one);
    assert_calls(
        WireFormat::Gemini,
        &gemini(&[r#"{"functionCall":{"name":"text","args":{"text":"one"}}}"#, r#"{"functionCall":{}}"#]),
        &one,
    );
    let goes_on = r#"{"functionCall":{"name":"text","willContinue":true}}"#;
    let partial = r#"{"functionCall":{"partialArgs":[{"jsonPath":"$.text","stringValue":"o"}],"willContinue":true}}"#;
    for parts in [
        &[r#"{"functionCall":{"args":{"text":"one"}}}"#][..],
        &[goes_on, r#"{"functionCall":{}}"#],
        &[goes_on, partial, r#"{"functionCall":{}}"#],
        &[r#"{"functionCall":{"name":"text","args":{"text":"one"}}}"#, r#"{"functionCall":{"args":{"text":"two"}}}"#],
    ] {
        assert_unreadable(WireFormat::Gemini, &gemini(parts));
    }
}

#[test]
fn fields_of_another_type_cost_no_answer_that_does_not_need_them() {
    let (usage, place, one) =
        (r#""usage":{"prompt_tokens":5.0,"completion_tokens":{}}"#, [r#""0""#, "0.0", "[]"], r#"{"text": "one"}"#);
    for index in place {
        let first = format!(
            r#"{{"choices":[{{"index":{index},"delta":{{"role":7,"tool_calls":[{{"index":{index},"id":0,"function":{{"name":"text","arguments":"{{\"text\": "}}}}]}}}}],{usage},"object":[]}}"#
        );
        let second = r#"{"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":0,"function":{"arguments":"\"one\"}"}}]}}],"usage":"none"}"#;
        let events: Vec<_> = [first, second.to_owned()].into_iter().chain(chat(&[])).collect();
        assert_calls(WireFormat::OpenAiChat, &events, &[("0", "text", one)]);
        assert_eq!(answer(WireFormat::OpenAiChat, &events).unwrap().tokens.input, 5);
    }
    let added = r#"{"type":"response.output_item.added","output_index":"1","item":{"id":1,"type":"function_call","call_id":7,"name":"text"}}"#;
    let delta = r#"{"type":"response.function_call_arguments.delta","output_index":1.0,"delta":"{\"text\": \"one\"}"}"#;
    let end = r#"{"type":"response.completed","response":{"usage":[],"incomplete_details":"no"}}"#;
    assert_calls(WireFormat::OpenAiResponses, &[added, delta, end].map(str::to_owned), &[("7", "text", one)]);
    let start = r#"{"type":"content_block_start","index":"1","content_block":{"type":"tool_use","id":7,"name":"text"},"usage":7}"#;
    let block = r#"{"type":"content_block_delta","index":1.0,"delta":{"partial_json":"{\"text\": \"one\"}"}}"#;
    let usage = r#"{"type":"message_delta","delta":{"stop_reason":"tool_use"},"usage":{"output_tokens":"9"}}"#;
    assert_calls(WireFormat::Anthropic, &messages(&[start, block, usage]), &[("7", "text", one)]);
    let events = gemini(&[r#"{"functionCall":{"id":7,"name":"text","args":{"text": "one"}},"thought":"no"}"#]);
    let usage = r#"{"usageMetadata":{"promptTokenCount":5.0},"promptFeedback":[]}"#.to_owned();
    assert_calls(WireFormat::Gemini, &[&[usage][..], &events].concat(), &[("7", "text", one)]);
}

#[test]
fn a_field_that_the_answer_needs_is_not_lost_unseen() {
    for delta in [r#"{"content":7}"#, r#"{"tool_calls":{}}"#, r#"{"tool_calls":[{"index":0,"function":"text"}]}"#, "[]"]
    {
        let event = format!(r#"{{"choices":[{{"index":0,"delta":{delta}}}]}}"#);
        assert_unreadable(WireFormat::OpenAiChat, &[&[event][..], &chat(&[])].concat());
    }
    let unknown = r#"{"type":"content_block_delta","index":3,"delta":{"partial_json":"{}"}}"#;
    assert_unreadable(WireFormat::Anthropic, &messages(&[unknown]));
    let other =
        r#"{"type":"content_block_start","index":3,"content_block":{"type":"server_tool_use","id":"s","name":"web"}}"#;
    assert_calls(WireFormat::Anthropic, &messages(&[other, unknown]), &[]);
}

#[test]
fn an_answer_that_cannot_be_put_together_is_asked_for_again() {
    let error = ModelError::Unreadable { provider: "test".to_owned(), reason: "a call has no name".to_owned() };
    assert!(error.is_transient());
}
