//! The tools available in one step of a turn.

use std::collections::{BTreeSet, HashMap};

use openskill_proto::v1::{self, Dialect};
use serde::Deserialize;

use super::{State, Turn};
use crate::context::builtin_tools::BuiltinTool;
use crate::delegation::MAX_DEPTH;
use crate::entry::{Delegated, Entry, Mode};
use crate::error::AgentError;

/// The maximum number of tools found by searching that stay visible to the model.
const MAX_FOUND: usize = 40;

/// The maximum number of tool names in an error message.
const MAX_NAMES: usize = 20;

/// The tools available in one step.
#[derive(Debug, Default)]
pub(super) struct Toolbox {
    /// Tool definitions in the model's dialect.
    pub(super) definitions: Vec<String>,
    /// Tools that can't be called at the moment.
    pub(super) disabled: Vec<v1::DisabledTool>,
    /// The built-in tools in `definitions`.
    pub(super) builtin: Vec<BuiltinTool>,
    /// Skill ids by the exported names of their tools.
    names: HashMap<String, String>,
    skills: HashMap<String, v1::Skill>,
}

/// What a tool name refers to.
#[derive(Debug)]
pub(super) enum Target<'a> {
    Builtin(BuiltinTool),
    Skill(&'a v1::Skill),
    /// No tool has this name. The message lists existing tools.
    Unknown(String),
}

/// The data of a `tool_search` result.
#[derive(Debug, Default, Deserialize)]
pub(super) struct ToolSearchResult {
    pub(super) tools: Vec<FoundTool>,
}

/// A tool found by the search.
#[derive(Debug, Default, Deserialize, serde::Serialize)]
pub(super) struct FoundTool {
    pub(super) skill_id: String,
    /// The name that the model must use in calls.
    pub(super) name: String,
    /// A short description of the tool.
    pub(super) description: String,
}

impl Toolbox {
    /// Returns whether there are no skills.
    pub(super) fn is_empty(&self) -> bool {
        self.skills.is_empty()
    }

    /// Returns what a tool name written by the model refers to.
    pub(super) fn target(&self, name: &str) -> Target<'_> {
        if let Some(tool) = BuiltinTool::from_name(name) {
            return Target::Builtin(tool);
        }
        let id = self.names.get(name).map_or(name, String::as_str);
        match self.skills.get(id) {
            Some(skill) => Target::Skill(skill),
            None => Target::Unknown(self.unknown(name)),
        }
    }

    fn unknown(&self, name: &str) -> String {
        let name: String = name.chars().filter(|c| !c.is_control()).take(64).collect();
        let names: BTreeSet<_> = self.names.keys().map(String::as_str).collect();
        if names.is_empty() {
            return format!("there is no tool '{name}': no tools are available");
        }
        let shown: Vec<_> = names.iter().take(MAX_NAMES).copied().collect();
        let more = if names.len() > shown.len() { ", ..." } else { "" };
        format!("there is no tool '{name}'. The tools are: {}{more}", shown.join(", "))
    }
}

