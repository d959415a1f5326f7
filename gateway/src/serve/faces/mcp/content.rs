//! Renders the result of a call as MCP content blocks.
//!
//! - Content of a server behind `mcp:*` is passed through unchanged.
//! - Data becomes text. If the tool declares an output schema, the data is also structured content and matches the
//!   schema.
//! - Images and audio become separate blocks. Other files become embedded resources, or links if they are large.
//! - Text beyond a budget is truncated, with a link to the full text ([`long`]).
//! - An error that a model can act on becomes a result with `isError`.

use std::borrow::Cow;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use openskill_proto::render::call_meta;
use openskill_proto::uri_template::percent_encode;
use openskill_proto::v1::artifact::Content;
use openskill_proto::v1::skill_result::Output;
use openskill_proto::v1::{Artifact, SkillResult};
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

use super::client::server_info;
use super::jsonrpc::string;
use super::long;
use crate::call::blocking_pool::HEAVY_BYTES;
use crate::catalog::entry::Entry;
use crate::gateway::Gateway;
use crate::mcp::owner::Owner;
use crate::mcp::revision::Revision;

/// The URI prefix of artifacts as resources.
pub(super) const ARTIFACTS: &str = "openskill://artifacts/";

/// The result of an MCP server behind `mcp:*`.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ServerResult<'a> {
    #[serde(borrow)]
    content: &'a RawValue,
    #[serde(borrow)]
    structured_content: Option<&'a RawValue>,
    #[serde(default)]
    is_error: bool,
    #[serde(rename = "_meta")]
    meta: Option<Map<String, Value>>,
}

/// The rendered parts of a result.
struct Parts {
    /// Content blocks, as a JSON list.
    content: String,
    /// Structured content, as JSON. Empty if the result has none.
    structured: String,
    is_error: bool,
    /// The server's `_meta`.
    meta: Map<String, Value>,
}

/// Renders the result of `tools/call` as a JSON object. `entry` is the skill. `owner` may read a truncated result
/// later.
pub(super) async fn render_result(
    result: SkillResult,
    entry: Option<Arc<Entry>>,
    gateway: &Arc<Gateway>,
    owner: &Owner,
    revision: Revision,
) -> String {
    if data(&result).len().max(result.content_json.len()) > HEAVY_BYTES {
        let (shared, owner, skill) = (Arc::clone(gateway), owner.clone(), entry.clone());
        let cut = move |content: &str| long::cut(&shared, &owner, skill.as_deref(), content, revision);
        return Box::pin(gateway.blocking_pool.run(move || write(&result, entry.as_deref(), revision, cut))).await;
    }
    let entry = entry.as_deref();
    write(&result, entry, revision, |content| long::cut(gateway, owner, entry, content, revision))
}

/// Renders the result of a built-in tool. `structured` is JSON, or empty.
pub(super) fn builtin_result(text: &str, structured: &str, is_error: bool, revision: Revision) -> String {
    let mut blocks = Blocks::new();
    blocks.text(text);
    let mut written = open_result(&blocks.end(), structured, is_error, revision);
    if revision.is_stateless() {
        let about = json!({ "io.modelcontextprotocol/serverInfo": server_info() });
        written.push_str(&format!(",\"_meta\":{about}"));
    }
    written.push('}');
    written
}

/// Writes a result. `cut` is the truncated content, if it exceeds the text budget.
fn write(
    result: &SkillResult,
    entry: Option<&Entry>,
    revision: Revision,
    cut: impl Fn(&str) -> Option<String>,
) -> String {
    let Parts { content, structured, is_error, meta } =
        server_parts(result).unwrap_or_else(|| skill_parts(result, entry, revision));
    let content = cut(&content).unwrap_or(content);
    let mut text = open_result(&content, &structured, is_error, revision);
    text.push_str(",\"_meta\":");
    write_meta(&mut text, result, meta, revision);
    text.push('}');
    text
}

/// Writes a result up to its `_meta`.
fn open_result(content: &str, structured: &str, is_error: bool, revision: Revision) -> String {
    let mut text = String::with_capacity(content.len() + structured.len() + 512);
    text.push_str("{\"content\":");
    text.push_str(content);
    if !structured.is_empty() {
        text.push_str(",\"structuredContent\":");
        text.push_str(structured);
    }
    if is_error {
        text.push_str(",\"isError\":true");
    }
    if revision.is_stateless() {
        text.push_str(",\"resultType\":\"complete\"");
    }
    text
}

