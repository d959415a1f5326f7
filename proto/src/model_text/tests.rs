//! Tests of the tokenizer.

use super::*;

/// Tokenizes a text. Returns the kind and the text of each token.
fn read(text: &str) -> Vec<(Kind<'_>, &str)> {
    tokens(text).iter().map(|it| (it.kind, &text[it.begin..it.end])).collect()
}

#[test]
fn marks_within_another_token_are_part_of_it() {
    use Kind::*;
    for (text, expected) in [
        (r#"Sure: {"a": "</think><rm>{}</rm>"} ok"#, vec![(Value, r#"{"a": "</think><rm>{}</rm>"}"#)]),
        ("{'a': 'it\\'s }', /* } */ \"b\": 1 // }\n}", vec![(Value, "{'a': 'it\\'s }', /* } */ \"b\": 1 // }\n}")]),
        (r#"it's "<a>" or '<b>' and “<c>”"#, vec![(Quoted, "\"<a>\""), (Quoted, "'<b>'"), (Quoted, "“<c>”")]),
        ("f(x='it's <a>')", vec![(Quoted, "'it's <a>'")]),
        (r#"<a>{"x": "</a>"}</a>"#, vec![(Open("a"), "<a>"), (Value, r#"{"x": "</a>"}"#), (Close("a"), "</a>")]),
        (
            "```json\n[{\"a\": \"```\"}]\n```.",
            vec![(FenceOpen, "```json"), (Value, "[{\"a\": \"```\"}]"), (FenceClose, "```")],
        ),
        ("````py\n```\n<a>\n```\n````", vec![(Code, "````py\n```\n<a>\n```\n````")]),
        ("```\nit's\n``` <a>", vec![(Code, "```\nit's\n```"), (Open("a"), "<a>")]),
        (
            r#"<think>{"a": "</think>"} <b> "</think>"</think>x"#,
            vec![(Reasoning, r#"<think>{"a": "</think>"} <b> "</think>"</think>"#)],
        ),
        ("Hm.</thinking><a>", vec![(ReasoningEnd, "</thinking>"), (Open("a"), "<a>")]),
        ("a < b, 1<2 [x] [{\"a\": 1}]", vec![(Value, "[{\"a\": 1}]")]),
        ("<a b=1><!-- </ x>", vec![(Markup, "<"), (Markup, "<"), (Markup, "<")]),
    ] {
        assert_eq!(read(text), expected, "{text}");
    }
}

#[test]
fn what_does_not_end_takes_the_rest_of_the_text() {
    for rest in [
        r#"{"a": "<rm>{}</rm>"#,
        r#"{"a": [1, 2] <rm>{}</rm>"#,
        r#"{\"a\": 1} <rm>{}</rm>"#,
        "{ /* } <rm>{}</rm>",
        "\"<rm>{}</rm>",
        "“<rm>{}</rm>\"",
        "```py\nx = 1 <rm>{}</rm>",
        "<think><rm>{}</rm>",
        r#"<think>{"a": "</think><rm>{}</rm>"#,
    ] {
        let text = format!("é <a> {rest}");
        assert_eq!(read(&text), [(Kind::Open("a"), "<a>"), (Kind::Unclosed, rest)], "{text}");
    }
}
