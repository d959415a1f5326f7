//! A server's tools, and the skills that they become.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::time::Duration;

use openskill_proto::limits::MAX_SKILL_ID_BYTES;
use openskill_proto::trace::hex;
use openskill_proto::v1::ErrorCode;
use openskill_telemetry::log::admits;
use rmcp::{Peer, RoleClient, ServiceError};
use serde_json::{Map, Value};
use sha2::{Digest as _, Sha256};

use super::connect_error::ConnectError;
use super::lists::{IncompleteList, Items, MAX_ITEMS, MAX_PAGES, McpList};
use super::offerings::McpOfferings;
use super::pins::{self, Pin};
use super::texts::{clean, line};
use crate::manifest::mcp::{Mcp, McpTool, Override, Pinning, usable_schema};
use crate::manifest::{Approval, Manifest, Presentation, RunnerSpec, ToolHints};
use crate::runner::Offer;

/// The maximum size of a server's tool list, in bytes.
const MAX_LIST_BYTES: usize = 8 * 1024 * 1024;

const TOOLS: McpList = McpList {
    method: "tools/list",
    field: "tools",
    key: "name",
    is_required: true,
    max_key_bytes: 256,
    max_bytes: MAX_LIST_BYTES,
};

/// The timeout for listing the tools.
const PATIENCE: Duration = Duration::from_secs(10);

/// The maximum lengths of a description and a version, in bytes.
const MAX_DESCRIPTION_BYTES: usize = 16 * 1024;
const MAX_VERSION_BYTES: usize = 64;

/// A server's most recent tool list.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Catalog {
    pub(super) version: String,
    /// The tool definitions by name, as the server sent them.
    pub(super) tools: Items,
    /// The server's prompts and resources.
    pub(super) offerings: McpOfferings,
}

impl Catalog {
    /// Lists the server's tools, prompts and resources.
    ///
    /// # Errors
    /// Returns the reason if the tools cannot be listed.
    pub(super) async fn ask(peer: &Peer<RoleClient>) -> Result<Self, ConnectError> {
        let info = peer.peer_info();
        let has_others = info.as_ref().is_some_and(|it| {
            it.capabilities.tools.is_none()
                && (it.capabilities.prompts.is_some() || it.capabilities.resources.is_some())
        });
        // Some servers have tools but do not declare that capability.
        let listed = tokio::time::timeout(PATIENCE, list(peer, has_others)).await;
        let tools = listed.map_err(|_| format!("it did not list its tools within {} s", PATIENCE.as_secs()))??;
        let version = info.and_then(|info| info.server_info.as_ref().map(|it| it.version.clone()));
        let offerings = McpOfferings::ask(peer).await;
        Ok(Self { version: line(&version.unwrap_or_default(), MAX_VERSION_BYTES), tools, offerings })
    }

    /// Returns the current pins of all tools.
    pub(super) fn pins(&self) -> BTreeMap<String, Pin> {
        self.tools.iter().map(|(name, definition)| (name.clone(), pins::pin(definition))).collect()
    }

    /// Creates the skills of all tools. `pinned`: the pins that they must match; `agreed`: whether these come from
    /// a lock file; `away`: why no tool can run now.
    pub(super) fn offers(
        &self,
        server: &Manifest,
        mcp: &Mcp,
        pinned: &BTreeMap<String, Pin>,
        agreed: bool,
        away: Option<&str>,
    ) -> Vec<Offer> {
        let names: Vec<&str> = self.tools.keys().map(String::as_str).filter(|name| mcp.tools.takes(name)).collect();
        let ids = skill_ids(&server.id, &names);
        let is_strict = mcp.pin == Pinning::Strict;
        let offer = |name: &&str| {
            let (id, definition) = (ids.get(*name)?.clone(), self.tools.get(*name)?);
            let pin = pins::pin(definition);
            let changed = pins::changes(pinned.get(*name), &pin).filter(|_| is_strict);
            let tool = McpTool { server: server.id.clone(), tool: (*name).to_owned(), pin };
            let plain = Manifest {
                toolset: if server.toolset.is_empty() { server.id.clone() } else { server.toolset.clone() },
                version: server.version.clone(),
                ..Manifest::plain(id, &server.runner, RunnerSpec::McpTool(Box::new(tool)))
            };
            if let Some(what) = changed {
                return Some(withheld(server, plain, &what));
            }
            let given = mcp.overrides.get(*name).copied().unwrap_or_default();
            let (manifest, fault) = self.skill(server, plain, name, definition, &given, agreed && is_strict);
            let runner = fault.or_else(|| away.map(str::to_owned)).map_or(Ok(()), Err);
            Some(Offer { manifest, runner })
        };
        names.iter().filter_map(offer).collect()
    }

