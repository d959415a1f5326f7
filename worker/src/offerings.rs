//! Answers MCP clients' requests for the prompts and resources that manifests declare.
//!
//! Files are read on request, up to a limit, and only below the folder of their manifest.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use openskill_proto::uri_template::Template;
use openskill_proto::v1::{
    ConsultMethod, ConsultRequest, ErrorCode, Offering, OfferingKind, ResourceUpdate, SkillError,
};
use openskill_sandbox::plain_file::PlainFolder;
use openskill_sandbox::untrusted_json::parse;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::manifest::Manifest;
use crate::manifest::offerings::{Body, Kind, Message, Prompt, Resource, Role, Values, fill, is_json};

/// The maximum size of a file, in bytes.
const MAX_FILE_BYTES: u64 = 8 * 1024 * 1024;

/// The maximum total size of texts and files in an answer, in bytes.
const MAX_CONTENT_BYTES: usize = 8 * 1024 * 1024;

/// The maximum size of an answer, in bytes. JSON and base64 are longer than the content that they encode.
const MAX_ANSWER_BYTES: usize = 12 * 1024 * 1024;

/// The maximum number of values in a completion, as in the protocol.
const MAX_VALUES: usize = 100;

/// The parameters of requests that this module uses.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Params {
    name: String,
    uri: String,
    arguments: Values,
    #[serde(rename = "ref")]
    reference: Reference,
    argument: CompletionArgument,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Reference {
    name: String,
    uri: String,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct CompletionArgument {
    name: String,
    value: String,
}

/// Returns a manifest's prompts and resources.
pub(crate) fn list(manifest: &Manifest) -> Vec<Offering> {
    let offering = |kind: OfferingKind, key: &str, definition: &Value| Offering {
        kind: kind.into(),
        owner: manifest.id.clone(),
        toolset: manifest.toolset.clone(),
        key: key.to_owned(),
        definition_json: definition.to_string(),
        of_server: false,
    };
    let prompts =
        manifest.offerings.prompts.iter().map(|it| offering(OfferingKind::Prompt, &it.name, &it.definition()));
    let resources = manifest.offerings.resources.iter().map(|it| {
        let kind = if it.is_template() { OfferingKind::Template } else { OfferingKind::Resource };
        offering(kind, &it.uri, &it.definition())
    });
    prompts.chain(resources).collect()
}

/// Returns the state of each resource that is a file.
pub(crate) fn updates(manifest: &Manifest) -> Vec<ResourceUpdate> {
    let files = manifest.offerings.resources.iter().filter(|it| !it.is_template());
    let state = |it: &Resource| {
        let found = std::fs::metadata(manifest.offerings.folder.join(it.body.file()?)).ok();
        let changed = found.as_ref().and_then(|it| it.modified().ok()?.duration_since(std::time::UNIX_EPOCH).ok());
        let revision = format!("{}-{}", changed.unwrap_or_default().as_nanos(), found.map_or(0, |it| it.len()));
        Some(ResourceUpdate { owner: manifest.id.clone(), uri: it.uri.clone(), revision })
    };
    files.filter_map(state).collect()
}

/// Answers a request with a JSON object in MCP's format. Blocks on files.
///
/// # Errors
/// `NOT_FOUND`: the manifest declares no such item. `INVALID_ARGUMENT`: the parameters are invalid.
pub(crate) fn consult(manifest: &Manifest, request: &ConsultRequest) -> Result<String, SkillError> {
    let params: Params = parse(request.params_json.as_bytes()).map_err(|error| {
        SkillError::new(ErrorCode::InvalidArgument, format!("the parameters can't be read: {error}"))
    })?;
    let answer = match request.method() {
        ConsultMethod::Prompt => prompt(manifest, &params),
        ConsultMethod::Read => read(manifest, &params, &request.template),
        ConsultMethod::Complete => complete(manifest, &params),
        // The client gets change notifications without a subscription.
        ConsultMethod::Subscribe => resource(manifest, &params.uri).map(|_| "{}".to_owned()),
    };
    answer.and_then(|answer| if answer.len() > MAX_ANSWER_BYTES { Err(too_large()) } else { Ok(answer) })
}

/// The number of bytes that an answer may still grow by.
struct Room(usize);

impl Room {
    fn fill(&mut self, text: &str, values: &Values, is_json: bool) -> Result<String, SkillError> {
        let filled = fill(text, values, is_json, self.0).ok_or_else(too_large)?;
        self.0 -= filled.len();
        Ok(filled)
    }

    fn encode(&mut self, bytes: &[u8]) -> Result<String, SkillError> {
        self.0 = self.0.checked_sub(bytes.len()).ok_or_else(too_large)?;
        Ok(STANDARD.encode(bytes))
    }
}

fn too_large() -> SkillError {
    let message =
        format!("with these arguments, the answer has more than {MAX_CONTENT_BYTES} bytes: send shorter arguments");
    SkillError::new(ErrorCode::InvalidArgument, message)
}

fn prompt(manifest: &Manifest, params: &Params) -> Result<String, SkillError> {
    let prompt = find_prompt(manifest, &params.name)?;
    let missing = prompt.arguments.iter().find(|it| it.required && !params.arguments.contains_key(&it.name));
    if let Some(argument) = missing {
        let message = format!("the argument '{}' is missing", argument.name);
        return Err(SkillError::new(ErrorCode::InvalidArgument, message));
    }
    // A placeholder without an argument becomes empty.
    let given = |name: &str| params.arguments.get(name).cloned().unwrap_or_default();
    let values = prompt.arguments.iter().map(|it| (it.name.clone(), given(&it.name))).collect();
    let mut room = Room(MAX_CONTENT_BYTES);
    let messages = prompt.messages.iter().map(|it| message(manifest, it, &values, &mut room));
    let messages = messages.collect::<Result<Vec<_>, _>>()?;
    Ok(json!({ "description": prompt.description, "messages": messages }).to_string())
}

fn message(manifest: &Manifest, message: &Message, values: &Values, room: &mut Room) -> Result<Value, SkillError> {
    let Message { role, kind, body, media_type } = message;
    let bytes = bytes(manifest, body)?;
    let content = match kind {
        Kind::Text => json!({ "type": "text", "text": room.fill(&text(bytes)?, values, false)? }),
        Kind::Image => json!({ "type": "image", "data": room.encode(&bytes)?, "mimeType": media_type }),
        Kind::Audio => json!({ "type": "audio", "data": room.encode(&bytes)?, "mimeType": media_type }),
        Kind::Resource(uri) => {
            let uri = room.fill(uri, values, false)?;
            json!({ "type": "resource", "resource": contents(&uri, media_type, bytes, values, room)? })
        }
    };
    let role = match role {
        Role::User => "user",
        Role::Assistant => "assistant",
    };
    Ok(json!({ "role": role, "content": content }))
}

fn read(manifest: &Manifest, params: &Params, template: &str) -> Result<String, SkillError> {
    let resource = resource(manifest, if template.is_empty() { &params.uri } else { template })?;
    let values = if resource.is_template() {
        let matched = Template::parse(&resource.uri).and_then(|it| it.match_uri(&params.uri));
        matched.ok_or_else(|| not_found("the URI does not fit its template"))?
    } else {
        Values::new()
    };
    let (bytes, mut room) = (bytes(manifest, &resource.body)?, Room(MAX_CONTENT_BYTES));
    let contents = contents(&params.uri, &resource.media_type, bytes, &values, &mut room)?;
    Ok(json!({ "contents": [contents] }).to_string())
}

/// Converts content to text if it is UTF-8, otherwise to a blob.
fn contents(
    uri: &str,
    media_type: &str,
    bytes: Vec<u8>,
    values: &Values,
    room: &mut Room,
) -> Result<Value, SkillError> {
    let mut contents = json!({ "uri": uri });
    if !media_type.is_empty() {
        contents["mimeType"] = media_type.into();
    }
    let essence = media_type.split(';').next().unwrap_or_default();
    let is_binary = ["image/", "audio/", "video/", "application/octet-stream", "application/pdf"];
    match String::from_utf8(bytes) {
        Ok(text) if essence == "image/svg+xml" || !is_binary.iter().any(|it| essence.starts_with(it)) => {
            contents["text"] = room.fill(&text, values, is_json(media_type))?.into();
        }
        Ok(text) => contents["blob"] = room.encode(text.as_bytes())?.into(),
        Err(binary) => contents["blob"] = room.encode(binary.as_bytes())?.into(),
    }
    Ok(contents)
}

fn complete(manifest: &Manifest, params: &Params) -> Result<String, SkillError> {
    let arguments = if params.reference.name.is_empty() {
        &resource(manifest, &params.reference.uri)?.variables
    } else {
        &find_prompt(manifest, &params.reference.name)?.arguments
    };
    let begun = params.argument.value.to_lowercase();
    let values = arguments.iter().filter(|it| it.name == params.argument.name).flat_map(|it| &it.values);
    let fitting: Vec<_> = values.filter(|it| it.to_lowercase().starts_with(&begun)).collect();
    let shown = fitting.get(..MAX_VALUES.min(fitting.len())).unwrap_or_default();
    let (total, has_more) = (fitting.len(), fitting.len() > shown.len());
    Ok(json!({ "completion": { "values": shown, "total": total, "hasMore": has_more } }).to_string())
}

fn find_prompt<'a>(manifest: &'a Manifest, name: &str) -> Result<&'a Prompt, SkillError> {
    let found = manifest.offerings.prompts.iter().find(|it| it.name == name);
    found.ok_or_else(|| not_found("there is no such prompt"))
}

