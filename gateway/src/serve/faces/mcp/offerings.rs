//! Prompts, resources and templates: their lists, `prompts/get`, and `completion/complete`.

use std::collections::BTreeMap;
use std::sync::Arc;

use openskill_proto::v1::{ConsultMethod, ConsultRequest, ErrorCode, SkillError};
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

use super::client::{McpClient, server_info};
use super::jsonrpc::{Code, Params, RpcError, invalid_params};
use super::list::definitions;
use crate::call::principal::Principal;
use crate::catalog::offerings::{McpOfferings, MergedOffering, OfferingGroup};
use crate::catalog::snapshot::Snapshot;
use crate::dispatch::consult::{ConsultScope, consult};
use crate::gateway::Shard;
use crate::mcp::owner::Owner;
use crate::mcp::pages::List;
use crate::mcp::revision::Revision;
use crate::mcp::session::Capabilities;
use crate::mcp::views::View;

/// The list that a client requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ListKind {
    Prompts,
    Resources,
    Templates,
}

impl ListKind {
    /// The list's name in a result.
    pub(super) fn field(self) -> &'static str {
        match self {
            Self::Prompts => "prompts",
            Self::Resources => "resources",
            Self::Templates => "resourceTemplates",
        }
    }

    fn items(self, shelf: &McpOfferings) -> &BTreeMap<String, OfferingGroup> {
        match self {
            Self::Prompts => &shelf.prompts,
            Self::Resources => &shelf.resources,
            Self::Templates => &shelf.templates,
        }
    }
}

/// A principal with the view that it uses.
#[derive(Clone, Copy)]
pub(super) struct Viewer<'a> {
    pub(super) principal: &'a Principal,
    pub(super) view: &'a Arc<View>,
    /// Empty for a client without a session.
    pub(super) session_id: &'a str,
    /// The trace id of the request. Empty for a client that is listening.
    pub(super) trace_id: &'a str,
}

impl<'a> Viewer<'a> {
    /// The owner of the tasks, streams and results that the viewer creates.
    pub(super) fn owner(self) -> Owner {
        Owner { principal: self.principal.name().to_owned(), view: self.view.name.clone() }
    }

    /// The scope of its requests to workers.
    pub(super) fn consult_scope(self) -> ConsultScope<'a> {
        ConsultScope { principal: self.principal, session_id: self.session_id, trace_id: self.trace_id }
    }

    /// Whether the viewer may use a prompt, a resource or a template.
    pub(super) fn sees(self, item: &MergedOffering, skills: &Snapshot) -> bool {
        if self.view.has_all() {
            return item.exists_for(self.principal, skills);
        }
        // One skill must be both in the view and callable by the principal.
        let mut tools = item.skills(skills).peekable();
        if tools.peek().is_none() && item.offering.of_server {
            return self.view.offers(&item.offering) && item.exists_for(self.principal, skills);
        }
        tools.any(|it| self.view.has(it) && self.principal.may_call(it))
    }
}

/// Returns the current list of a viewer. An unchanged list stays the same object.
pub(super) fn current(shard: &Shard, kind: ListKind, viewer: Viewer<'_>) -> Arc<List> {
    let gateway = &shard.gateway;
    // Read the number first: if the list is newer than its number, it is only rendered once more.
    let change = gateway.catalog.change();
    gateway.mcp.offerings[kind as usize].get(viewer.principal, viewer.view, change, || {
        let (shelf, skills) = (gateway.catalog.offerings(), gateway.catalog.snapshot());
        let items = kind.items(&shelf).iter();
        let seen = items.filter_map(|(name, it)| Some((name, it.first(|it| viewer.sees(it, &skills))?)));
        let mut all: BTreeMap<String, String> = seen.map(|(name, it)| (name.clone(), it.definition.clone())).collect();
        if kind == ListKind::Templates {
            // Artifacts and long results are not listed as resources: only results link to them.
            all.extend(definitions(include_str!("templates.json"), "uriTemplate"));
        }
        List::new(all)
    })
}

