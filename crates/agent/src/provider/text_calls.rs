//! Calls that a model writes as plain text, because its server does not know the format in which it was trained to
//! call. They count only if they were asked for: text that a model quotes is not a call.

use std::borrow::Cow;
use std::collections::HashSet;

use openskill_proto::model_text::{Kind, Token, tokens};
use serde::Deserialize;
use serde_json::value::RawValue;

use super::calls::{self, Partial};
use super::model::{Reply, Stop};

/// What begins such a call.
const MARKS: [&str; 2] = ["<tool_call>", "```"];

/// Text that is held back from its reader while it may be a call.
#[derive(Debug, Default)]
pub(super) struct Held {
    /// What was not handed on.
    waiting: String,
    /// How many bytes were.
    said: usize,
    /// A mark came: the rest waits for the end of the answer.
    is_marked: bool,
}

impl Held {
    /// Hands on what is certainly no call.
    pub(super) fn take(&mut self, piece: &str, text: &mut dyn FnMut(&str)) {
        self.waiting.push_str(piece);
        if self.is_marked {
            return;
        }
        let mark = MARKS.iter().filter_map(|mark| self.waiting.find(mark)).min();
        self.is_marked = mark.is_some();
        let certain = mark.unwrap_or_else(|| self.waiting.len() - begun(&self.waiting));
        if certain > 0 {
            text(&self.waiting[..certain]);
            self.waiting.drain(..certain);
            self.said += certain;
        }
    }

    /// Moves the calls of known tools out of the text, and hands on what is left of it.
    pub(super) fn end(self, mut reply: Reply, tools: &[String], text: &mut dyn FnMut(&str)) -> Reply {
        if reply.calls.is_empty() && reply.stop != Stop::Refused {
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

/// How many bytes at the end of a text may be the beginning of a mark.
fn begun(text: &str) -> usize {
    let longest = |mark: &str| (1..mark.len()).rev().find(|at| text.ends_with(&mark[..*at])).unwrap_or(0);
    MARKS.iter().map(|mark| longest(mark)).max().unwrap_or(0)
}

/// The calls in a text, and the text without them.
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
        if let Some((end, found)) = block_of(text, block, names).filter(|(_, found)| found.len() <= calls::room(&calls))
        {
            blocks.push(token.begin..end);
            calls.extend(found);
        } else if is_fence {
            // What else a code block shows is no call.
            at = tokens[at..].iter().position(|it| it.kind == Kind::FenceClose).map_or(tokens.len(), |it| at + it);
        }
    }
    let (mut rest, mut end) = (String::new(), 0);
    for block in blocks {
        rest.push_str(&text[end..block.start]);
        end = block.end;
    }
    // What stands before the first call was handed on already, its white space included.
    (calls, rest + &text[end..])
}

/// Whether everything before a token was reasoning, or may have been.
fn ends_reasoning(text: &str, token: &Token<'_>) -> bool {
    let may_end = || ["</think>", "</thinking>"].iter().any(|it| text[token.begin..].contains(it));
    token.kind == Kind::ReasoningEnd || (token.kind == Kind::Unclosed && may_end())
}

/// The calls in the block that begins with the first of these tokens, and where it ends.
fn block_of(text: &str, tokens: &[Token<'_>], names: &HashSet<String>) -> Option<(usize, Vec<Partial>)> {
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
    let found = written(&text[value.begin..value.end], names, begin.kind == Kind::FenceOpen);
    (is_value && !found.is_empty()).then_some((end, found))
}

#[derive(Deserialize)]
struct Written<'a> {
    name: String,
    #[serde(borrow, default, alias = "parameters")]
    arguments: Option<&'a RawValue>,
}

/// The calls that a block is: one, or a list of them, and nothing else. An object with a name alone is data, unless its tags
/// say that it is a call.
fn written(body: &str, names: &HashSet<String>, needs_arguments: bool) -> Vec<Partial> {
    let one = serde_json::from_str::<Written<'_>>(body).map(|it| vec![it]);
    let Ok(written) = one.or_else(|_| serde_json::from_str::<Vec<Written<'_>>>(body)) else { return Vec::new() };
    if !written.iter().all(|it| names.contains(&it.name) && (it.arguments.is_some() || !needs_arguments)) {
        return Vec::new();
    }
    let call = |it: Written<'_>| {
        let mut call = Partial { name: it.name, ..Partial::default() };
        call.push(&calls::arguments(it.arguments).unwrap_or(Cow::Borrowed("{}")));
        call
    };
    written.into_iter().map(call).collect()
}

/// The name in a tool definition of any dialect.
fn name(tool: &str) -> Option<String> {
    #[derive(Deserialize)]
    struct Tool {
        name: Option<String>,
        function: Option<Function>,
    }
    #[derive(Deserialize)]
    struct Function {
        name: String,
    }
    let tool: Tool = serde_json::from_str(tool).ok()?;
    tool.name.or(tool.function.map(|it| it.name))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What the reader saw, and the reply, for a text that arrives in pieces of this size.
    fn read(text: &str, size: usize) -> (String, Reply) {
        let tools = [
            r#"{"type":"function","function":{"name":"add","parameters":{}}}"#.to_owned(),
            r#"{"name":"read","input_schema":{}}"#.to_owned(),
        ];
        let (mut held, mut seen) = (Held::default(), String::new());
        let chars: Vec<char> = text.chars().collect();
        for piece in chars.chunks(size) {
            held.take(&piece.iter().collect::<String>(), &mut |it| seen.push_str(it));
        }
        let reply = Reply { text: text.to_owned(), ..Reply::default() };
        let reply = held.end(reply, &tools, &mut |it| seen.push_str(it));
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

    /// Text of others in strings of calls, of reasoning and of prose. `OPENSKILL_FUZZ_ROUNDS` says how often.
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
            let mut state: u64 = seed;
            let mut below = |bound: usize| {
                state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
                (state >> 33) as usize % bound
            };
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
