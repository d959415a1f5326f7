use super::*;

fn read(text: &str) -> Result<String, String> {
    object(text).map(|(tree, _)| tree.write())
}

fn kinds(text: &str) -> Vec<&'static str> {
    object(text).unwrap().1.iter().map(|repair| repair.kind.name()).collect()
}

#[test]
fn what_models_write_is_read_for_what_it_means() {
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
fn prose_and_fences_around_one_object_are_let_be() {
    for text in ["```json\n{\"a\": 1}\n```", "Sure! Here is the call:\n{\"a\": 1}\nHope that helps.", "{\"a\": 1};"] {
        assert_eq!(read(text).as_deref(), Ok(r#"{"a":1}"#), "{text}");
        assert_eq!(kinds(text), ["extracted"], "{text}");
    }
}

#[test]
fn an_object_written_into_a_string_is_taken_out() {
    assert_eq!(read(r#""{\"a\": 1}""#).as_deref(), Ok(r#"{"a":1}"#));
    assert_eq!(kinds(r#""{\"a\": 1}""#), ["double_encoded"]);
    assert_eq!(kinds(r#""\"{\\\"a\\\": 1}\"""#), ["double_encoded", "double_encoded"]);
}

#[test]
fn what_is_skipped_around_an_object_is_said() {
    for text in ["{\"a\":1} // {\"a\":2}", "\u{feff}{\"a\":1}", "{\"a\":1} /* done */"] {
        assert_eq!(kinds(text), ["syntax"], "{text}");
    }
}

#[test]
fn digits_are_kept() {
    let text = r#"{"id":12345678901234567890123,"x":1.00,"y":1e2}"#;
    assert_eq!(read(text).as_deref(), Ok(text));
}

#[test]
fn what_could_mean_two_things_is_not_read() {
    for (text, reason) in [
        (r#"{"a": 1"#, "cut off"),
        (r#"{"a": "x"#, "cut off"),
        (r#"{"a": 1, "a": 2}"#, "twice"),
        (r#"{"a": NaN}"#, "NaN"),
        (r#"{"a": 6*30.48}"#, "expected ','"),
        (r#"{"a": 01}"#, "no number"),
        (r#"{"a": 1e999}"#, "no number"),
        (r#"{a: 1}"#, "key in quotes"),
        (r#"{"a": yes}"#, "double quotes"),
        (r#"{"a": 1} {"b": 2}"#, "more than one"),
        (r#"[{"a": 1}]"#, "not a list"),
        (r#"[{"a": 1}"#, "cut off"),
        (r#"here: [{"a": 1}]"#, "no JSON value"),
        (r#"{"a": 1}}"#, "more than one"),
        (r#""path": "/tmp/x", "options": {"recursive": true}"#, "text after"),
        (r#"{"path": "/tmp"}, "only": "*.log""#, "text after"),
        (r#"task": "a"} {"task": "b"}"#, "no JSON value"),
        ("{\"a\": [12, #13\n 14]}", "expected a value"),
        ("{'a': 'it's'}", "expected ','"),
        (r#"{"a": "\ud800"}"#, "surrogate"),
        (r#"{"a": "\x41"}"#, "no escape"),
        ("", "cut off"),
        ("no object", "no JSON value"),
        ("[1, 2]", "not a list"),
        ("\"text\"", "no JSON value"),
    ] {
        let error = read(text).unwrap_err();
        assert!(error.contains(reason), "{text}: {error}");
    }
    let deep = format!("{}{}", "{\"a\":".repeat(100), "}".repeat(100));
    assert!(read(&deep).unwrap_err().contains("deeper"));
}

#[test]
fn strict_reading_takes_json_and_nothing_else() {
    assert_eq!(strict(r#"{"a":[1,-2,0.5,null,true,"x"]}"#).unwrap().to_string(), r#"{"a":[1,-2,0.5,null,true,"x"]}"#);
    assert!(matches!(strict(r#"{"a":1,}"#), Err(Fault::Syntax(_))));
    assert!(matches!(strict("{} {}"), Err(Fault::Syntax(_))));
    assert!(matches!(strict(r#"{"b":{"a":1,"a":1}}"#), Err(Fault::Final(reason)) if reason.contains("twice")));
    let deep = |levels: usize| format!("{}{}", "[".repeat(levels), "]".repeat(levels));
    assert!(strict(&deep(64)).is_ok());
    assert!(matches!(strict(&deep(65)), Err(Fault::Final(reason)) if reason.contains("deeper")));
}