/// An argument that a prompt declares.
#[derive(Debug, Deserialize)]
struct PromptArgument {
    name: String,
    #[serde(default)]
    description: String,
    #[serde(default)]
    required: bool,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct PromptDefinition {
    arguments: Vec<PromptArgument>,
}

/// The key of the question for missing arguments.
const MISSING: &str = "arguments";

/// `prompts/get`: returns the prompt. If arguments are missing, asks the client's user for them.
///
/// # Errors
/// The viewer has no such prompt, arguments are missing, or the prompt's owner returns an error.
pub(super) async fn prompt(
    shard: &Shard,
    params: &mut Params,
    viewer: Viewer<'_>,
    client: &McpClient,
) -> Result<String, RpcError> {
    let Some(name) = params.name.take() else {
        return Err(invalid_params("params.name is missing: set it to the prompt to get"));
    };
    let (shelf, skills) = (shard.gateway.catalog.offerings(), shard.gateway.catalog.snapshot());
    let item = shelf.prompts.get(&name).and_then(|it| it.first(|it| viewer.sees(it, &skills)));
    let item = item.ok_or_else(|| invalid_params("there is no such prompt"))?;
    let mut arguments = read_arguments(params.arguments.take())?;
    arguments.extend(take_answered_arguments(params));
    let definition: PromptDefinition = serde_json::from_str(&item.definition).unwrap_or_default();
    let missing: Vec<_> =
        definition.arguments.iter().filter(|it| it.required && !arguments.contains_key(&it.name)).collect();
    if let Some(first) = missing.first() {
        if client.revision.is_stateless() && can_ask(params) {
            return Ok(question(&missing));
        }
        let message = format!("the argument '{}' of the prompt is missing", first.name);
        return Err(invalid_params(message));
    }
    let asked = json!({ "name": item.offering.key, "arguments": arguments });
    let result = consult(shard, viewer.consult_scope(), item, request(ConsultMethod::Prompt, item, &asked))
        .await
        .map_err(fault)?;
    complete_result(&result, client.revision)
}

fn can_ask(params: &Params) -> bool {
    let capabilities = params.meta.as_ref().and_then(|it| it.capabilities.as_ref());
    capabilities.map(Capabilities::abilities).is_some_and(|it| it.elicitation)
}

fn read_arguments(arguments: Option<Box<RawValue>>) -> Result<Map<String, Value>, RpcError> {
    let Some(arguments) = arguments else { return Ok(Map::new()) };
    let read: Map<String, Value> =
        serde_json::from_str(arguments.get()).map_err(|_| invalid_params("params.arguments must be an object"))?;
    match read.values().all(Value::is_string) {
        true => Ok(read),
        false => Err(invalid_params("the arguments of a prompt must be strings")),
    }
}

/// Takes the arguments that the client's user filled in.
fn take_answered_arguments(params: &mut Params) -> Map<String, Value> {
    #[derive(Deserialize)]
    struct ElicitationAnswer {
        action: String,
        #[serde(default)]
        content: Map<String, Value>,
    }
    let answers = params.input_responses.take().unwrap_or_default();
    let answer =
        answers.get(MISSING).and_then(|it| openskill_proto::json::read::<ElicitationAnswer>(it.get().as_bytes()).ok());
    let content = answer.filter(|it| it.action == "accept").map(|it| it.content).unwrap_or_default();
    content.into_iter().filter(|(_, value)| value.is_string()).collect()
}

/// Builds the result that asks for arguments. It needs no state, because the answer provides everything that is
/// missing.
fn question(missing: &[&PromptArgument]) -> String {
    let property = |it: &&PromptArgument| {
        let mut property = json!({ "type": "string" });
        if !it.description.is_empty() {
            property["description"] = it.description.as_str().into();
        }
        (it.name.clone(), property)
    };
    let properties: Map<String, Value> = missing.iter().map(property).collect();
    let message = match missing {
        [only] if !only.description.is_empty() => only.description.clone(),
        _ => "The prompt needs these values.".to_owned(),
    };
    let required: Vec<_> = missing.iter().map(|it| it.name.as_str()).collect();
    let schema = json!({ "type": "object", "properties": properties, "required": required });
    let params = json!({ "message": message, "requestedSchema": schema });
    let result = json!({
        "resultType": "input_required",
        "inputRequests": { MISSING: { "method": "elicitation/create", "params": params } },
        "_meta": { "io.modelcontextprotocol/serverInfo": server_info() },
    });
    result.to_string()
}

/// `completion/complete`: returns suggestions. An argument without suggestions gets an empty list, not an error.
///
/// # Errors
/// The viewer has no such prompt or template.
pub(super) async fn complete(
    shard: &Shard,
    params: &Params,
    viewer: Viewer<'_>,
    revision: Revision,
) -> Result<String, RpcError> {
    let (Some(reference), Some(argument)) = (&params.reference, &params.argument) else {
        return Err(invalid_params("params.ref or params.argument is missing: they say what to complete"));
    };
    let (shelf, skills) = (shard.gateway.catalog.offerings(), shard.gateway.catalog.snapshot());
    let seen = |items: Option<&'_ OfferingGroup>| items.and_then(|it| it.first(|it| viewer.sees(it, &skills))).cloned();
    let item = match reference.kind.as_str() {
        "ref/prompt" => seen(shelf.prompts.get(&reference.name)),
        "ref/resource" => {
            seen(shelf.templates.get(&reference.uri)).or_else(|| seen(shelf.resources.get(&reference.uri)))
        }
        _ => return Err(invalid_params("params.ref.type must be ref/prompt or ref/resource")),
    };
    let item = &item.ok_or_else(|| invalid_params("there is no such prompt or template"))?;
    let key = item.offering.key.as_str();
    let reference = match reference.kind.as_str() {
        "ref/prompt" => json!({ "type": "ref/prompt", "name": key }),
        _ => json!({ "type": "ref/resource", "uri": key }),
    };
    // JSON may contain what a string can't represent, such as an unpaired surrogate.
    let read = |json: &RawValue| serde_json::from_str::<Value>(json.get());
    let unreadable = |_| invalid_params("params.argument or params.context can't be read");
    let mut asked = json!({ "ref": reference, "argument": read(argument).map_err(unreadable)? });
    if let Some(context) = &params.context {
        asked["context"] = read(context).map_err(unreadable)?;
    }
    match consult(shard, viewer.consult_scope(), item, request(ConsultMethod::Complete, item, &asked)).await {
        Ok(result) => complete_result(&result, revision),
        // Support for completion is optional.
        Err(error) if error.code() == ErrorCode::NotFound => {
            complete_result("{\"completion\":{\"values\":[],\"total\":0,\"hasMore\":false}}", revision)
        }
        Err(error) => Err(fault(error)),
    }
}

/// Builds the request to an item's owner.
pub(super) fn request(method: ConsultMethod, item: &MergedOffering, params: &Value) -> ConsultRequest {
    let (owner, params_json) = (item.offering.owner.clone(), params.to_string());
    ConsultRequest { method: method.into(), owner, params_json, ..ConsultRequest::default() }
}

/// Adds the fields to an owner's result that are required since revision 2026-07-28.
fn complete_result(result: &str, revision: Revision) -> Result<String, RpcError> {
    if !revision.is_stateless() {
        return Ok(result.to_owned());
    }
    let mut fields: Map<String, Value> = serde_json::from_str(result).map_err(|_| {
        RpcError::new(Code::Internal, "the answer of the server that offers the prompt is not an object")
    })?;
    fields.insert("resultType".to_owned(), "complete".into());
    let meta = fields.entry("_meta").or_insert_with(|| json!({}));
    if let Some(meta) = meta.as_object_mut() {
        meta.insert("io.modelcontextprotocol/serverInfo".to_owned(), server_info());
    }
    Ok(Value::Object(fields).to_string())
}

/// Turns an owner's error into a protocol error.
pub(super) fn fault(error: SkillError) -> RpcError {
    let code = match error.code() {
        ErrorCode::NotFound | ErrorCode::InvalidArgument => Code::InvalidParams,
        ErrorCode::Overloaded | ErrorCode::RateLimited | ErrorCode::Unavailable => Code::Overloaded,
        _ => Code::Internal,
    };
    RpcError::new(code, error.message)
}

#[cfg(test)]
mod tests {
    use super::super::content::ARTIFACTS;
    use super::super::long::RESULTS;
    use super::*;

