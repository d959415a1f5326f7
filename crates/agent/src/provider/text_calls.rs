//! Calls that a model writes as plain text, because its server does not know the format in which it was trained to
//! call. They count only if they were asked for: text that a model quotes is not a call.

use std::borrow::Cow;
use std::collections::HashSet;

use serde::Deserialize;
use serde_json::value::RawValue;

use super::calls::{self, Partial};
use super::model::{Reply, Stop};

/// What begins such a call, and what ends it.
const MARKS: [(&str, &str); 2] = [("<tool_call>", "</tool_call>"), ("```", "```")];

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
        let mark = MARKS.iter().filter_map(|(begin, _)| self.waiting.find(begin)).min();
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
                reply.calls = calls::finished(calls, Stop::Done);
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
    let longest = |begin: &str| (1..begin.len()).rev().find(|at| text.ends_with(&begin[..*at])).unwrap_or(0);
    MARKS.iter().map(|(begin, _)| longest(begin)).max().unwrap_or(0)
}

/// The calls in a text, and the text without them.
fn split(text: &str, names: &HashSet<String>) -> (Vec<Partial>, String) {
    let (mut calls, mut rest, mut left) = (Vec::new(), String::new(), text);
    loop {
        let next = MARKS.iter().filter_map(|mark| left.find(mark.0).map(|at| (at, mark))).min_by_key(|it| it.0);
        let Some((at, (begin, end))) = next else {
            rest.push_str(left);
            break;
        };
        let inner = &left[at + begin.len()..];
        let (inner, after) = inner.split_once(end).unwrap_or((inner, ""));
        let body = if *begin == "```" { inner.split_once('\n').map_or(inner, |it| it.1) } else { inner };
        let block = &left[at..left.len() - after.len()];
        rest.push_str(&left[..at]);
        let found = written(body, names);
        if found.is_empty() || calls::room(&calls) < found.len() {
            rest.push_str(block);
        } else {
            calls.extend(found);
        }
        left = after;
    }
    // What stands before the first call was handed on already, its white space included.
    (calls, rest)
}

#[derive(Deserialize)]
struct Written<'a> {
    name: String,
    #[serde(borrow, alias = "parameters")]
    arguments: &'a RawValue,
}

/// The calls that a block is: one, or a list of them, and nothing else.
fn written(body: &str, names: &HashSet<String>) -> Vec<Partial> {
    let one = serde_json::from_str::<Written<'_>>(body).map(|it| vec![it]);
    let Ok(written) = one.or_else(|_| serde_json::from_str::<Vec<Written<'_>>>(body)) else { return Vec::new() };
    if !written.iter().all(|it| names.contains(&it.name)) {
        return Vec::new();
    }
    let call = |it: Written<'_>| {
        let mut call = Partial { name: it.name, ..Partial::default() };
        call.push(&calls::arguments(Some(it.arguments)).unwrap_or(Cow::Borrowed("{}")));
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
}
