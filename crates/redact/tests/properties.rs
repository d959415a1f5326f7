//! What holds for any text.

#![allow(clippy::unwrap_used, reason = "a test that fails says so")]

use std::time::Duration;

use openskill_redact::testing::{hostile, typical};
use openskill_redact::{Redactor, Rules};
use proptest::prelude::*;
use serde_json::Value;

/// Pieces from which text is made that rules look at.
const PIECES: [&str; 48] = [
    "password",
    "api_key",
    "\"",
    "'",
    "\\",
    "\\\"",
    ":",
    "=",
    " ",
    "\n",
    "{",
    "}",
    "[",
    "]",
    ",",
    "sk-",
    "sk-ant-api03-",
    "AKIA",
    "eyJ",
    "Bearer ",
    "Authorization: ",
    "-----BEGIN PRIVATE KEY-----",
    "-----END PRIVATE KEY-----",
    "://",
    "@",
    "/home/",
    "\\u002d",
    "%2D",
    "密码",
    "：",
    "是",
    "é",
    "\u{1b}[31m",
    "0",
    "4111111111111111",
    "aB3",
    "cGFzc3dvcmQ6",
    "--token",
    "<token>",
    "</token>",
    "session_id",
    "&quot;",
    "“",
    "\0",
    "***",
    "tool_call_id",
    "密码=",
    "&",
];

fn text() -> impl Strategy<Value = String> {
    let piece = prop_oneof![4 => prop::sample::select(&PIECES[..]).prop_map(str::to_owned), 1 => any::<String>(), 1 => "[a-zA-Z0-9]{1,40}"];
    prop::collection::vec(piece, 0..24).prop_map(|pieces| pieces.concat())
}

/// Text without masks: in a document, only what is redacted has one.
fn unmasked() -> impl Strategy<Value = String> {
    text().prop_map(|text| text.replace('*', ""))
}

fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        unmasked().prop_map(Value::from)
    ];
    leaf.prop_recursive(4, 32, 6, |inner| {
        let names = prop_oneof![
            prop::sample::select(&["password", "name", "value", "tokens", "pin", "credentials", "id"][..])
                .prop_map(str::to_owned),
            unmasked()
        ];
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
            prop::collection::vec((names, inner), 0..6)
                .prop_map(|members| Value::Object(members.into_iter().collect())),
        ]
    })
}

/// Whether two values have the same shape: what was replaced is a string now.
fn same_shape(before: &Value, after: &Value) -> bool {
    match (before, after) {
        (Value::Array(before), Value::Array(after)) => {
            before.len() == after.len() && before.iter().zip(after).all(|(a, b)| same_shape(a, b))
        }
        (Value::Object(before), Value::Object(after)) => {
            before.len() == after.len() && before.values().zip(after.values()).all(|(a, b)| same_shape(a, b))
        }
        (Value::Number(number), Value::String(mask)) => mask == "***" || number.to_string() == *mask || is_hash(mask),
        (before, after) => std::mem::discriminant(before) == std::mem::discriminant(after),
    }
}

/// Whether this stands in place of an id.
fn is_hash(text: &str) -> bool {
    text.rsplit_once('_').is_some_and(|(_, hash)| hash.len() == 32 && hash.bytes().all(|byte| byte.is_ascii_hexdigit()))
}

/// `PROPTEST_CASES` is how many texts are tried: a change of the rules is tried with hundreds of thousands.
fn cases() -> ProptestConfig {
    let cases = std::env::var("PROPTEST_CASES").map_or(600, |cases| cases.parse().unwrap());
    ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(cases) }
}

proptest! {
    #![proptest_config(cases())]

    #[test]
    fn json_keeps_its_shape(value in value()) {
        let text = value.to_string();
        let out = Redactor::default().json(text.as_bytes()).into_owned();
        let after: Value = serde_json::from_str(&out).map_err(|error| TestCaseError::fail(format!("{error}: {text} -> {out}")))?;
        // Names may hold secrets too: two that differ in them only become one.
        if let (Value::Object(before), Value::Object(after)) = (&value, &after) {
            prop_assume!(before.len() == after.len());
        }
        prop_assert!(same_shape(&value, &after) || out.matches("***\":").count() > 0, "{} -> {}", text, out);
    }

    #[test]
    fn any_bytes_are_taken(bytes in prop::collection::vec(any::<u8>(), 0..400), text in text()) {
        let redactor = Redactor::new(Rules::default().emails(true).phones(true)).unwrap();
        redactor.json(&bytes);
        redactor.json(text.as_bytes());
        redactor.text(&text);
    }

    #[test]
    fn what_is_redacted_stays_so(text in text()) {
        let redactor = Redactor::default();
        let once = redactor.text(&text).into_owned();
        prop_assert!(redactor.text(&once).len() <= once.len() + 3 * once.matches("***").count());
    }

    #[test]
    fn a_stream_loses_nothing_but_secrets(text in text(), cuts in prop::collection::vec(1..9_usize, 1..40)) {
        let redactor = Redactor::default();
        let mut stream = redactor.stream();
        let (mut out, mut rest) = (String::new(), text.as_str());
        for cut in cuts.iter().cycle() {
            if rest.is_empty() {
                break;
            }
            let (chunk, tail) = rest.split_at(rest.ceil_char_boundary(*cut.min(&rest.len())));
            out += &stream.push(chunk);
            rest = tail;
        }
        out += &stream.finish();
        if redactor.text(&text) == text && !out.contains("***") {
            prop_assert_eq!(out, text);
        }
    }

    #[test]
    fn one_that_is_off_changes_nothing(text in text()) {
        let redactor = Redactor::off();
        prop_assert_eq!(redactor.text(&text), text.as_str());
        prop_assert_eq!(redactor.stream().push(&text), text.as_str());
        prop_assert_eq!(redactor.id("session", &text), text);
    }
}

/// What this thread has used: other programs don't count.
fn cpu_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), time.tv_nsec as u32)
}

/// The time of the quickest of some runs.
fn time(redactor: &Redactor, text: &str) -> Duration {
    let once = |_| {
        let start = cpu_time();
        std::hint::black_box(redactor.text(text));
        cpu_time().saturating_sub(start)
    };
    (0..5).map(once).min().unwrap()
}

/// How often a text is measured again before its time counts as too long.
const ROUNDS: usize = 6;

#[test]
fn the_time_is_linear_in_the_length() {
    let redactor = Redactor::default();
    let (short, long) = (8 << 10, 64 << 10);
    for ((name, short_text), (_, long_text)) in hostile(short).iter().zip(hostile(long)) {
        // Quadratic time is 64 times as long, in every round. A busy machine may triple it, in some of them.
        let is_linear = |_| {
            let (once, eight_times) = (time(&redactor, short_text), time(&redactor, &long_text));
            eight_times < once.max(Duration::from_micros(50)) * 24
        };
        assert!((0..ROUNDS).any(is_linear), "{name}: {long} bytes take more than 24 times as long as {short}");
    }
}

#[test]
fn usual_text_has_no_secrets() {
    let redactor = Redactor::default();
    for (name, text) in typical(20_000) {
        assert_eq!(redactor.text(&text), text, "{name}");
    }
}
