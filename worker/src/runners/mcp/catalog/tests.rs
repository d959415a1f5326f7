use super::*;
use crate::manifest::Rules;
use rmcp::ServiceExt as _;
use serde_json::json;
use std::path::Path;
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};

fn server(more: &str) -> Manifest {
    let text = format!("id: files\ntype: mcp\nruntime: stdio\nentry: server\ntimeout_ms: 500\n{more}");
    Manifest::parse(Path::new("/skills/files.yaml"), &text, Rules { allowed_root: Path::new("/"), toolset: None })
        .unwrap()
}

fn catalog(tools: Value) -> Catalog {
    let tools = tools
        .as_array()
        .unwrap()
        .iter()
        .map(|it| (it["name"].as_str().unwrap().to_owned(), it.as_object().unwrap().clone()));
    Catalog { version: "1.2".to_owned(), tools: tools.collect(), offerings: McpOfferings::default() }
}

fn offers(manifest: &Manifest, catalog: &Catalog, pinned: &BTreeMap<String, Pin>) -> Vec<Offer> {
    let RunnerSpec::Mcp(mcp) = &manifest.how else { panic!("no server") };
    catalog.offers(manifest, mcp, pinned, true, None)
}

#[test]
fn a_tool_becomes_a_skill_with_its_servers_description() {
    let catalog =
        catalog(json!([{"name": "readFile", "description": "Reads\u{7} a file", "inputSchema": {"type": "object"},
        "outputSchema": {"type": "object"}, "annotations": {"readOnlyHint": true}}]));
    let offer = &offers(&server("mcp: {pin: strict}"), &catalog, &catalog.pins())[0];
    let it = &offer.manifest;
    assert_eq!(offer.runner, Ok(()));
    assert_eq!(
        (it.id.as_str(), it.version.as_str(), it.description.as_str()),
        ("files__readfile", "1.2", "Reads a file")
    );
    assert_eq!((it.toolset.as_str(), it.timeout_ms, it.runner.as_str()), ("files", Some(500), "mcp:stdio"));
    assert!(it.idempotent && !it.destructive && it.output_schema.is_some());
    assert!(matches!(&it.how, RunnerSpec::McpTool(tool) if tool.tool == "readFile" && tool.server == "files"));
}

#[test]
fn missing_hints_get_the_protocols_defaults_and_the_manifest_overrides() {
    let tool = |annotations: Value| {
        catalog(json!([{"name": "t", "inputSchema": {"type": "object"}, "annotations": annotations}]))
    };
    for (annotations, more, idempotent, destructive) in [
        (json!(null), "mcp: {pin: strict}", false, true),
        (json!({"destructiveHint": false}), "mcp: {pin: strict}", false, false),
        (json!({"idempotentHint": true}), "mcp: {pin: strict}", true, true),
        (json!({"readOnlyHint": true, "destructiveHint": true}), "mcp: {pin: strict}", true, false),
        (
            json!({"readOnlyHint": true}),
            "mcp: {pin: strict, overrides: {t: {idempotent: false, destructive: true}}}",
            false,
            true,
        ),
        (json!({"readOnlyHint": true, "idempotentHint": true, "destructiveHint": false}), "", false, true),
        (json!(null), "mcp: {overrides: {t: {idempotent: true, destructive: false}}}", true, false),
    ] {
        let catalog = tool(annotations);
        let it = &offers(&server(more), &catalog, &catalog.pins())[0].manifest;
        assert_eq!((it.idempotent, it.destructive), (idempotent, destructive), "{more}");
        assert_eq!(it.argument_rules.drop_unknown, !destructive);
    }
}

#[test]
fn unpinned_hints_do_not_allow_retries() {
    let catalog =
        catalog(json!([{"name": "t", "inputSchema": {"type": "object"}, "annotations": {"readOnlyHint": true}}]));
    let manifest = server("mcp: {pin: strict}");
    let RunnerSpec::Mcp(mcp) = &manifest.how else { panic!("no server") };
    let it = &catalog.offers(&manifest, mcp, &catalog.pins(), false, None)[0].manifest;
    assert!(!it.idempotent && it.destructive);
}