    /// Creates the skill of one tool. An unavailable skill contains the reason.
    fn skill(
        &self,
        server: &Manifest,
        plain: Manifest,
        name: &str,
        definition: &Map<String, Value>,
        given: &Override,
        believed: bool,
    ) -> (Manifest, Option<String>) {
        let schema = |field: &str, of_arguments| {
            let given = definition.get(field).filter(|it| !it.is_null()).cloned();
            given.map(|it| usable_schema(it, of_arguments)).transpose()
        };
        let Effects { idempotent, destructive, read_only } = effects(definition.get("annotations"), believed, given);
        let mut fault = None;
        let input_schema = schema("inputSchema", true).unwrap_or_else(|reason| {
            fault = Some(reason);
            None
        });
        // The tool works without an output schema.
        let output_schema = schema("outputSchema", false).unwrap_or_else(|reason| {
            if admits("an output schema is ignored") {
                tracing::warn!(skill_id = plain.id, reason_bytes = reason.len(), "the tool's output schema is ignored");
                tracing::debug!(skill_id = plain.id, reason, "the output schema is invalid");
            }
            None
        });
        let text = |field: &str| definition.get(field).and_then(Value::as_str).unwrap_or_default();
        let described = [text("description"), text("title")].into_iter().find(|it| !it.trim().is_empty());
        let mut argument_rules = server.argument_rules.clone();
        if destructive {
            // As in manifests: dropping an unknown key could widen a deletion that the key restricts.
            (argument_rules.drop_unknown, argument_rules.fill_defaults) = (false, false);
        }
        let skill = Manifest {
            version: if self.version.is_empty() { plain.version } else { self.version.clone() },
            presentation: if believed {
                Presentation::from_tool(text("title"), definition.get("icons"))
            } else {
                Presentation::default()
            },
            description: clean(described.unwrap_or(name), MAX_DESCRIPTION_BYTES),
            timeout_ms: given.timeout_ms.or(server.timeout_ms),
            allowed_root: server.allowed_root.clone(),
            input_schema,
            argument_rules,
            output_schema,
            idempotent,
            destructive,
            tool_hints: conduct(given, server, read_only),
            affinity: server.affinity,
            circuit_rules: server.circuit_rules,
            concurrency: server.concurrency,
            limits: server.limits,
            jail: server.jail.clone(),
            ..plain
        };
        (skill, fault)
    }
}

/// Replaces the description of a tool that does not match its pin.
const WITHHELD: &str = "Not shown: the server changed this tool, and the change was not reviewed.";

/// Creates an unavailable skill for a tool that does not match its pin, under strict pinning. Models read skill
/// lists, so the skill contains the reason but no part of the definition.
fn withheld(server: &Manifest, plain: Manifest, what: &str) -> Offer {
    let manifest = Manifest {
        description: WITHHELD.to_owned(),
        idempotent: false,
        destructive: true,
        tool_hints: conduct(&Override::default(), server, false),
        ..plain
    };
    let advice = format!("review it, then run `openskill pin {}`", server.id);
    Offer { manifest, runner: Err(format!("the tool's definition differs from its pin ({what}): {advice}")) }
}

/// Returns the tool's hints for agents. A tool requires approval unless it is read-only or the manifest says
/// otherwise.
fn conduct(given: &Override, server: &Manifest, read_only: bool) -> ToolHints {
    let default = if read_only { Approval::Never } else { Approval::Ask };
    ToolHints {
        approval: Some(given.approval.or(server.tool_hints.approval).unwrap_or(default)),
        repeatable: given.repeatable.unwrap_or(server.tool_hints.repeatable),
        untrusted: given.untrusted.unwrap_or(server.tool_hints.untrusted),
        read_only,
    }
}

/// What a tool call may change.
struct Effects {
    idempotent: bool,
    destructive: bool,
    read_only: bool,
}

