//! Views: parts of the catalog that look like separate servers, at `/mcp/{view}`.
//!
//! A view restricts what its clients see. It grants no rights: the principal's policy decides what may be called.
//!
//! - [`mod@file`]: reads the file that defines views; [`reload`]: follows its changes

pub(crate) mod file;
pub(crate) mod reload;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::PathBuf;
use std::sync::Arc;

use arc_swap::ArcSwap;
use openskill_proto::v1::{Offering, Skill};
use openskill_telemetry::metrics::Counter;
use serde::Deserialize;
use tokio::sync::watch;

/// The built-in tools of a view whose list is `search`.
pub(crate) const SEARCH_TOOLS: &str = "search_tools";
pub(crate) const CALL_TOOL: &str = "call_tool";
pub(crate) const CALL_READ_ONLY_TOOL: &str = "call_read_only_tool";

/// The file of views, with its content when the gateway started.
#[derive(Debug, Clone)]
pub struct ViewsConfig {
    /// The path of the file.
    pub file: PathBuf,
    /// The views in the file.
    pub contents: Contents,
}

/// All views of a file.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Contents {
    /// The view at `/mcp`.
    #[serde(default)]
    default: Arc<View>,
    /// The other views, by name.
    #[serde(default, rename = "views")]
    named: BTreeMap<String, Arc<View>>,
}

/// Which tools `tools/list` returns.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum ListMode {
    /// All tools of the view.
    #[default]
    All,
    /// Only pinned tools, and built-in tools that search and call the others.
    Search,
}

/// A part of the catalog.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct View {
    /// Its name. Empty for the view at `/mcp`.
    #[serde(skip)]
    pub(crate) name: String,
    /// The skill ids and the toolsets in this view. If both are None: all skills.
    skills: Option<BTreeSet<String>>,
    toolsets: Option<BTreeSet<String>>,
    read_only: bool,
    pub(crate) list: ListMode,
    /// The ids of skills that are listed in every mode.
    pinned: BTreeSet<String>,
    /// Tool names by skill id, and skill ids by tool name.
    names: BTreeMap<String, String>,
    #[serde(skip)]
    ids: HashMap<String, String>,
    /// The scopes that a token needs to use the view, and to call tools that may change something.
    pub(crate) scopes: Vec<String>,
    pub(crate) write_scopes: Vec<String>,
}

impl View {
    /// Whether a skill is a tool in this view.
    pub(crate) fn has(&self, skill: &Skill) -> bool {
        // A tool name hides the skill with the same id.
        let is_hidden = || self.ids.get(&skill.id).is_some_and(|id| *id != skill.id);
        self.selects(&skill.id, &skill.toolset) && (!self.read_only || skill.read_only) && !is_hidden()
    }

    /// Whether the view includes this skill id, for a skill that may not be in the catalog.
    pub(crate) fn chooses(&self, id: &str) -> bool {
        !self.read_only && (self.selects_all() || includes(self.skills.as_ref(), id))
    }

    /// Whether it has all skills, possibly under other names.
    pub(crate) fn has_all(&self) -> bool {
        self.selects_all() && !self.read_only
    }

    /// Whether it includes the offerings of a server without tools.
    pub(crate) fn offers(&self, offering: &Offering) -> bool {
        self.selects(&offering.owner, &offering.toolset)
    }

    fn selects_all(&self) -> bool {
        self.skills.is_none() && self.toolsets.is_none()
    }

    fn selects(&self, id: &str, toolset: &str) -> bool {
        self.selects_all() || includes(self.skills.as_ref(), id) || includes(self.toolsets.as_ref(), toolset)
    }

    /// Returns the tool name of a skill.
    pub(crate) fn name_of<'a>(&'a self, id: &'a str) -> &'a str {
        self.names.get(id).map_or(id, String::as_str)
    }

    /// Returns the skill id of a tool name. None for the id of a skill that has a different tool name in this view.
    pub(crate) fn id_of<'a>(&'a self, name: &'a str) -> Option<&'a str> {
        match self.ids.get(name) {
            Some(id) => Some(id),
            None if self.names.contains_key(name) => None,
            None => Some(name),
        }
    }

    /// Whether `tools/list` includes this skill of the view.
    pub(crate) fn lists(&self, id: &str) -> bool {
        self.list == ListMode::All || self.pinned.contains(id)
    }

    /// Whether it has only read-only tools.
    pub(crate) fn is_read_only(&self) -> bool {
        self.read_only
    }