    #[test]
    fn the_built_in_templates_are_those_of_artifacts_and_results() {
        let names: Vec<_> = definitions(include_str!("templates.json"), "uriTemplate").map(|(name, _)| name).collect();
        assert_eq!(names, [format!("{ARTIFACTS}{{+handle}}"), format!("{RESULTS}{{id}}{{?offset,length}}")]);
    }

    #[test]
    fn missing_arguments_are_asked_for_by_a_form() {
        let (name, description) = ("context".to_owned(), "Which context?".to_owned());
        let argument = PromptArgument { name, description, required: true };
        let result: Value = serde_json::from_str(&question(&[&argument])).unwrap();
        let request = &result["inputRequests"][MISSING];
        assert_eq!(
            (&request["method"], &request["params"]["message"]),
            (&json!("elicitation/create"), &json!("Which context?"))
        );
        assert_eq!(request["params"]["requestedSchema"]["required"], json!(["context"]));
        let answer = |text: &str| {
            let responses = Map::from_iter([(MISSING.to_owned(), serde_json::from_str::<Value>(text).unwrap())]);
            let text = json!({ "inputResponses": responses }).to_string();
            Value::Object(take_answered_arguments(&mut serde_json::from_str(&text).unwrap()))
        };
        assert_eq!(answer(r#"{"action": "accept", "content": {"context": "a", "n": 5}}"#), json!({"context": "a"}));
        assert_eq!(answer(r#"{"action": "decline", "content": {"context": "a"}}"#), json!({}));
    }

    #[test]
    fn what_may_pass_is_told_apart_from_what_is_wrong() {
        let code = |code: ErrorCode| fault(SkillError::new(code, "")).code as i32;
        for may_pass in [ErrorCode::Overloaded, ErrorCode::RateLimited, ErrorCode::Unavailable] {
            assert_eq!(code(may_pass), -32000, "{may_pass:?}");
        }
        assert_eq!([code(ErrorCode::NotFound), code(ErrorCode::InvalidArgument)], [-32602, -32602]);
        assert_eq!([code(ErrorCode::Internal), code(ErrorCode::ExecutionError)], [-32603, -32603]);
    }

    #[test]
    fn arguments_of_prompts_are_strings() {
        let read = |text: &str| read_arguments(Some(RawValue::from_string(text.to_owned()).unwrap()));
        assert_eq!(read(r#"{"a": "b"}"#).unwrap().len(), 1);
        assert!(read(r#"{"a": 5}"#).is_err() && read("[]").is_err() && read_arguments(None).unwrap().is_empty());
    }

    #[test]
    fn results_say_since_the_newest_revision_that_they_are_complete() {
        let sent = r#"{"messages":[],"_meta":{"a":1}}"#;
        assert_eq!(complete_result(sent, Revision::V2025_11_25).unwrap(), sent);
        let result: Value = serde_json::from_str(&complete_result(sent, Revision::V2026_07_28).unwrap()).unwrap();
        assert_eq!((&result["resultType"], &result["_meta"]["a"]), (&json!("complete"), &json!(1)));
        assert!(complete_result("[]", Revision::V2026_07_28).is_err());
    }
}
