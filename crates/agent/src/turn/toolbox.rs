//! The tools that the model sees in one step.

use std::collections::{BTreeSet, HashMap};

use openskill_proto::v1::{self, Dialect};
use serde::Deserialize;

use super::{State, Turn};
use crate::context::own_tools::OwnTool;
use crate::delegation::MAX_DEPTH;
use crate::entry::{Delegated, Entry, Mode};
use crate::error::AgentError;

/// How many tools found by searching stay visible.
const MAX_FOUND: usize = 40;

/// The longest list of names in a message.
const MAX_NAMES: usize = 20;

/// The tools of one step.
#[derive(Debug, Default)]
pub(super) struct Toolbox {
    /// Definitions in the model's dialect.
    pub(super) definitions: Vec<String>,
    /// Tools that can't be called now.
    pub(super) disabled: Vec<v1::DisabledTool>,
    /// The agent's own tools among the definitions.
    pub(super) own: Vec<OwnTool>,
    /// Exported names, with their skills' ids.
    names: HashMap<String, String>,
    skills: HashMap<String, v1::Skill>,
}

/// What a name means.
#[derive(Debug)]
pub(super) enum Target<'a> {
    /// A tool of the agent.
    Own(OwnTool),
    /// A skill.
    Skill(&'a v1::Skill),
    /// Nothing: why, and what there is.
    Unknown(String),
}

/// What `tool_search` found, as its result holds it.
#[derive(Debug, Default, Deserialize)]
pub(super) struct Found {
    /// The tools.
    pub(super) tools: Vec<FoundTool>,
}

/// A tool that was found.
#[derive(Debug, Default, Deserialize, serde::Serialize)]
pub(super) struct FoundTool {
    /// The skill's id.
    pub(super) skill_id: String,
    /// The name to call it by.
    pub(super) name: String,
    /// What it does.
    pub(super) description: String,
}

impl Toolbox {
    /// Whether there are no skills.
    pub(super) fn is_empty(&self) -> bool {
        self.skills.is_empty()
    }

    /// What a name that the model wrote means.
    pub(super) fn target(&self, name: &str) -> Target<'_> {
        if let Some(own) = OwnTool::of_name(name) {
            return Target::Own(own);
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
            return format!("there is no tool '{name}', and no other one either");
        }
        let shown: Vec<_> = names.iter().take(MAX_NAMES).copied().collect();
        let more = if names.len() > shown.len() { ", ..." } else { "" };
        format!("there is no tool '{name}'. The tools are: {}{more}", shown.join(", "))
    }
}

impl Turn {
    /// The tools of this step.
    pub(super) async fn toolbox(&self) -> Result<Toolbox, AgentError> {
        let (model, toolset, mode, found) = {
            let state = self.state();
            let started = state.started().cloned().unwrap_or_default();
            (started.model, started.toolset, started.mode, found(&state))
        };
        let dialect = match self.shared.models.pick(&model) {
            Ok(Some(model)) => model.dialect(),
            _ => Dialect::Mcp,
        };
        let skills = self.shared.skills.list(&self.caller).await.unwrap_or_else(|error| {
            tracing::warn!(conversation = self.conversation, %error, "the turn goes on without skills");
            Vec::new()
        });
        let allowed = skills.into_iter().filter(|it| mode != Mode::ReadOnly || it.read_only);
        // Two tools of one name would be an error of the provider's: the agent's own one knows its user.
        let allowed = allowed.filter(|it| OwnTool::of_name(&it.id).is_none());
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
            // Only to know what is disabled.
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
        toolbox.own = match self.delegated {
            None => [OwnTool::AskUser, OwnTool::ReadResult].into(),
            Some(_) => [OwnTool::ReadResult].into(),
        };
        if has_search {
            toolbox.own.push(OwnTool::ToolSearch);
        }
        toolbox.definitions.extend(toolbox.own.iter().map(|it| it.definition(dialect)));
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
                tracing::warn!(conversation = self.conversation, %error, "the turn goes on without skills");
                toolbox.skills.clear();
            }
        }
    }

    /// Searches the skills of this step.
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

/// Whether a sub-agent may call a skill: one that its definition names, and another agent only while it is not nested too deep.
fn may_call(by: &Delegated, skill: &v1::Skill) -> bool {
    by.tools.contains(&skill.id) && (skill.agent.is_none() || by.depth < MAX_DEPTH)
}

/// A tool in MCP's form.
#[derive(Deserialize)]
struct Exported {
    name: String,
    #[serde(default)]
    description: String,
}

/// The skills that the conversation searched for and found, the last ones if there are many.
fn found(state: &State) -> BTreeSet<String> {
    let results = state.entries().iter().rev().filter_map(|it| match &it.entry {
        Entry::Called(called) if called.name == OwnTool::ToolSearch.name() => Some(&called.outcome.data),
        _ => None,
    });
    let tools = results.filter_map(|data| serde_json::from_str::<Found>(data).ok()).flat_map(|it| it.tools);
    tools.map(|it| it.skill_id).take(MAX_FOUND).collect()
}