/// Returns whether the only tool requires approval, is untrusted, and is read-only.
fn conduct_of(annotations: Value, more: &str) -> (bool, bool, bool) {
    let catalog = catalog(json!([{"name": "t", "inputSchema": {"type": "object"}, "annotations": annotations}]));
    let it = &offers(&server(more), &catalog, &catalog.pins())[0].manifest;
    assert!(!(it.tool_hints.read_only && it.destructive), "{more}");
    (it.tool_hints.asks(it.destructive), it.tool_hints.untrusted, it.tool_hints.read_only)
}

#[test]
fn an_agent_asks_for_every_tool_that_is_not_known_to_only_read() {
    let (reads, writes) = (json!({"readOnlyHint": true}), json!({"destructiveHint": false}));
    for (annotations, more, expected) in [
        (json!(null), "", (true, true, false)),
        (reads.clone(), "", (true, true, false)),
        (reads.clone(), "mcp: {pin: strict}", (false, true, true)),
        (writes.clone(), "mcp: {pin: strict}", (true, true, false)),
        (reads.clone(), "mcp: {pin: strict, overrides: {t: {read_only: false}}}", (true, true, false)),
        (reads.clone(), "mcp: {pin: strict, overrides: {t: {destructive: true}}}", (true, true, false)),
        (json!(null), "mcp: {overrides: {t: {read_only: true}}}", (false, true, true)),
        (json!(null), "mcp: {overrides: {t: {approval: never, untrusted: false}}}", (false, false, false)),
        (json!(null), "approval: never\nuntrusted: false", (false, false, false)),
        (json!(null), "approval: never\nmcp: {overrides: {t: {approval: ask}}}", (true, true, false)),
    ] {
        assert_eq!(conduct_of(annotations.clone(), more), expected, "{annotations} {more}");
    }
}

#[test]
fn a_tool_that_the_manifest_says_only_reads_may_be_retried() {
    let catalog = catalog(json!([{"name": "t", "inputSchema": {"type": "object"}}]));
    let it = &offers(&server("mcp: {overrides: {t: {read_only: true}}}"), &catalog, &catalog.pins())[0].manifest;
    assert!(it.idempotent && !it.destructive && it.tool_hints.read_only);
}

#[test]
fn a_tool_with_an_unusable_schema_is_unavailable_with_the_reason() {
    let catalog = catalog(json!([
        {"name": "bad", "inputSchema": {"type": "string"}},
        {"name": "odd", "inputSchema": {"type": "object"}, "outputSchema": {"$ref": "https://example.com/x"}},
    ]));
    let offers = offers(&server(""), &catalog, &catalog.pins());
    assert!(offers[0].runner.as_ref().unwrap_err().contains("input schema"), "{:?}", offers[0].runner);
    assert_eq!((&offers[1].runner, &offers[1].manifest.output_schema), (&Ok(()), &None));
}

#[test]
fn a_tool_keeps_all_of_its_schema_but_patterns_that_can_not_be_matched() {
    let email = r"^(?!\.)(?!.*\.\.)([A-Za-z0-9_'+\-\.]*)[A-Za-z0-9_+-]@([A-Za-z0-9][A-Za-z0-9\-]*\.)+[A-Za-z]{2,}$";
    let pair = json!({"type": "array", "items": [{"type": "string", "pattern": email}], "additionalItems": false});
    let catalog = catalog(json!([
        {"name": "mail", "inputSchema": {"$schema": "http://json-schema.org/draft-07/schema#", "type": "object",
            "properties": {"to": {"type": "string", "format": "email", "pattern": email}, "pair": pair}}},
        {"name": "not", "inputSchema": {"type": "object", "properties": {"to": {"not": {"pattern": "(?=a)"}}}}},
    ]));
    let offers = offers(&server(""), &catalog, &catalog.pins());
    assert_eq!(offers[0].runner, Ok(()));
    let of_string =
        json!({"type": "string", "description": format!("The server checks the regular expression {email}")});
    let mut to = of_string.clone();
    to["format"] = json!("email");
    let schema = offers[0].manifest.input_schema.as_ref().unwrap();
    assert_eq!(schema["properties"]["to"], to);
    assert_eq!(schema["properties"]["pair"], json!({"type": "array", "prefixItems": [of_string], "items": false}));
    assert!(offers[1].runner.as_ref().unwrap_err().contains("look-around"), "{:?}", offers[1].runner);
}