    /// Whether it has all skills, under their own names.
    pub(crate) fn is_full_catalog(&self) -> bool {
        self.has_all() && self.list == ListMode::All && self.names.is_empty()
    }

    /// Creates a view of all skills.
    #[cfg(test)]
    pub(crate) fn listing(list: ListMode) -> Self {
        Self { list, ..Self::default() }
    }

    /// Whether it renames skills.
    pub(crate) fn has_names(&self) -> bool {
        !self.names.is_empty()
    }
}

fn includes(names: Option<&BTreeSet<String>>, name: &str) -> bool {
    names.is_some_and(|it| it.contains(name))
}

/// The current views of a gateway.
#[derive(Debug)]
pub(crate) struct Views {
    /// The file of views, if configured.
    file: Option<PathBuf>,
    current: ArcSwap<Contents>,
    changes: watch::Sender<u64>,
    /// The number of times that a changed file could not be used.
    pub(crate) failures: Counter,
}

impl Views {
    pub(crate) fn new(config: Option<ViewsConfig>) -> Self {
        let (file, contents) = config.map_or((None, Contents::default()), |it| (Some(it.file), it.contents));
        let (current, changes) = (ArcSwap::from_pointee(contents), watch::Sender::new(0));
        Self { file, current, changes, failures: Counter::new() }
    }

    /// Returns the view with this name. The empty name is the view at `/mcp`, which always exists.
    pub(crate) fn get(&self, name: &str) -> Option<Arc<View>> {
        let views = self.current.load();
        if name.is_empty() { Some(Arc::clone(&views.default)) } else { views.named.get(name).cloned() }
    }

    /// Subscribes to changes of the views.
    pub(crate) fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    /// Replaces the views with those of a new file. An unchanged view stays the same object.
    fn replace(&self, mut contents: Contents) {
        let before = self.current.load();
        for view in contents.named.values_mut().chain([&mut contents.default]) {
            if let Some(same) = before.named.get(&view.name).or(Some(&before.default)).filter(|old| **old == *view) {
                *view = Arc::clone(same);
            }
        }
        self.current.store(Arc::new(contents));
        self.changes.send_modify(|change| *change += 1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn skill(id: &str, toolset: &str, read_only: bool) -> Skill {
        Skill { id: id.to_owned(), toolset: toolset.to_owned(), read_only, ..Skill::default() }
    }

    fn views(text: &str) -> Views {
        Views::new(Some(ViewsConfig { file: PathBuf::new(), contents: Contents::parse(text).unwrap() }))
    }

    #[test]
    fn a_view_has_what_it_names_and_no_more() {
        let views = views(
            "[views.a]\nskills = ['one']\ntoolsets = ['set']\n[views.b]\nread_only = true\n\
             [views.c.names]\none = 'two'\n",
        );
        let has = |view: &str, skill: &Skill| views.get(view).unwrap().has(skill);
        let (one, two, of_set) = (skill("one", "", true), skill("two", "", false), skill("three", "set", false));
        assert!(has("a", &one) && has("a", &of_set) && !has("a", &two));
        assert!(has("b", &one) && !has("b", &of_set));
        assert!(has("c", &one) && !has("c", &two), "a name takes the place of the skill with that id");
        assert!(has("", &one) && has("", &two) && views.get("d").is_none());
    }

    #[test]
    fn names_lead_back_to_exactly_one_skill() {
        let views = views("[views.a.names]\none = 'Exact.Name'\nx = 'y'\n");
        let view = views.get("a").unwrap();
        assert_eq!((view.name_of("one"), view.name_of("two")), ("Exact.Name", "two"));
        for (name, id) in [("Exact.Name", Some("one")), ("one", None), ("two", Some("two")), ("y", Some("x"))] {
            assert_eq!(view.id_of(name), id, "{name}");
        }
    }

    #[test]
    fn a_view_that_did_not_change_stays_itself() {
        let views = views("[views.a]\nskills = ['one']\n[views.b]\n");
        let (before, mut changes) = (views.get("a").unwrap(), views.changes());
        changes.mark_unchanged();
        views.replace(Contents::parse("[views.a]\nskills = ['one']\n").unwrap());
        assert!(Arc::ptr_eq(&before, &views.get("a").unwrap()) && views.get("b").is_none());
        assert!(changes.has_changed().unwrap());
        views.replace(Contents::parse("[views.a]\nskills = ['two']\n").unwrap());
        assert!(!Arc::ptr_eq(&before, &views.get("a").unwrap()));
    }
}
