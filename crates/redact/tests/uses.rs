//! How the crate is used: rule files, names, ids, marked parameters, streams, lines.

use openskill_redact::{Redactor, Rules, SecretPaths, line};

#[test]
fn a_rule_file_adds_names_texts_and_tokens() {
    let rules = Rules::parse(
        r#"
        emails = true                   # a comment
        names = ["employee number",
                 "x-acme"]
        keep = ['token']
        literals = ["blue#horse"]

        [[token]]
        prefix = "acme_"
        min = 8
        characters = "hex"
        "#,
    )
    .unwrap();
    let redactor = Redactor::new(rules).unwrap();
    for (text, redacted) in [
        ("employeeNumber: 00123", "employeeNumber: ***"),
        (r#"{"X-Acme": "a b", "token": "abc"}"#, r#"{"X-Acme": "***", "token": "abc"}"#),
        ("the blue#horse runs", "the *** runs"),
        ("xacme_0123456789, acme_01", "x***, acme_01"),
        ("write to jane.doe+x@mail.example.com now", "write to *** now"),
    ] {
        assert_eq!(redactor.text(text), redacted);
    }
}

#[test]
fn a_mistake_in_a_rule_file_is_reported_with_its_line() {
    for (text, line, says) in [
        ("emails = yes", 1, "double quotes"),
        ("\nnames = \"one\"", 2, "list of strings"),
        ("colour = true", 1, "unknown key `colour`"),
        ("[token]", 1, "[[token]]"),
        ("[[token]]\nmin = 4\n[[token]]", 3, "prefix"),
        ("literals = [\"abc\"]", 1, "4 to"),
        ("id_key = \"short\"", 1, "16 characters"),
        ("names = [\n\"a b\" \"c d\"]", 1, "commas"),
        ("names = [\"ab", 1, "]"),
    ] {
        let error = Rules::parse(text).unwrap_err();
        assert!(error.line == line && error.message.contains(says), "{text}: {error}");
    }
}

#[test]
fn a_value_is_redacted_by_its_name() {
    let redactor = Redactor::default();
    for (name, value, redacted) in [
        ("Authorization", "Bearer abc.def", "Bearer ***"),
        ("authorization", "plain", "***"),
        ("Cookie", "a=b; c=d", "***"),
        ("X-Api-Key", "hunter2", "***"),
        ("GITHUB_TOKEN", "x y", "***"),
        ("GITHUB_TOKEN", "${TOKEN}", "${TOKEN}"),
        ("PWD", "/srv/app", "/srv/app"),
        ("DB_PWD", "x7", "***"),
        ("PATH", "/home/jane/bin:/usr/bin", "/home/***/bin:/usr/bin"),
        ("Content-Type", "application/json", "application/json"),
        ("密码", "abc", "***"),
    ] {
        assert_eq!(redactor.named(name, value), redacted, "{name}");
    }
}

#[test]
fn an_id_becomes_the_same_hash_everywhere() {
    let rules = || Rules::default().id_key(*b"sixteen bytes or more");
    let (one, other) = (Redactor::new(rules()).unwrap(), Redactor::new(rules()).unwrap());
    let hash = one.id("session", "abc-1");
    assert!(hash.len() == 40 && hash.starts_with("session_"), "{hash}");
    assert_eq!(other.id("session", "abc-1"), hash);
    assert_ne!(one.id("tool_call", "abc-1")[10..], hash[8..]);
    assert_ne!(Redactor::default().id("session", "abc-1"), hash);
    assert_eq!(one.id("session", &hash), hash, "a hash is not hashed again");
    assert_eq!(one.json(br#"{"sessionId": "abc-1"}"#), format!(r#"{{"sessionId": "{hash}"}}"#));
    assert_eq!(one.text("session_id=abc-1 ok"), format!("session_id={hash} ok"));
    assert_eq!(one.named("session_id", "abc-1"), hash);
}

#[test]
fn a_marked_parameter_is_redacted_whatever_it_is() {
    let redactor = Redactor::default();
    let paths = SecretPaths::new(["/note", "/users/*/shoe size", "/blob"]);
    let json = br#"{"note": "hi", "n": 1, "users": [{"shoe size": 43, "x": 1}], "blob": {"a": [true, null, "b"]}}"#;
    let redacted =
        r#"{"note": "***", "n": 1, "users": [{"shoe size": "***", "x": 1}], "blob": {"a": [true, null, "***"]}}"#;
    assert_eq!(redactor.json_with(json, &paths), redacted);
    assert_eq!(redactor.json_with(br#"{"note": "hi", "n"#, &paths), r#"{"note": "***", "n"#);
    assert_eq!(redactor.json(json).as_bytes(), json);
}

#[test]
fn json_keeps_everything_else_byte_for_byte() {
    let redactor = Redactor::default();
    for (json, redacted) in [
        (r#" { "a" : 1.0e5 , "password" : "x" } "#, r#" { "a" : 1.0e5 , "password" : "***" } "#),
        (r#"{"p\u0061ssword": "x\"y", "t": true}"#, r#"{"p\u0061ssword": "***", "t": true}"#),
        (r#"{"password": null, "secret": true, "token": 12}"#, r#"{"password": null, "secret": true, "token": "***"}"#),
        (r#"{"a": "{\"pin\": 1234}"}"#, r#"{"a": "{\"pin\": \"***\"}"}"#),
        (r#"{"u": "https:\/\/bob:x7y\/@host\/p"}"#, r#"{"u": "https:\/\/bob:x7y\/@host\/p"}"#),
        (
            r#"{"credentials": {"user": "bob", "keys": ["a", 1]}}"#,
            r#"{"credentials": {"user": "***", "keys": ["***", "***"]}}"#,
        ),
        (r#"[4111111111111111, "4111 1111 1111 1111"]"#, r#"["***", "***"]"#),
    ] {
        assert_eq!(redactor.json(json.as_bytes()), redacted);
    }
}

#[test]
fn a_stream_lets_out_lines_and_holds_back_what_may_go_on() {
    let redactor = Redactor::default();
    let mut stream = redactor.stream();
    assert_eq!(stream.push("one\ntw"), "one\n");
    assert_eq!(stream.push("o password=hun"), "");
    assert_eq!(stream.push("ter2\n-----BEGIN PRIVATE KEY-----\nMIIE"), "two password=***\n");
    assert_eq!(stream.push("vQIBADANBgkqhkiG9w0BAQEFAASC\n"), "");
    assert_eq!(stream.push("-----END PRIVATE KEY-----\nafter\n"), "***\nafter\n");
    assert_eq!(stream.push("rest"), "");
    assert_eq!(stream.finish(), "rest");
}

#[test]
fn a_stream_holds_back_a_bounded_amount() {
    let redactor = Redactor::default();
    let mut stream = redactor.stream();
    let line = "A1b2C3d4".repeat(8) + "\n";
    let (mut pushed, mut out) = (0, String::new());
    out += &stream.push("-----BEGIN RSA PRIVATE KEY-----\n");
    while pushed < 300 << 10 {
        out += &stream.push(&line);
        pushed += line.len();
    }
    out += &stream.push("-----END RSA PRIVATE KEY-----\nafter\n");
    out += &stream.finish();
    assert_eq!(out, "***\nafter\n");
    let mut stream = redactor.stream();
    let mut out = 0;
    for _ in 0..1_000 {
        out += stream.push(&"word ".repeat(100)).len();
    }
    assert!(out > 500_000 - (80 << 10), "{out}");
}

#[test]
fn a_parameter_that_is_no_secret_does_not_hide_the_next_one() {
    let redactor = Redactor::default();
    let text = "https://x.example/?key=a&code=1&sig=aB3dE5fG7hI9jK1lM3nO&auth=no";
    assert_eq!(redactor.text(text), "https://x.example/?key=a&code=1&sig=***&auth=no");
    assert_eq!(redactor.text("name: x, name: DB_PASSWORD, value: hunter2"), "name: x, name: DB_PASSWORD, value: ***");
}

#[test]
fn an_event_is_one_line() {
    assert_eq!(line("a\nb\u{1b}[31m\u{202e}"), "a\\nb\\u{1b}[31m\\u{202e}");
}