#[test]
fn only_tools_that_the_manifest_includes_become_skills() {
    let tool = |name: &str| json!({"name": name, "inputSchema": {"type": "object"}});
    let catalog = catalog(json!([tool("git_log"), tool("git_push"), tool("rm")]));
    let offers = offers(&server("mcp: {tools: {include: ['git_*'], exclude: [git_push]}}"), &catalog, &catalog.pins());
    assert_eq!(offers.len(), 1);
    assert_eq!(offers[0].manifest.id, "files__git_log");
}

#[test]
fn a_changed_or_new_tool_is_unavailable_under_strict_pins() {
    let before = catalog(json!([{"name": "a", "description": "1", "inputSchema": {"type": "object"}}]));
    let after = catalog(json!([{"name": "a", "description": "2", "inputSchema": {"type": "object"}},
        {"name": "b", "inputSchema": {"type": "object"}}]));
    let strict = offers(&server("mcp: {pin: strict}"), &after, &before.pins());
    assert!(strict[0].runner.as_ref().unwrap_err().contains("changed: description"));
    assert!(strict[1].runner.as_ref().unwrap_err().contains("it is new"));
    assert!(offers(&server(""), &after, &before.pins()).iter().all(|offer| offer.runner.is_ok()));
}

#[test]
fn nothing_of_a_changed_definition_is_shown_under_strict_pins() {
    let before = catalog(json!([{"name": "a", "description": "Adds.", "inputSchema": {"type": "object"}}]));
    let poison = json!({"type": "object", "properties": {"poison": {"description": "poison"}}});
    let changed = |name: &str| {
        json!({"name": name, "title": "poison", "description": "poison", "inputSchema": poison, "outputSchema": poison,
            "annotations": {"readOnlyHint": true}})
    };
    let mut broken = changed("broken");
    broken["inputSchema"] = json!({"type": "poison"});
    let mut after = catalog(json!([changed("a"), changed("b"), broken]));
    after.version = "poison".to_owned();
    let overrides = "mcp: {pin: strict, overrides: {a: {idempotent: true, destructive: false}}}";
    for offer in offers(&server(overrides), &after, &before.pins()) {
        let it = &offer.manifest;
        let reason = offer.runner.unwrap_err();
        assert!(reason.contains("differs from its pin") && reason.contains("openskill pin files"), "{reason}");
        assert_eq!((it.description.as_str(), it.toolset.as_str()), (WITHHELD, "files"));
        assert_eq!((&it.input_schema, &it.output_schema, it.idempotent), (&None, &None, false));
        assert!(it.tool_hints.asks(it.destructive) && it.tool_hints.untrusted && !it.tool_hints.read_only);
        assert!(!format!("{it:?}{reason}").contains("poison"), "{it:?}");
    }
}

