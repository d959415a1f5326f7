//! Tests what the parsers accept, record and reject.

use super::*;

fn read(text: &str) -> Result<String, String> {
    object(text).map(|(tree, _)| tree.write())
}

fn kinds(text: &str) -> Vec<&'static str> {
    object(text).unwrap().1.iter().map(|repair| repair.kind.name()).collect()
}

#[test]
fn unambiguous_deviations_are_read() {
    for (text, expected) in [
        (r#"{"a": 1,}"#, r#"{"a":1}"#),
        (r#"{"a": [1, 2,],}"#, r#"{"a":[1,2]}"#),
        ("{\"a\": 1 // one\n, /* two */ \"b\": 2}", r#"{"a":1,"b":2}"#),
        ("{'a': True, 'b': None, 'c': False}", r#"{"a":true,"b":null,"c":false}"#),
        (r"{'a': 'it\'s'}", r#"{"a":"it's"}"#),
        ("{\"code\": \"a\nb\"}", r#"{"code":"a\nb"}"#),
    ] {
        assert_eq!(read(text).as_deref(), Ok(expected), "{text}");
        assert_eq!(kinds(text), ["syntax"], "{text}");
    }
}

#[test]
fn prose_and_code_fences_around_one_object_are_ignored() {
    for text in ["```json\n{\"a\": 1}\n```", "Sure! Here is the call:\n{\"a\": 1}\nHope that helps.", "{\"a\": 1};"] {
        assert_eq!(read(text).as_deref(), Ok(r#"{"a":1}"#), "{text}");
        assert_eq!(kinds(text), ["extracted"], "{text}");
    }
}

#[test]
fn a_double_encoded_object_is_decoded() {
    assert_eq!(read(r#""{\"a\": 1}""#).as_deref(), Ok(r#"{"a":1}"#));
    assert_eq!(kinds(r#""{\"a\": 1}""#), ["double_encoded"]);
    assert_eq!(kinds(r#""\"{\\\"a\\\": 1}\"""#), ["double_encoded", "double_encoded"]);
}

#[test]
fn comments_and_byte_order_marks_around_an_object_are_reported() {
    for text in ["{\"a\":1} // {\"a\":2}", "\u{feff}{\"a\":1}", "{\"a\":1} /* done */"] {
        assert_eq!(kinds(text), ["syntax"], "{text}");
    }
}

#[test]
fn numbers_keep_every_digit() {
    let text = r#"{"id":12345678901234567890123,"x":1.00,"y":1e2}"#;
    assert_eq!(read(text).as_deref(), Ok(text));
}

#[test]
fn ambiguous_text_is_refused() {
    for (text, reason) in [
        (r#"{"a": 1"#, "cut off"),
        (r#"{"a": "x"#, "cut off"),
        (r#"{"a": 1, "a": 2}"#, "duplicate key"),
        (r#"{"a": NaN}"#, "NaN"),
        (r#"{"a": 6*30.48}"#, "expected ','"),
        (r#"{"a": 01}"#, "not a JSON number"),
        (r#"{"a": 1e999}"#, "not a JSON number"),
        (r#"{a: 1}"#, "quoted key"),
        (r#"{"a": yes}"#, "double quotes"),
        (r#"{"a": 1} {"b": 2}"#, "more than one"),
        (r#"[{"a": 1}]"#, "not an array"),
        (r#"[{"a": 1}"#, "cut off"),
        (r#"here: [{"a": 1}]"#, "not a JSON value"),
        (r#"{"a": 1}}"#, "more than one"),
        (r#""path": "/tmp/x", "options": {"recursive": true}"#, "text after"),
        (r#"{"path": "/tmp"}, "only": "*.log""#, "text after"),
        (r#"task": "a"} {"task": "b"}"#, "not a JSON value"),
        ("{\"a\": [12, #13\n 14]}", "expected a value"),
        ("{'a': 'it's'}", "expected ','"),
        (r#"{"a": "\ud800"}"#, "surrogate"),
        (r#"{"a": "\x41"}"#, "invalid escape"),
        ("", "cut off"),
        ("no object", "not a JSON value"),
        ("[1, 2]", "not an array"),
        ("\"text\"", "not a JSON value"),
    ] {
        let error = read(text).unwrap_err();
        assert!(error.contains(reason), "{text}: {error}");
    }
    let deep = format!("{}{}", "{\"a\":".repeat(100), "}".repeat(100));
    assert!(read(&deep).unwrap_err().contains("deeper"));
}

#[test]
fn the_strict_parser_accepts_json_only() {
    assert_eq!(strict(r#"{"a":[1,-2,0.5,null,true,"x"]}"#).unwrap().to_string(), r#"{"a":[1,-2,0.5,null,true,"x"]}"#);
    assert!(matches!(strict(r#"{"a":1,}"#), Err(StrictError::Syntax(_))));
    assert!(matches!(strict("{} {}"), Err(StrictError::Syntax(_))));
    assert!(
        matches!(strict(r#"{"b":{"a":1,"a":1}}"#), Err(StrictError::Fatal(reason)) if reason.contains("duplicate key"))
    );
    let deep = |levels: usize| format!("{}{}", "[".repeat(levels), "]".repeat(levels));
    assert!(strict(&deep(64)).is_ok());
    assert!(matches!(strict(&deep(65)), Err(StrictError::Fatal(reason)) if reason.contains("deeper")));
}
