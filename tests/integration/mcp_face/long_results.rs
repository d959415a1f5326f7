//! Results that are too long for a client to get at once.

use openskill_tests::folder::Folder;
use openskill_tests::system::{Setup, System};
use serde_json::{Value, json};

use super::{ask, ask_older, begin};

/// A skill that returns so many numbered lines.
fn skill(folder: &Folder) {
    folder.write("lines.py", "import json, sys\nn = json.load(sys.stdin)['input']['n']\nprint(json.dumps({'lines': [f'line {it} é' for it in range(n)]}, ensure_ascii=False))\n");
    let parameters = "parameters:\n  n: {type: integer, required: true}\n";
    let plain = "type: cli\nruntime: python\nentry: lines.py\n";
    folder.write("lines.yaml", format!("id: lines\n{plain}{parameters}"));
    let output = "output_schema: {type: object, properties: {lines: {type: array}}, required: [lines]}\n";
    folder.write("structured.yaml", format!("id: structured\n{plain}{parameters}{output}"));
}

async fn call(system: &System, name: &str, n: usize) -> Value {
    ask(system, "tools/call", json!({"name": name, "arguments": {"n": n}})).await.json()["result"].clone()
}

#[tokio::test]
async fn a_long_result_is_its_beginning_and_a_link_to_all_of_it() {
    let folder = Folder::new();
    skill(&folder);
    let system = Setup::with_skills(&[folder.path()]).with("OPENSKILL_MCP_RESULT_BYTES", 2000).start().await;
    assert_eq!(call(&system, "lines", 3).await["content"].as_array().unwrap().len(), 1, "a short one is as it is");
    let long = call(&system, "lines", 5000).await;
    let [head, note, link] = &long["content"].as_array().unwrap()[..] else { panic!("{long}") };
    let head = head["text"].as_str().unwrap();
    assert!((1990..=2000).contains(&head.len()) && head.starts_with("{\"lines\": [\"line 0 é\""), "{}", head.len());
    let (uri, size) = (link["uri"].as_str().unwrap(), link["size"].as_u64().unwrap() as usize);
    assert_eq!((&link["type"], &link["mimeType"]), (&json!("resource_link"), &json!("application/json")));
    assert!(note["text"].as_str().unwrap().contains(&format!("{uri}?offset={}", head.len())), "{note}");
    let mut whole = String::new();
    while whole.len() < size {
        let uri = format!("{uri}?offset={}&length=30001", whole.len());
        let read = ask(&system, "resources/read", json!({"uri": uri})).await.json();
        let contents = &read["result"]["contents"][0];
        assert_eq!(contents["_meta"]["openskill.dev/range"]["total"], size);
        whole.push_str(contents["text"].as_str().unwrap_or_else(|| panic!("{read}")));
    }
    assert!(whole.starts_with(head));
    let whole: Value = serde_json::from_str(&whole).unwrap();
    assert_eq!((whole["lines"].as_array().unwrap().len(), &whole["lines"][4999]), (5000, &json!("line 4999 é")));
    for uri in ["openskill://results/made-up", &format!("{uri}?end=5")] {
        let refused = ask(&system, "resources/read", json!({"uri": uri})).await;
        assert_eq!(refused.json()["error"]["code"], -32602, "{uri}");
    }
}

#[tokio::test]
async fn structured_content_stays_whole_because_it_has_to_fit_its_schema() {
    let folder = Folder::new();
    skill(&folder);
    let system = Setup::with_skills(&[folder.path()]).with("OPENSKILL_MCP_RESULT_BYTES", 2000).start().await;
    let long = call(&system, "structured", 5000).await;
    assert_eq!(long["structuredContent"]["lines"].as_array().unwrap().len(), 5000);
    assert!(long["content"][0]["text"].as_str().unwrap().len() <= 2000);
}

#[tokio::test]
async fn a_client_that_knows_no_links_reads_where_the_rest_is() {
    let folder = Folder::new();
    skill(&folder);
    let system = Setup::with_skills(&[folder.path()]).with("OPENSKILL_MCP_RESULT_BYTES", 2000).start().await;
    let session = begin(&system, "2024-11-05").await;
    let params = json!({"name": "lines", "arguments": {"n": 5000}});
    let long = ask_older(&system, &session, "tools/call", params).await.json()["result"].clone();
    let [_, note] = &long["content"].as_array().unwrap()[..] else { panic!("{long}") };
    let uri = note["text"].as_str().unwrap().split(": ").nth(1).unwrap().to_owned();
    let read = ask_older(&system, &session, "resources/read", json!({"uri": uri})).await.json();
    assert!(read["result"]["contents"][0]["text"].as_str().unwrap().contains("line 500"), "{read}");
}
