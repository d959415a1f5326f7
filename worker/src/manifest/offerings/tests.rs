use std::path::Path;

use serde_json::{Value, json};

use super::*;

fn read(prompts: Value, resources: Value) -> Result<McpOfferings, ManifestFault> {
    let (prompts, resources) = (serde_json::from_value(prompts).unwrap(), serde_json::from_value(resources).unwrap());
    resolve(prompts, resources, Path::new("/skills/a.yaml"))
}

#[test]
fn prompts_and_resources_are_listed_as_mcp_writes_them() {
    let prompt = json!({"name": "p", "description": "d", "arguments": [{"name": "x", "required": true}],
        "messages": [{"text": "{x}"}, {"role": "assistant", "image": "a/b.png"}, {"resource": "a:{x}", "file": "c.md"}]});
    let resources = json!([{"uri": "a://b/{id}", "text": "{id}"}, {"uri": "a://c", "name": "c", "file": "c.png"}]);
    let offerings = read(json!([prompt]), resources).unwrap();
    assert_eq!(
        offerings.prompts[0].definition(),
        json!({"name": "p", "description": "d", "arguments": [{"name": "x", "required": true}]})
    );
    let types: Vec<_> = offerings.prompts[0].messages.iter().map(|it| it.media_type.as_str()).collect();
    assert_eq!(types, ["", "image/png", "text/markdown"]);
    assert_eq!(offerings.resources[0].definition()["uriTemplate"], "a://b/{id}");
    assert_eq!(
        offerings.resources[1].definition(),
        json!({"uri": "a://c", "name": "c", "description": "", "mimeType": "image/png"})
    );
    let files = ["/skills/a/b.png", "/skills/c.md", "/skills/c.png"];
    assert_eq!(offerings.files(), files.map(PathBuf::from));
}

#[test]
fn what_can_not_be_served_is_refused() {
    let prompt = |messages: Value| json!([{"name": "p", "messages": messages}]);
    for messages in [
        json!([]),
        json!([{}]),
        json!([{"text": "a", "image": "b.png"}]),
        json!([{"resource": "a:b"}]),
        json!([{"image": "../b.png"}]),
        json!([{"image": "/b.png"}]),
        json!([{"image": "b.txt"}]),
    ] {
        assert!(read(prompt(messages.clone()), json!([])).is_err(), "{messages}");
    }
    for resource in [
        json!({"uri": "no uri", "text": ""}),
        json!({"uri": "openskill://artifacts/x", "text": ""}),
        json!({"uri": "a:{x", "text": ""}),
        json!({"uri": "a:{?x}", "text": ""}),
        json!({"uri": "a:b"}),
        json!({"uri": "a:b", "text": "", "file": "c"}),
        json!({"uri": "a:b", "text": "", "variables": [{"name": "x"}]}),
    ] {
        assert!(read(json!([]), json!([resource])).is_err(), "{resource}");
    }
    let twice = json!([{"uri": "a:b", "text": ""}, {"uri": "a:b", "text": "c"}]);
    assert!(read(json!([]), twice).is_err());
}

#[test]
fn only_places_with_values_are_filled() {
    let values = Values::from([("id".to_owned(), "a\"b".to_owned()), ("x".to_owned(), "{id}".to_owned())]);
    let filled = r#"{"id":"a"b", {y}, {id}, {"#;
    let fill_within = |most| fill(r#"{"id":"{id}", {y}, {x}, {"#, &values, false, most);
    assert_eq!(fill_within(filled.len()).as_deref(), Some(filled));
    assert_eq!(fill_within(filled.len() - 1), None);
    assert_eq!(fill(r#"{"id":"{id}"}"#, &values, true, 100).as_deref(), Some(r#"{"id":"a\"b"}"#));
}
