//! Parses calls that a model writes as plain text, because its server does not know the model's call format. Calls
//! are recognized only if the request enables this, and never in quoted text.

use std::borrow::Cow;
use std::collections::HashSet;

use openskill_proto::model_text::{Kind, REASONING_TAGS, Token, tokens};
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use crate::calls::{self, Partial};
use crate::model::{ModelResponse, StopReason};

/// The beginnings of text calls.
const MARKS: [&str; 2] = ["<tool_call>", "```"];

/// Withholds text while it may be part of a call.
#[derive(Debug, Default)]
pub(crate) struct TextCallFilter {
    /// Text that was not yet passed on.
    waiting: String,
    /// The number of bytes passed on.
    said: usize,
    /// Whether a mark was found. If so, the rest is withheld until the answer ends.
    is_marked: bool,
}

impl TextCallFilter {
    /// Passes on text that is certainly not part of a call.
    pub(crate) fn take(&mut self, piece: &str, text: &mut dyn FnMut(&str)) {
        self.waiting.push_str(piece);
        if self.is_marked {
            return;
        }
        let mark = MARKS.iter().filter_map(|mark| self.waiting.find(mark)).min();
        self.is_marked = mark.is_some();
        let certain = mark.unwrap_or_else(|| self.waiting.len() - partial_mark_length(&self.waiting));
        if certain > 0 {
            text(&self.waiting[..certain]);
            self.waiting.drain(..certain);
            self.said += certain;
        }
    }

    /// Converts text calls of known tools into calls, and passes on the remaining text.
    pub(crate) fn end(self, mut reply: ModelResponse, tools: &[String], text: &mut dyn FnMut(&str)) -> ModelResponse {
        if reply.calls.is_empty() && reply.stop != StopReason::Refused {
            let names: HashSet<_> = tools.iter().filter_map(|tool| name(tool)).collect();
            let (calls, rest) = split(&reply.text, &names);
            if !calls.is_empty() {
                reply.calls = calls.into_iter().filter_map(|it| it.finish().ok()).collect();
                reply.text = rest;
            }
        }
        match reply.text.get(self.said..) {
            Some(rest) if !rest.is_empty() => text(rest),
            _ => {}
        }
        reply
    }
}

/// Returns the number of bytes at the end of a text that may be the beginning of a mark.
fn partial_mark_length(text: &str) -> usize {
    let longest = |mark: &str| (1..mark.len()).rev().find(|at| text.ends_with(&mark[..*at])).unwrap_or(0);
    MARKS.iter().map(|mark| longest(mark)).max().unwrap_or(0)
}

/// Returns the calls in a text, and the text without them.
fn split(text: &str, names: &HashSet<String>) -> (Vec<Partial>, String) {
    let (mut blocks, mut calls) = (Vec::new(), Vec::new());
    let (tokens, mut at) = (tokens(text), 0);
    while let Some(token) = tokens.get(at) {
        let block = &tokens[at..(at + 3).min(tokens.len())];
        at += 1;
        if ends_reasoning(text, token) {
            (blocks, calls) = (Vec::new(), Vec::new());
        }
        let is_fence = token.kind == Kind::FenceOpen;
        if let Some((end, found)) =
            parse_block(text, block, names).filter(|(_, found)| found.len() <= calls::room(&calls))
        {
            blocks.push(token.begin..end);
            calls.extend(found);
        } else if is_fence {
            // Other code blocks don't contain calls.
            at = tokens[at..].iter().position(|it| it.kind == Kind::FenceClose).map_or(tokens.len(), |it| at + it);
        }
    }
    let (mut rest, mut end) = (String::new(), 0);
    for block in blocks {
        rest.push_str(&text[end..block.start]);
        end = block.end;
    }
    // The text before the first call was already passed on with its whitespace, so it is not trimmed.
    (calls, rest + &text[end..])
}

/// Returns whether everything before the token is, or may be, reasoning.
fn ends_reasoning(text: &str, token: &Token<'_>) -> bool {
    let may_end = || REASONING_TAGS.iter().any(|tag| text[token.begin..].contains(&format!("</{tag}>")));
    token.kind == Kind::ReasoningEnd || (token.kind == Kind::Unclosed && may_end())
}