fn resource<'a>(manifest: &'a Manifest, uri: &str) -> Result<&'a Resource, SkillError> {
    manifest.offerings.resources.iter().find(|it| it.uri == uri).ok_or_else(|| not_found("there is no such resource"))
}

fn bytes(manifest: &Manifest, body: &Body) -> Result<Vec<u8>, SkillError> {
    let (folder, file) = match body {
        Body::Text(text) => return Ok(text.clone().into_bytes()),
        Body::File(file) => (&manifest.offerings.folder, file),
    };
    let unreadable = |reason: String| {
        // The caller must not see host paths.
        tracing::warn!(file = %folder.join(file).display(), reason, "a file of a manifest can't be read");
        SkillError::new(ErrorCode::Internal, "its file can't be read now")
    };
    let folder = PlainFolder::open(folder).map_err(|error| unreadable(error.to_string()))?;
    folder.bytes(file, MAX_FILE_BYTES).map_err(|error| unreadable(error.to_string()))
}

fn text(bytes: Vec<u8>) -> Result<String, SkillError> {
    String::from_utf8(bytes).map_err(|_| SkillError::new(ErrorCode::Internal, "its file is not text"))
}

fn not_found(message: &str) -> SkillError {
    SkillError::new(ErrorCode::NotFound, message)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::manifest::RunnerSpec;
    use crate::manifest::offerings::Argument;

    fn manifest(text: String, kind: Kind, count: usize) -> Manifest {
        let message = Message { role: Role::User, kind, body: Body::Text(text), media_type: String::new() };
        let argument =
            Argument { name: "x".to_owned(), description: String::new(), required: true, values: Vec::new() };
        let prompt = Prompt {
            name: "p".to_owned(),
            title: String::new(),
            description: String::new(),
            arguments: vec![argument],
            messages: vec![message; count],
        };
        let mut manifest = Manifest::plain("a".to_owned(), "mcp:stdio", RunnerSpec::Unknown);
        manifest.offerings.prompts = vec![prompt];
        manifest
    }

    fn ask(manifest: &Manifest, value: &str) -> Result<String, SkillError> {
        let params_json = json!({"name": "p", "arguments": {"x": value}}).to_string();
        consult(manifest, &ConsultRequest { method: ConsultMethod::Prompt.into(), params_json, ..Default::default() })
    }

    #[test]
    fn a_filled_prompt_is_bounded_however_its_places_are_divided() {
        let half = "x".repeat(MAX_CONTENT_BYTES / 2);
        let uri = |uri: &str| Kind::Resource(uri.to_owned());
        for (text, kind, count) in [
            ("{x}".repeat(3), Kind::Text, 1),
            ("{x}".to_owned(), Kind::Text, 3),
            ("a".to_owned(), uri("a:{x}{x}{x}"), 1),
            ("{x}".to_owned(), uri("a:{x}"), 2),
        ] {
            let manifest = manifest(text, kind, count);
            assert!(ask(&manifest, "short").is_ok());
            assert_eq!(ask(&manifest, &half).unwrap_err().code(), ErrorCode::InvalidArgument);
        }
        // The text is within the limit, but not its JSON.
        let escaped = "\u{1}".repeat(MAX_CONTENT_BYTES / 2);
        assert_eq!(
            ask(&manifest("{x}".to_owned(), Kind::Text, 1), &escaped).unwrap_err().code(),
            ErrorCode::InvalidArgument
        );
    }
}
