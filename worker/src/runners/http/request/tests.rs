use std::path::Path;

use super::*;
use crate::manifest::{Manifest, Rules, RunnerSpec};
use crate::runners::http::raw_json::CallArguments;

fn settings(manifest: &str) -> Http {
    let rules = Rules { allowed_root: Path::new("/"), toolset: None };
    let text = format!("id: x\ntype: http\n{manifest}");
    match Manifest::parse(Path::new("/skills/x.yaml"), &text, rules).unwrap().how {
        RunnerSpec::Http(http) => *http,
        other => panic!("{other:?}"),
    }
}

/// Fills a manifest's request with these arguments, without secrets.
fn filled(manifest: &str, input: &str) -> Result<Request, SkillError> {
    let bytes = Bytes::from(input.to_owned());
    fill(&settings(manifest), &bytes, &Secrets::default())
}

fn in_path(value: &str) -> Result<String, SkillError> {
    let manifest = "entry: https://a.example/v1/{x}/now\nhttp: {method: GET}\n";
    filled(manifest, &serde_json::json!({"x": value}).to_string()).map(|it| it.url.to_string())
}

fn body(request: Request) -> String {
    String::from_utf8(request.body.unwrap().to_vec()).unwrap()
}

#[test]
fn a_path_that_would_take_gigabytes_is_refused_at_its_first_place() {
    let manifest = format!("entry: https://a.example/{}\nhttp: {{method: GET}}\n", "{x}".repeat(2000));
    let input = serde_json::json!({"x": "x".repeat(4_000_000)}).to_string();
    assert_eq!(filled(&manifest, &input).unwrap_err().code(), ErrorCode::InvalidArgument);
}

#[test]
fn no_value_changes_the_structure_of_the_path() {
    for (value, segment) in [
        ("Berlin", "Berlin"),
        ("New York", "New%20York"),
        ("a/b", "a%2Fb"),
        ("a?b#c", "a%3Fb%23c"),
        ("a\\b", "a%5Cb"),
        ("%2e", "%252e"),
        ("ü", "%C3%BC"),
        ("...", "..."),
        ("@evil.example", "%40evil.example"),
        ("//evil.example", "%2F%2Fevil.example"),
        ("a;b=c&d", "a%3Bb%3Dc%26d"),
    ] {
        assert_eq!(in_path(value).unwrap(), format!("https://a.example/v1/{segment}/now"), "{value}");
    }
    for bad in [
        "",
        ".",
        "..",
        "../x",
        "a/../b",
        "..\\x",
        "%2e%2e",
        "%252e%252e",
        "%2E%2E%2Fx",
        "a\nb",
        "a\0b",
        "..%2f..",
        "%00",
    ] {
        let error = in_path(bad).unwrap_err();
        assert_eq!(error.code(), ErrorCode::InvalidArgument, "{bad}");
        assert!(error.message.starts_with("x: "), "{error:?}");
    }
}