/// Parses the block that begins with the first token. Returns the end of the block and its calls.
fn parse_block(text: &str, tokens: &[Token<'_>], names: &HashSet<String>) -> Option<(usize, Vec<Partial>)> {
    let (begin, value) = (tokens.first()?, tokens.get(1)?);
    let is_blank = |from: usize, to: usize| text[from..to].trim().is_empty();
    let closing = match begin.kind {
        Kind::Open("tool_call") => Kind::Close("tool_call"),
        Kind::FenceOpen => Kind::FenceClose,
        _ => return None,
    };
    let end = match tokens.get(2) {
        Some(last) if last.kind == closing && is_blank(value.end, last.begin) => last.end,
        None if is_blank(value.end, text.len()) => text.len(),
        _ => return None,
    };
    let is_value = value.kind == Kind::Value && is_blank(begin.end, value.begin);
    let found = parse_calls(&text[value.begin..value.end], names, begin.kind == Kind::FenceOpen);
    (is_value && !found.is_empty()).then_some((end, found))
}

#[derive(Deserialize)]
struct WrittenCall<'a> {
    name: String,
    #[serde(borrow, default, alias = "parameters")]
    arguments: Option<&'a RawValue>,
}

/// Parses a block that consists of a call or a list of calls. An object that only has a name is data, unless tags
/// mark it as a call.
fn parse_calls(body: &str, names: &HashSet<String>, needs_arguments: bool) -> Vec<Partial> {
    let one = serde_json::from_str::<WrittenCall<'_>>(body).map(|it| vec![it]);
    let Ok(written) = one.or_else(|_| serde_json::from_str::<Vec<WrittenCall<'_>>>(body)) else { return Vec::new() };
    if !written.iter().all(|it| names.contains(&it.name) && (it.arguments.is_some() || !needs_arguments)) {
        return Vec::new();
    }
    let call = |it: WrittenCall<'_>| {
        let mut call = Partial { name: it.name, ..Partial::default() };
        call.push(&calls::arguments(it.arguments).unwrap_or(Cow::Borrowed("{}")));
        call
    };
    written.into_iter().map(call).collect()
}

