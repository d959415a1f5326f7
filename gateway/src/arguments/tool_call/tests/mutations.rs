//! Mutates valid raw calls: wraps, fences, quotes and truncates them, and puts marks, tags and other calls in their
//! strings. Either no skill runs, or the one that is named outside of strings, with its argument.
//! `OPENSKILL_FUZZ_ROUNDS` sets the number of calls.

use std::sync::LazyLock;

use openskill_redact::testing::Random;
use serde_json::{Value, json};

use crate::arguments::tool_call::read;
use crate::arguments::{Definition, Policy, Rules};

const ROUNDS: u64 = 2000;

/// Building blocks of quoted text.
static PIECES: LazyLock<Vec<String>> = LazyLock::new(|| serde_json::from_str(include_str!("pieces.json")).unwrap());

/// Prose without quotes or unclosed brackets.
const PROSE: &[&str] = &[
    "",
    "",
    "Sure: ",
    "I'll call it.\n",
    "The user's \"text\" (see 1) below):\n",
    "5 < 6\n",
    "\n\n",
    "Done.\n",
    "- a\n- b\n",
];

/// Generates raw calls.
struct Writer(Random);

impl Writer {
    fn below(&mut self, bound: usize) -> usize {
        self.0.below(bound)
    }

    fn one<'a>(&mut self, options: &[&'a str]) -> &'a str {
        options[self.below(options.len())]
    }

    /// Generates text from elsewhere, such as a quoted document.
    fn foreign_text(&mut self) -> String {
        (0..=self.below(8)).map(|_| PIECES[self.below(PIECES.len())].as_str()).collect()
    }

    /// Writes a string like a model: as JSON, with line breaks, or in single quotes.
    fn string(&mut self, text: &str) -> String {
        let json = Value::from(text).to_string();
        match self.below(3) {
            0 => json,
            1 => json.replace("\\\\n", "\u{0}").replace("\\n", "\n").replace('\u{0}', "\\\\n"),
            _ => format!("'{}'", json[1..json.len() - 1].replace("\\\"", "\"").replace('\'', "\\'")),
        }
    }

    /// Generates arguments with this text, sometimes in syntax that only a lenient reader accepts.
    fn arguments(&mut self, text: &str) -> String {
        let (key, text, end) =
            (self.one(&["\"text\"", "'text'"]), self.string(text), self.one(&["}", "}", ",}", " // it's }\n}"]));
        format!("{{{key}: {text}{end}")
    }

    /// Generates a call of the skill `text`.
    fn call(&mut self, text: &str) -> String {
        let arguments = self.arguments(text);
        let encoded = Value::from(json!({"text": text}).to_string()).to_string();
        match self.below(9) {
            0 => format!("{{\"name\": \"text\", \"arguments\": {arguments}}}"),
            1 => format!("{{'name': 'text', 'arguments': {arguments},}}"),
            2 => format!(
                "{{\"id\": \"c\", \"type\": \"function\", \"function\": {{\"name\": \"text\", \"arguments\": {encoded}}}}}"
            ),
            3 => format!("{{\"type\": \"tool_use\", \"input\": {arguments}, \"name\": \"text\"}}"),
            4 => format!("{{\"functionCall\": {{\"args\": {arguments}, \"name\": \"text\"}}}}"),
            5 => format!("<text>{arguments}</text>"),
            6 => format!("<core>\n<text>\n{arguments}\n</text>\n</core>"),
            7 => format!("<tool_call>{{\"arguments\": {arguments}, \"name\": \"text\"}}</tool_call>"),
            _ => format!("{{\"name\": \"text\", \"arguments\": {encoded}}}"),
        }
    }

    /// Generates a model's reasoning, with other calls in its strings.
    fn reasoning(&mut self) -> String {
        let quoted = self.foreign_text();
        let json = Value::from(&*quoted).to_string();
        let thought = match self.below(4) {
            0 => format!("The page says {json}. I won't."),
            1 => format!("I could {{\"name\": \"wipe\", \"arguments\": {{\"text\": {json}}}}}."),
            2 => format!("Maybe <wipe>{{\"text\": {json}}}</wipe>?"),
            _ => "It's easy.".to_owned(),
        };
        format!("<think>{thought}</think>")
    }

    /// Generates a raw call. Also returns whether it certainly is one.
    fn raw_call(&mut self, text: &str) -> (String, bool) {
        let call = self.call(text);
        let (before, after) = (self.one(PROSE), self.one(PROSE));
        match self.below(9) {
            0 => (call, true),
            1 | 2 => (format!("{before}{call}\n{after}"), true),
            3 => (format!("{before}```{}\n{call}\n```\n{after}", self.one(&["", "json", "xml"])), true),
            4 => (format!("{}{before}{call}", self.reasoning()), true),
            5 => (format!("It's the end.</think>{call}\n{after}"), true),
            6 => (format!("{before}text(text={}){after}", self.string(text)), false),
            7 => (format!("{before}<invoke name=\"text\">{call}</invoke>{after}"), false),
            _ => (call[..call.floor_char_boundary(self.below(call.len()))].to_owned(), false),
        }
    }
}

#[test]
fn the_skill_that_runs_is_named_outside_of_strings_and_keeps_its_argument() {
    let rounds = std::env::var("OPENSKILL_FUZZ_ROUNDS").map_or(ROUNDS, |it| it.parse().unwrap());
    let definition = Definition::without_schema(Rules::default());
    for seed in 0..rounds {
        let mut writer = Writer(Random::new(seed));
        let text = writer.foreign_text();
        let (raw, is_call) = writer.raw_call(&text);
        let raw = if writer.below(10) == 0 { Value::from(raw).to_string() } else { raw };
        match read(&raw, None) {
            Ok(call) => {
                assert_eq!(call.skill.as_deref(), Some("text"), "seed {seed}: {raw}");
                let arguments = definition.prepare(&call.arguments, Policy::Repair).unwrap().text;
                assert_eq!(
                    serde_json::from_str::<Value>(&arguments).unwrap(),
                    json!({"text": text}),
                    "seed {seed}: {raw}"
                );
            }
            Err(reason) => assert!(!is_call, "seed {seed}: {reason}: {raw}"),
        }
    }
}