#[test]
fn values_that_only_together_are_dots_are_refused() {
    let manifest = "entry: https://a.example/{x}{y}\nhttp: {method: GET}\n";
    assert!(filled(manifest, r#"{"x": ".", "y": "."}"#).is_err());
    assert!(filled("entry: https://a.example/%2e{x}\n", r#"{"x": "."}"#).is_err());
    assert!(filled("entry: https://a.example/.{x}\n", r#"{"x": "well-known"}"#).is_ok());
}

#[test]
fn a_part_of_the_path_must_be_given_and_be_one_value() {
    let manifest = "entry: https://a.example/{x}\nhttp: {method: DELETE}\n";
    for input in ["{}", r#"{"x": null}"#, r#"{"x": ["a"]}"#, r#"{"x": {}}"#] {
        assert_eq!(filled(manifest, input).unwrap_err().code(), ErrorCode::InvalidArgument, "{input}");
    }
    assert_eq!(filled(manifest, r#"{"x": 5}"#).unwrap().url.path(), "/5");
    assert_eq!(filled(manifest, r#"{"x": true}"#).unwrap().url.path(), "/true");
}

#[test]
fn a_query_leaves_out_what_is_absent_and_repeats_lists() {
    let manifest = "entry: 'https://a.example/?fixed=1'\nhttp: {method: GET, query: {units: '{u}', tag: 't-{tags}'}}\n";
    let url = |input| filled(manifest, input).unwrap().url.to_string();
    assert_eq!(url("{}"), "https://a.example/?fixed=1");
    assert_eq!(
        url(r#"{"u": "a&b=c", "tags": ["x", 2]}"#),
        "https://a.example/?fixed=1&units=a%26b%3Dc&tag=t-x&tag=t-2"
    );
    // Without a body, the other arguments are also in the query.
    assert_eq!(
        url(r#"{"o": {"a": 1}, "n": null, "l": [1, 2]}"#),
        "https://a.example/?fixed=1&o=%7B%22a%22%3A+1%7D&l=1&l=2"
    );
}

#[test]
fn the_default_body_is_what_was_given() {
    let input = r#"{"n": 1.00000000000000000001, "a": [null]}"#;
    let request = filled("entry: https://a.example/\n", input).unwrap();
    assert_eq!(
        (request.method.as_str(), request.headers[CONTENT_TYPE].to_str().unwrap()),
        ("POST", "application/json")
    );
    assert_eq!(body(request), input);
    let request = filled("entry: https://a.example/{id}\n", r#"{"id": 5, "n": 1.10, "a\"b": null}"#).unwrap();
    assert_eq!(body(request), r#"{"n":1.10,"a\"b":null}"#);
}

#[test]
fn a_form_is_encoded() {
    let request = filled("entry: https://a.example/\nhttp: {body: form}\n", r#"{"a": "x y&", "l": [1, 2], "n": null}"#);
    assert_eq!(body(request.unwrap()), "a=x+y%26&l=1&l=2");
}

#[test]
fn a_template_keeps_types_and_leaves_out_what_is_absent() {
    let manifest = concat!(
        "entry: https://a.example/\n",
        "http: {body: {q: '{q}', text: 'find {q}!', more: {x: '{x}', y: 'a{x}'}, list: ['{x}', '{q}', fixed], n: 5}}\n",
    );
    assert_eq!(
        body(filled(manifest, r#"{"q": "a\"b", "unused": 1}"#).unwrap()),
        r#"{"q":"a\"b","text":"find a\"b!","more":{},"list":["a\"b","fixed"],"n":5}"#
    );
    assert_eq!(
        body(filled(manifest, r#"{"q": 1.10, "x": {"a":[1]}}"#).unwrap()),
        concat!(
            r#"{"q":1.10,"text":"find 1.10!","more":{"x":{"a":[1]},"y":"a{\"a\":[1]}"},"#,
            r#""list":[{"a":[1]},1.10,"fixed"],"n":5}"#
        )
    );
}

#[test]
fn a_body_is_bounded_however_often_an_argument_stands_in_it() {
    let manifest = format!("entry: https://a.example/\nhttp: {{body: [{}]}}\n", "'{x}', ".repeat(1000));
    let error = filled(&manifest, &format!(r#"{{"x": "{}"}}"#, "y".repeat(100_000))).unwrap_err();
    assert_eq!(error.code(), ErrorCode::InvalidArgument);
}

#[test]
fn a_header_holds_one_line() {
    let manifest = "entry: https://a.example/\nhttp: {headers: {X-City: 'in {city}', X-Fixed: y}}\n";
    let header = |input: &str| filled(manifest, input).map(|it| it.headers.get("x-city").cloned());
    assert_eq!(header(r#"{"city": "Berlin"}"#).unwrap().unwrap(), "in Berlin");
    assert_eq!(header("{}").unwrap(), None);
    for bad in ["a\\r\\nX-Evil: 1", "a\\nb", "a\\u0000b", "a\\rb", "a\\u007fb"] {
        let error = header(&format!(r#"{{"city": "{bad}"}}"#)).unwrap_err();
        assert_eq!(error.code(), ErrorCode::InvalidArgument, "{bad}");
        assert!(error.message.starts_with("city: "), "{error:?}");
    }
    assert!(header(r#"{"city": ["a", "b"]}"#).is_err());
    assert!(header(&format!(r#"{{"city": "{}"}}"#, "x".repeat(9000))).is_err());
}

#[test]
fn a_url_is_bounded() {
    let long = "x".repeat(20_000);
    assert_eq!(in_path(&long).unwrap_err().code(), ErrorCode::InvalidArgument);
}

#[test]
fn arguments_are_read_in_order_and_the_last_of_a_name_counts() {
    let arguments = CallArguments::read(br#"{"a": 1, "\u0062": [2], "a": 3}"#).unwrap();
    assert_eq!(arguments.get("a").unwrap().get(), "3");
    assert_eq!(arguments.get("b").unwrap().get(), "[2]");
    assert!(CallArguments::read(b"[1]").is_err());
}

#[test]
fn a_list_multiplies_neither_a_header_nor_a_form_nor_a_query() {
    let refused = |manifest: &str, input: String| {
        let error = filled(manifest, &input).unwrap_err();
        assert_eq!(error.code(), ErrorCode::InvalidArgument);
        error.message
    };
    let header = "entry: https://a.example/\nhttp: {method: GET, headers: {X-Ids: 'ids {ids}'}}\n";
    assert_eq!(refused(header, r#"{"ids": [1]}"#.to_owned()), "ids: must not be a list: it is sent in a header");
    let long = format!(r#"{{"{}": [{}0]}}"#, "n".repeat(10_000), "0,".repeat(900_000));
    let form = "entry: https://a.example/\nhttp: {body: form}\n";
    assert_eq!(refused(form, long.clone()), "the arguments make a body of more than 8388608 bytes");
    let query = "entry: https://a.example/\nhttp: {method: GET}\n";
    assert_eq!(refused(query, long), "the arguments make a URL of more than 16384 bytes");
}