impl Turn {
    /// Collects the tools of this step.
    pub(super) async fn toolbox(&self) -> Result<Toolbox, AgentError> {
        let (model, toolset, mode, found) = {
            let state = self.state.lock();
            let started = state.turn_start().cloned().unwrap_or_default();
            (started.model, started.toolset, started.mode, found(&state))
        };
        let dialect = match self.shared.models.pick(&model) {
            Ok(Some(model)) => model.dialect(),
            _ => Dialect::Mcp,
        };
        let skills = self.shared.skills.list(&self.caller).await.unwrap_or_else(|error| {
            tracing::warn!(conversation = self.conversation, %error, "skills could not be listed: the turn continues without skills");
            Vec::new()
        });
        let allowed = skills.into_iter().filter(|it| mode != Mode::ReadOnly || it.read_only);
        // Providers reject two tools with the same name. The built-in tool takes precedence, because only it can
        // reach the user.
        let allowed = allowed.filter(|it| BuiltinTool::from_name(&it.id).is_none());
        let allowed = allowed.filter(|it| toolset.is_empty() || it.toolset == toolset);
        let allowed = allowed.filter(|it| self.delegated.as_ref().is_none_or(|by| may_call(by, it)));
        let skills: HashMap<_, _> = allowed.map(|it| (it.id.clone(), it)).collect();
        let is_available = |it: &&v1::Skill| it.status() == v1::SkillStatus::Available;
        let available: Vec<_> = skills.values().filter(is_available).map(|it| it.id.clone()).collect();
        let has_search = available.len() > self.shared.config.max_tools;
        let (wanted, all): (Vec<_>, _) = if has_search {
            (found.into_iter().filter(|id| skills.contains_key(id)).collect(), available)
        } else {
            (available, Vec::new())
        };
        let mut toolbox = Toolbox { skills, ..Toolbox::default() };
        if has_search {
            // This export is only needed for the list of disabled tools.
            self.export(&mut toolbox, dialect, all, 1).await;
            toolbox.definitions.clear();
        }
        if !wanted.is_empty() {
            let disabled = std::mem::take(&mut toolbox.disabled);
            self.export(&mut toolbox, dialect, wanted, 0).await;
            if has_search {
                toolbox.disabled = disabled;
            }
        }
        toolbox.builtin = match self.delegated {
            None => [BuiltinTool::AskUser, BuiltinTool::ReadResult].into(),
            Some(_) => [BuiltinTool::ReadResult].into(),
        };
        if has_search {
            toolbox.builtin.push(BuiltinTool::ToolSearch);
        }
        toolbox.definitions.extend(toolbox.builtin.iter().map(|it| it.definition(dialect)));
        Ok(toolbox)
    }

    async fn export(&self, toolbox: &mut Toolbox, dialect: Dialect, skill_ids: Vec<String>, limit: u32) {
        let request = v1::ExportToolsRequest {
            dialect: dialect.into(),
            skill_ids,
            limit,
            session_id: self.session().to_owned(),
            ..v1::ExportToolsRequest::default()
        };
        match self.shared.skills.export(&self.caller, request).await {
            Ok(exported) => {
                toolbox.definitions = exported.tools_json;
                toolbox.names = exported.skill_ids;
                toolbox.disabled = exported.disabled;
            }
            Err(error) => {
                tracing::warn!(conversation = self.conversation, %error, "skills could not be listed: the turn continues without skills");
                toolbox.skills.clear();
            }
        }
    }

    pub(super) async fn search(&self, query: &str) -> Result<Vec<FoundTool>, String> {
        let toolbox = self.toolbox().await.map_err(|error| error.to_string())?;
        let request = v1::ExportToolsRequest {
            dialect: Dialect::Mcp.into(),
            skill_ids: toolbox.skills.keys().cloned().collect(),
            session_id: self.session().to_owned(),
            query: query.to_owned(),
            ..v1::ExportToolsRequest::default()
        };
        let exported = self.shared.skills.export(&self.caller, request).await.map_err(|error| error.to_string())?;
        let found = exported.tools_json.iter().filter_map(|json| {
            let tool: Exported = serde_json::from_str(json).ok()?;
            let skill_id = exported.skill_ids.get(&tool.name).cloned()?;
            Some(FoundTool { skill_id, name: tool.name, description: tool.description })
        });
        Ok(found.collect())
    }
}

/// Returns whether a sub-agent may call a skill. Its definition must list the skill, and it may call another
/// sub-agent only if the maximum nesting depth is not reached.
fn may_call(by: &Delegated, skill: &v1::Skill) -> bool {
    by.tools.contains(&skill.id) && (skill.agent.is_none() || by.depth < MAX_DEPTH)
}

/// A tool in MCP format.
#[derive(Deserialize)]
struct Exported {
    name: String,
    #[serde(default)]
    description: String,
}

/// Returns the skills that the conversation found by searching, limited to the most recent ones.
fn found(state: &State) -> BTreeSet<String> {
    let results = state.entries.iter().rev().filter_map(|it| match &it.entry {
        Entry::Called(called) if called.name == BuiltinTool::ToolSearch.name() => Some(&called.outcome.data),
        _ => None,
    });
    let tools = results.filter_map(|data| serde_json::from_str::<ToolSearchResult>(data).ok()).flat_map(|it| it.tools);
    tools.map(|it| it.skill_id).take(MAX_FOUND).collect()
}
