use super::*;
use crate::manifest::{Manifest, ManifestError, Rules, RunnerSpec};
use std::path::Path;

fn parse(more: &str) -> Result<Manifest, ManifestError> {
    let text = format!("id: weather\ntype: http\nentry: https://api.example.com/v1/{{city}}/now\n{more}");
    read(&text)
}

fn read(text: &str) -> Result<Manifest, ManifestError> {
    let rules = Rules { allowed_root: Path::new("/"), toolset: None };
    Manifest::parse(Path::new("/skills/weather.yaml"), text, rules)
}

fn http(manifest: Manifest) -> Http {
    match manifest.how {
        RunnerSpec::Http(http) => *http,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_full_manifest_is_read() {
    let manifest = parse(concat!(
        "env: [TOKEN]\n",
        "http:\n",
        "  method: GET\n",
        "  headers: {Authorization: 'Bearer ${TOKEN}', X-City: '{city}'}\n",
        "  query: {units: '{units}', n: 5}\n",
        "  response: {data: /current, error: /message}\n",
        "  stream: last\n",
        "  allow: ['127.0.0.1:9001', 10.1.0.0/16, internal.example.com]\n",
        "  redirects: 2\n",
    ))
    .unwrap();
    assert_eq!(manifest.runner, "http");
    let http = http(manifest);
    assert_eq!(http.method, Method::Get);
    assert_eq!(http.body, Body::None);
    assert_eq!(http.target.origin.as_str(), "https://api.example.com/");
    assert_eq!(http.target.path.len(), 3);
    assert_eq!(http.placed.iter().map(String::as_str).collect::<Vec<_>>(), ["city", "units"]);
    assert!(http.variables.contains("TOKEN"));
    assert_eq!((http.redirects, http.stream), (2, Stream::Last));
}

#[test]
fn by_default_it_posts_json() {
    let http = http(parse("").unwrap());
    assert_eq!((http.method, http.body, http.redirects), (Method::Post, Body::Json, 5));
    assert_eq!(http.allow, Allowed::default());
}

#[test]
fn a_body_template_keeps_the_types_of_arguments() {
    let http = http(parse("http: {body: {q: '{city}', text: 'in {city}', n: 5, tags: [a, '{tag}']}}\n").unwrap());
    let Body::Template(Node::Object(fields)) = &http.body else { panic!("{:?}", http.body) };
    assert!(matches!(&fields[0].1, Node::Argument(name, _) if name == "city"));
    assert!(matches!(&fields[1].1, Node::Text(_)));
    assert!(matches!(&fields[2].1, Node::Literal(text) if text == "5"));
    assert!(http.placed.contains("tag"));
}

#[test]
fn each_mistake_is_reported_with_a_reason() {
    for (more, word) in [
        ("http: {colour: red}\n", "colour"),
        ("http: {method: FETCH}\n", "FETCH"),
        ("http: {method: GET, body: json}\n", "no body"),
        ("http: {body: xml}\n", "xml"),
        ("http: {body: 5}\n", "body"),
        ("http: {headers: {Host: x}}\n", "itself"),
        ("http: {headers: {Content-Length: 5}}\n", "itself"),
        ("http: {headers: {X-Openskill-Principal: ada}}\n", "itself"),
        ("http: {headers: {'A b': x}}\n", "not a valid header name"),
        ("http: {headers: {A: \"x\\ny\"}}\n", "line break"),
        ("http: {headers: {A: x, a: y}}\n", "twice"),
        ("http: {headers: {A: [x]}}\n", "must be a string"),
        ("http: {headers: {A: '${TOKEN}'}}\n", "env list"),
        ("http: {query: {a: '{'}}\n", "never closed"),
        ("http: {response: {data: current}}\n", "JSON pointer"),
        ("http: {response: {data: /a~2}}\n", "JSON pointer"),
        ("http: {response: {where: /a}}\n", "where"),
        ("http: {stream: maybe}\n", "maybe"),
        ("http: {allow: ['*.example.com']}\n", "10.1.0.0/16"),
        ("http: {redirects: 6}\n", "at most 5"),
        ("exec: {}\n", "cli:exec"),
    ] {
        let error = parse(more).unwrap_err();
        assert!(error.reason.contains(word), "{more}\n{error}");
    }
}

#[test]
fn the_origin_is_fixed_and_the_path_is_plain() {
    for (entry, word) in [
        ("ftp://example.com/", "https://"),
        ("//example.com/", "https://"),
        ("file:///etc/passwd", "https://"),
        ("'{scheme}://example.com/'", "https://"),
        ("'https://{host}/'", "fixed"),
        ("'https://a.example:{port}/'", "fixed"),
        ("'https://${HOST}/'", "fixed"),
        ("https://user:pw@example.com/", "password"),
        ("https://example.com/a/../b", "'..'"),
        ("https://example.com/a/%2e%2E/b", "'..'"),
        ("https://example.com/./b", "'..'"),
        ("https://example.com/a%zz", "percent-encode"),
        ("'https://example.com/a b'", "space"),
        ("'https://example.com/a#b'", "'#'"),
        ("'https://example.com\\a'", "'\\'"),
        ("'https://example.com/?{a}=b'", "fixed"),
        ("'https:///path'", "URL"),
    ] {
        let error = read(&format!("id: weather\ntype: http\nentry: {entry}\n")).unwrap_err();
        assert!(error.reason.contains(word), "{entry}\n{error}");
    }
}

#[test]
fn the_query_of_the_entry_is_read_as_pairs() {
    let http = http(read("id: a\ntype: http\nentry: 'https://example.com/?q=a%26b+c&units={u}&flag'\n").unwrap());
    let literal = |text: &str| Text(vec![TextPart::Literal(text.to_owned())]);
    assert_eq!(http.query[0], ("q".to_owned(), literal("a&b c")));
    assert_eq!(http.query[1], ("units".to_owned(), Text(vec![TextPart::Argument("u".to_owned())])));
    assert_eq!(http.query[2].0, "flag");
    assert_eq!(http.target.path, [Text::default()]);
}