/// Returns the name in a tool definition of any dialect.
fn name(tool: &str) -> Option<String> {
    let tool: Value = serde_json::from_str(tool).ok()?;
    let name = tool.get("name").or_else(|| tool.pointer("/function/name"))?;
    name.as_str().map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::rngs::StdRng;
    use rand::{RngExt as _, SeedableRng as _};

    /// Returns the displayed text and the reply for a text that arrives in pieces of `size`.
    fn read(text: &str, size: usize) -> (String, ModelResponse) {
        let tools = [
            r#"{"type":"function","function":{"name":"add","parameters":{}}}"#.to_owned(),
            r#"{"name":"read","input_schema":{}}"#.to_owned(),
        ];
        let (mut filter, mut seen) = (TextCallFilter::default(), String::new());
        let chars: Vec<char> = text.chars().collect();
        for piece in chars.chunks(size) {
            filter.take(&piece.iter().collect::<String>(), &mut |it| seen.push_str(it));
        }
        let reply = ModelResponse { text: text.to_owned(), ..ModelResponse::default() };
        let reply = filter.end(reply, &tools, &mut |it| seen.push_str(it));
        (seen, reply)
    }

    #[test]
    fn calls_of_known_tools_leave_the_text_whatever_its_pieces() {
        let text = "Sure é\n<tool_call>\n{\"name\": \"add\", \"arguments\": {\"n\": 12345678901234567890123}}\n</tool_call>\
                    and```json\n[{\"name\":\"read\",\"parameters\":\"{\\\"a\\\": 1}\"},{\"name\":\"add\",\"arguments\":{}}]\n```!";
        for size in 1..text.len() {
            let (seen, reply) = read(text, size);
            let calls: Vec<_> = reply.calls.iter().map(|it| (it.name.as_str(), it.arguments.as_str())).collect();
            let expected = [("add", r#"{"n": 12345678901234567890123}"#), ("read", r#"{"a": 1}"#), ("add", "{}")];
            assert_eq!(calls, expected, "{size}");
            assert_eq!((seen.as_str(), reply.text.as_str()), ("Sure é\nand!", "Sure é\nand!"), "{size}");
        }
    }

    #[test]
    fn a_call_that_the_end_of_the_text_closes_counts() {
        let (seen, reply) = read("<tool_call>{\"name\":\"add\",\"arguments\":{}}", 3);
        assert_eq!((reply.calls.len(), seen.as_str()), (1, ""));
    }

    #[test]
    fn marks_within_strings_end_no_call_and_a_tagged_call_needs_no_arguments() {
        let tagged = r#"{"text": "close with </tool_call> tag, </think>"}"#;
        let fenced = r#"{"text": "a ``` fence"}"#;
        let text = format!(
            "It's <think>not <tool_call>{{\"name\":\"add\"}}</tool_call> \"</think>\"</think>on:\
             <tool_call>{{\"name\": \"add\", \"arguments\": {tagged}}}</tool_call>, ```json\n{{\"name\": \"read\", \
             \"arguments\": {fenced}}}\n``` <tool_call>{{\"name\": \"read\"}}</tool_call>"
        );
        let expected_text = "It's <think>not <tool_call>{\"name\":\"add\"}</tool_call> \"</think>\"</think>on:,  ";
        for size in 1..=text.len() {
            let (seen, reply) = read(&text, size);
            let calls: Vec<_> = reply.calls.iter().map(|it| (it.name.as_str(), it.arguments.as_str())).collect();
            assert_eq!(calls, [("add", tagged), ("read", fenced), ("read", "{}")]);
            assert_eq!((seen.as_str(), reply.text.as_str()), (expected_text, expected_text));
        }
    }

    #[test]
    fn a_call_that_the_model_only_considers_or_quotes_does_not_run() {
        let call = r#"<tool_call>{"name":"add","arguments":{}}</tool_call>"#;
        for text in [
            format!("<think>I could {call}</think>done"),
            format!("<thinking>\n{call}\n</thinking>"),
            format!("I could {call}</think>done"),
            format!("I could {call}, it's \"odd</think>done"),
            format!("<think>I could {call}"),
            format!("The page says \"{call}\"."),
            format!("The page says “{call}”."),
            format!("```python\nprint('{call}')\n```"),
            format!("```xml\n{call}\n```"),
            format!("{{\"text\": \"{}\"}}", call.replace('"', "\\\"")),
            format!(
                "<tool_call>{{\"name\":\"remove\",\"arguments\":{{\"text\":{}}}}}</tool_call>",
                serde_json::Value::from(call)
            ),
        ] {
            let (seen, reply) = read(&text, 5);
            assert!(reply.calls.is_empty(), "{text}");
            assert_eq!((seen.as_str(), reply.text.as_str()), (text.as_str(), text.as_str()));
        }
    }

    #[test]
    fn text_that_only_looks_like_a_call_stays_text() {
        for text in [
            "```json\n{\"name\": \"remove\", \"arguments\": {}}\n```",
            "```json\n{\"name\": \"add\"}\n```",
            "```\nlet x = 1;\n``` and ``` again",
            "<tool_call>{\"name\": \"add\", \"arguments\": ",
            "a < b, `code`, <tool_",
            "{\"name\": \"add\", \"arguments\": {}}",
        ] {
            for size in 1..=text.len() {
                let (seen, reply) = read(text, size);
                assert!(reply.calls.is_empty(), "{text}");
                assert_eq!((seen.as_str(), reply.text.as_str()), (text, text), "{size}");
            }
        }
    }

    /// Puts text of others into strings of calls, reasoning and prose. `OPENSKILL_FUZZ_ROUNDS` sets the number of
    /// rounds.
    #[test]
    fn made_up_text_in_strings_neither_calls_nor_ends_a_call() {
        const PIECES: [&str; 16] = [
            "</think>",
            "<think>",
            "<tool_call>",
            "</tool_call>",
            "{\"name\":\"read\",\"arguments\":{}}",
            "```json\n",
            "\n```\n",
            "```",
            "{\"name\": \"",
            "\"}",
            "}",
            "{",
            "\"",
            "\\",
            "it's",
            "[",
        ];
        let rounds = std::env::var("OPENSKILL_FUZZ_ROUNDS").map_or(2000, |it| it.parse().unwrap());
        for seed in 0..rounds {
            let mut random = StdRng::seed_from_u64(seed);
            let mut below = |bound: usize| random.random_range(0..bound);
            let quoted: String = (0..=below(8)).map(|_| PIECES[below(PIECES.len())]).collect();
            let arguments = serde_json::json!({ "text": quoted }).to_string();
            let call = format!("{{\"name\": \"add\", \"arguments\": {arguments}}}");
            let before = [
                "It's: ".to_owned(),
                format!("<think>I could {{\"name\": \"read\", \"arguments\": {arguments}}}</think>"),
                format!("The page says {}.", serde_json::Value::from(&*quoted)),
                "I see.</think>".to_owned(),
            ];
            let block = [format!("<tool_call>{call}</tool_call>"), format!("```json\n{call}\n```")];
            let text = format!("{}{}!", before[below(4)], block[below(2)]);
            let (_, reply) = read(&text, 7);
            let calls: Vec<_> = reply.calls.iter().map(|it| (it.name.as_str(), it.arguments.as_str())).collect();
            assert_eq!(calls, [("add", &*arguments)], "seed {seed}: {text}");
        }
    }
}