/// Determines a tool's effects from the manifest, then the server's hints, then the protocol's defaults (not
/// idempotent, and destructive unless read-only). Without a lock file, hints are ignored: a call that is wrongly
/// declared idempotent may run twice, and one that is wrongly declared read-only runs without approval.
fn effects(annotations: Option<&Value>, believed: bool, given: &Override) -> Effects {
    let hint = |name: &str| annotations.filter(|_| believed).and_then(|it| it.get(name)).and_then(Value::as_bool);
    let reads = given.read_only.unwrap_or_else(|| hint("readOnlyHint").unwrap_or(false));
    let destructive = given.destructive.unwrap_or_else(|| !reads && hint("destructiveHint").unwrap_or(true));
    Effects {
        idempotent: given.idempotent.unwrap_or_else(|| reads || hint("idempotentHint").unwrap_or(false)),
        destructive,
        read_only: reads && !destructive,
    }
}

/// Lists the tools. `may_refuse`: treat a refusal as an empty list.
async fn list(peer: &Peer<RoleClient>, may_refuse: bool) -> Result<Items, ConnectError> {
    let mut tools = Items::new();
    match TOOLS.read(peer, &mut tools).await {
        Ok(unusable) if unusable > 0 && admits("tools have unusable names") => {
            tracing::warn!(tools = unusable, "tools with unusable names are ignored");
        }
        Ok(_) => {}
        Err(IncompleteList::Failed(ServiceError::McpError(_))) if may_refuse => {}
        Err(IncompleteList::Failed(error)) => return Err(no_list(&error)),
        Err(IncompleteList::Malformed) => return Err("its answer to tools/list has no tools".into()),
        Err(IncompleteList::TooLong) => {
            return Err(format!("it lists more than {MAX_ITEMS} tools or {MAX_LIST_BYTES} bytes of them").into());
        }
        Err(IncompleteList::TooManyPages) => {
            return Err(format!("its list of tools has more than {MAX_PAGES} pages").into());
        }
    }
    Ok(tools)
}

fn no_list(error: &ServiceError) -> ConnectError {
    match error {
        ServiceError::McpError(error) => {
            let fault = super::errors::CallFault::Rpc { code: error.code.0, message: &error.message };
            let failure = super::errors::classify(fault, false);
            match failure.code() {
                ErrorCode::McpNotFound => "it has no tools".into(),
                _ => ConnectError::refusal("it does not list its tools", line(&failure.message, 200)),
            }
        }
        _ => "the connection was lost while it listed its tools".into(),
    }
}

/// The number of digest characters that distinguish truncated names.
const DIGEST_CHARS: usize = 8;

/// Returns each tool's skill id: `server__tool`, restricted to the characters of a skill id. Clashing ids are numbered
/// in the order of the tool names, so that they do not depend on the order of the server's list.
pub(super) fn skill_ids(server: &str, tools: &[&str]) -> BTreeMap<String, String> {
    let (mut taken, mut ids) = (HashSet::new(), BTreeMap::new());
    for tool in tools.iter().collect::<BTreeSet<_>>() {
        let plain = skill_id(server, tool);
        let mut id = plain.clone();
        let mut number = 2;
        while !taken.insert(id.clone()) {
            let suffix = format!("_{number}");
            id = format!("{}{suffix}", &plain[..plain.len().min(MAX_SKILL_ID_BYTES - suffix.len())]);
            number += 1;
        }
        ids.insert((*tool).to_owned(), id);
    }
    ids
}

/// Returns a tool's skill id, before clashes are resolved.
pub(super) fn skill_id(server: &str, tool: &str) -> String {
    let letter = |it: char| match it.to_ascii_lowercase() {
        it if it.is_ascii_lowercase() || it.is_ascii_digit() || it == '-' => it,
        _ => '_',
    };
    let id = format!("{server}__{}", tool.chars().map(letter).collect::<String>());
    if id.len() <= MAX_SKILL_ID_BYTES {
        return id;
    }
    let digest = hex(&Sha256::digest(tool.as_bytes()));
    format!("{}_{}", &id[..MAX_SKILL_ID_BYTES - 1 - DIGEST_CHARS], &digest[..DIGEST_CHARS])
}

#[cfg(test)]
mod tests;