/// Reads the catalog of a server that answers these methods and refuses all others.
async fn ask_catalog(capabilities: Value, answers: Value) -> Result<Catalog, ConnectError> {
    let (ours, theirs) = tokio::io::duplex(64 * 1024);
    tokio::spawn(async move {
        let (read, mut write) = tokio::io::split(theirs);
        let mut lines = BufReader::new(read).lines();
        while let Ok(Some(line)) = lines.next_line().await {
            let message: Value = serde_json::from_str(&line).unwrap();
            let method = message["method"].as_str().unwrap_or_default();
            let mut answer = json!({"jsonrpc": "2.0", "id": message["id"]});
            match (method, answers.get(method)) {
                ("initialize", _) => {
                    answer["result"] = json!({"protocolVersion": "2025-06-18", "capabilities": capabilities,
                        "serverInfo": {"name": "s", "version": "1"}});
                }
                (_, Some(result)) => answer["result"] = result.clone(),
                (_, None) => answer["error"] = json!({"code": -32601, "message": "Method not found"}),
            }
            if !message["id"].is_null() {
                write.write_all(format!("{answer}\n").as_bytes()).await.unwrap();
            }
        }
    });
    let service = ().serve(tokio::io::split(ours)).await.unwrap();
    Catalog::ask(service.peer()).await
}

#[tokio::test]
async fn a_server_without_tools_is_served_for_what_it_has() {
    let prompts = json!({"prompts/list": {"prompts": [{"name": "greet"}]}});
    let resources = json!({"resources/list": {"resources": [{"uri": "a:b", "name": "b"}]}});
    for (capabilities, answers) in [(json!({"prompts": {}}), prompts), (json!({"resources": {}}), resources)] {
        let catalog = ask_catalog(capabilities, answers).await.unwrap();
        assert!(catalog.tools.is_empty() && !catalog.offerings.is_empty(), "{catalog:?}");
    }
    let undeclared = json!({"tools/list": {"tools": [{"name": "t", "inputSchema": {"type": "object"}}]}});
    assert_eq!(ask_catalog(json!({"prompts": {}}), undeclared).await.unwrap().tools.len(), 1);
    for capabilities in [json!({}), json!({"tools": {}, "prompts": {}})] {
        assert_eq!(ask_catalog(capabilities, json!({})).await.unwrap_err().to_string(), "it has no tools");
    }
}

#[tokio::test]
async fn a_malformed_definition_does_not_affect_the_others() {
    let tools = |result: Value| ask_catalog(json!({"tools": {}}), json!({ "tools/list": result }));
    let page = json!({"tools": [7, {"name": "a", "inputSchema": {"type": "object"}}, {"name": "b"}, {"name": ""}]});
    assert_eq!(tools(page).await.unwrap().tools.keys().collect::<Vec<_>>(), ["a", "b"]);
    assert_eq!(tools(json!({})).await.unwrap_err().to_string(), "its answer to tools/list has no tools");
}

#[test]
fn an_id_has_only_letters_that_an_id_may_have() {
    let ids = skill_ids("files", &["readFile", "list.all/things", "git-log"]);
    assert_eq!(ids["readFile"], "files__readfile");
    assert_eq!(ids["list.all/things"], "files__list_all_things");
    assert_eq!(ids["git-log"], "files__git-log");
}

#[test]
fn clashes_are_numbered_in_the_same_order_however_they_are_listed() {
    let one = skill_ids("s", &["a.b", "A_b", "a_b"]);
    let other = skill_ids("s", &["a_b", "a.b", "A_b"]);
    assert_eq!(one, other);
    let mut all: Vec<_> = one.values().cloned().collect();
    all.sort();
    assert_eq!(all, ["s__a_b", "s__a_b_2", "s__a_b_3"]);
}

#[test]
fn long_names_are_cut_and_stay_apart() {
    let (one, other) = (format!("{}1", "x".repeat(100)), format!("{}2", "x".repeat(100)));
    let ids = skill_ids("server", &[&one, &other]);
    assert!(ids.values().all(|id| id.len() == MAX_SKILL_ID_BYTES));
    assert_ne!(ids[&one], ids[&other]);
    assert_eq!(ids, skill_ids("server", &[&other, &one]));
}

#[test]
fn the_longest_server_id_leaves_a_usable_id() {
    let server = "s".repeat(64);
    let ids = skill_ids(&server, &["a", "b"]);
    assert!(ids.values().all(|id| id.len() == MAX_SKILL_ID_BYTES));
    assert_ne!(ids["a"], ids["b"]);
}