/// Appends `_meta`: the server's keys, and the call's.
fn write_meta(text: &mut String, result: &SkillResult, mut meta: Map<String, Value>, revision: Revision) {
    // A server must not set the gateway's keys.
    meta.retain(|key, _| !key.starts_with("openskill.dev/") && !key.starts_with("io.modelcontextprotocol/"));
    if revision.is_stateless() {
        meta.insert("io.modelcontextprotocol/serverInfo".to_owned(), server_info());
    }
    let about = call_meta(result);
    if meta.is_empty() {
        text.push_str(&about);
        return;
    }
    let said = Value::Object(meta).to_string();
    text.push_str(said.strip_suffix('}').unwrap_or_default());
    text.push(',');
    text.push_str(about.strip_prefix('{').unwrap_or_default());
}

fn server_parts(result: &SkillResult) -> Option<Parts> {
    if result.content_json.is_empty() {
        return None;
    }
    let sent: ServerResult<'_> = serde_json::from_str(&result.content_json).ok()?;
    let structured = sent.structured_content.map(|it| it.get().to_owned()).unwrap_or_default();
    let (content, meta) = (sent.content.get().to_owned(), sent.meta.unwrap_or_default());
    Some(Parts { content, structured, is_error: sent.is_error || result.error.is_some(), meta })
}

/// Returns the data of a success, as JSON.
fn data(result: &SkillResult) -> &str {
    match &result.output {
        Some(Output::DataJson(data)) => data,
        _ => "",
    }
}

fn skill_parts(result: &SkillResult, entry: Option<&Entry>, revision: Revision) -> Parts {
    let (mut structured, mut is_error) = (String::new(), result.error.is_some());
    let data = data(result);
    let mut blocks = Blocks::new();
    if is_error {
        blocks.text(&result.text);
    } else {
        let misfit = entry.filter(|it| has_output(it)).map(|entry| entry.misfit(data));
        match misfit {
            Some(None) => data.clone_into(&mut structured),
            Some(Some(reason)) => {
                is_error = true;
                blocks.text(&format!("the skill ran, but its data does not fit its output schema: {reason}"));
            }
            None => {}
        }
        // An image needs no text `null` next to it.
        let has_data = data != "null" || !structured.is_empty();
        let shown = (has_data || result.artifacts.is_empty() && result.text.is_empty()).then(|| plain(data));
        shown.iter().for_each(|it| blocks.text(it));
        if !result.text.is_empty() && shown.as_deref() != Some(&*result.text) {
            blocks.text(&result.text);
        }
    }
    result.artifacts.iter().for_each(|it| blocks.block(&block(it, revision)));
    Parts { content: blocks.end(), structured, is_error, meta: Map::new() }
}

/// A JSON list of content blocks under construction.
struct Blocks(String);

impl Blocks {
    fn new() -> Self {
        Self("[".to_owned())
    }

    fn text(&mut self, text: &str) {
        self.separate();
        for part in ["{\"type\":\"text\",\"text\":", &string(text), "}"] {
            self.0.push_str(part);
        }
    }

    /// Appends a block that is already JSON.
    fn block(&mut self, json: &str) {
        self.separate();
        self.0.push_str(json);
    }

    fn separate(&mut self) {
        if self.0.len() > 1 {
            self.0.push(',');
        }
    }

    fn end(mut self) -> String {
        self.0.push(']');
        self.0
    }
}

/// Whether the tool is listed with an output schema.
fn has_output(entry: &Entry) -> bool {
    crate::export::has_output(&entry.skill.output_schema_json)
}

/// Renders a JSON string as its plain text, and other data as JSON.
fn plain(data: &str) -> Cow<'_, str> {
    let text = data.trim_start().starts_with('"').then(|| serde_json::from_str(data).ok()).flatten();
    text.map_or(Cow::Borrowed(data), Cow::Owned)
}

/// Renders an artifact as a content block.
fn block(artifact: &Artifact, revision: Revision) -> String {
    let Artifact { id, name, media_type, size_bytes, content, .. } = artifact;
    let block = match content {
        Some(Content::Handle(handle)) if revision >= Revision::V2025_06_18 => json!({
            "type": "resource_link",
            "uri": format!("{ARTIFACTS}{handle}"),
            "name": name,
            "mimeType": media_type,
            "size": size_bytes,
        }),
        Some(Content::Handle(handle)) => {
            json!({ "type": "text", "text": format!("{name} ({media_type}, {size_bytes} bytes): {ARTIFACTS}{handle}") })
        }
        Some(Content::Data(data)) => {
            let has_audio = revision >= Revision::V2025_03_26;
            match media_type.split('/').next() {
                Some(kind @ ("image" | "audio")) if kind == "image" || has_audio => {
                    json!({ "type": kind, "data": STANDARD.encode(data), "mimeType": media_type })
                }
                kind => {
                    let uri = format!("openskill://calls/{id}/{}", percent_encode(name));
                    let (field, content) = match std::str::from_utf8(data).ok().filter(|_| kind == Some("text")) {
                        Some(text) => ("text", text.to_owned()),
                        None => ("blob", STANDARD.encode(data)),
                    };
                    let resource = json!({ "uri": uri, "mimeType": media_type, field: content });
                    json!({ "type": "resource", "resource": resource })
                }
            }
        }
        None => json!({ "type": "text", "text": format!("{name} ({media_type}) was not kept") }),
    };
    block.to_string()
}

#[cfg(test)]
mod tests {
    use openskill_proto::v1::{ErrorCode, Skill, SkillError};

    use super::*;
    use crate::arguments::{Definition, Rules};

    fn entry(output_schema: &Value) -> Entry {
        let skill = Skill { output_schema_json: output_schema.to_string(), ..Skill::default() };
        let series = openskill_telemetry::metrics::SkillMetrics::new(1).get("a", "http");
        Entry::new(skill, Arc::new(Definition::without_schema(Rules::default())), Vec::new(), series)
    }

    fn success(data: &Value) -> SkillResult {
        SkillResult { success: true, output: Some(Output::DataJson(data.to_string())), ..SkillResult::default() }
    }

    fn read(result: &SkillResult, entry: Option<&Entry>) -> Value {
        serde_json::from_str(&write(result, entry, Revision::V2025_11_25, |_| None)).unwrap()
    }

    #[test]
    fn data_is_text_and_structured_if_a_schema_says_so() {
        let schema = json!({"type": "object", "properties": {"n": {"type": "integer"}}});
        let data = json!({"n": 5});
        let plain = read(&success(&data), None);
        assert_eq!(plain["content"], json!([{"type": "text", "text": "{\"n\":5}"}]));
        assert!(plain.get("structuredContent").is_none());
        let structured = read(&success(&data), Some(&entry(&schema)));
        assert_eq!((&structured["structuredContent"], &structured["content"]), (&data, &plain["content"]));
        assert_eq!(read(&success(&json!("as it is")), None)["content"][0]["text"], "as it is");
    }

    #[test]
    fn data_that_does_not_fit_is_an_error_and_not_structured() {
        let schema = json!({"type": "object", "properties": {"n": {"type": "integer"}}});
        let result = read(&success(&json!({"n": "five"})), Some(&entry(&schema)));
        assert_eq!(result["isError"], true);
        assert!(result.get("structuredContent").is_none());
        assert!(result["content"][0]["text"].as_str().unwrap().contains("at /n"), "{result}");
    }

    #[test]
    fn what_a_model_can_act_on_is_a_result() {
        let error = SkillError::new(ErrorCode::InvalidArgument, "n is missing");
        let failed = SkillResult { text: error.message.clone(), error: Some(error), ..SkillResult::default() };
        let result = read(&failed, None);
        assert_eq!((&result["isError"], &result["content"][0]["text"]), (&json!(true), &json!("n is missing")));
        assert_eq!(result["_meta"]["openskill.dev/error"]["code"], "INVALID_ARGUMENT");
    }

    #[test]
    fn what_a_server_sent_arrives_as_it_was_sent() {
        let sent = json!({
            "content": [{"type": "image", "data": "AA==", "mimeType": "image/png", "annotations": {"priority": 1.0}}],
            "structuredContent": {"a": 1},
            "_meta": {"example.com/cost": 3, "openskill.dev/trace_id": "forged"},
        });
        let result =
            SkillResult { content_json: sent.to_string(), trace_id: "t".to_owned(), ..success(&json!({"a": 1})) };
        let result = read(&result, None);
        assert_eq!((&result["content"], &result["structuredContent"]), (&sent["content"], &sent["structuredContent"]));
        assert_eq!(
            (&result["_meta"]["example.com/cost"], &result["_meta"]["openskill.dev/trace_id"]),
            (&json!(3), &json!("t"))
        );
    }

    #[test]
    fn artifacts_are_blocks_of_their_kind() {
        let artifact = |media_type: &str, content| Artifact {
            name: "a b.x".to_owned(),
            media_type: media_type.to_owned(),
            content: Some(content),
            ..Artifact::default()
        };
        let data = || Content::Data(b"hi".to_vec().into());
        let artifacts = vec![
            artifact("image/png", data()),
            artifact("audio/wav", data()),
            artifact("text/plain", data()),
            artifact("application/pdf", data()),
            artifact("application/pdf", Content::Handle("h/1".to_owned())),
        ];
        let result = read(&SkillResult { artifacts, ..success(&Value::Null) }, None);
        let blocks = result["content"].as_array().unwrap();
        let kinds: Vec<_> = blocks.iter().map(|it| it["type"].as_str().unwrap()).collect();
        assert_eq!(kinds, ["image", "audio", "resource", "resource", "resource_link"]);
        assert_eq!((&blocks[2]["resource"]["text"], &blocks[3]["resource"]["blob"]), (&json!("hi"), &json!("aGk=")));
        assert_eq!(blocks[4]["uri"], "openskill://artifacts/h/1");
    }
}
