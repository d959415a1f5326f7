//! What workers offer MCP clients in addition to skills: prompts, resources and templates, merged.

use std::collections::BTreeMap;
use std::sync::Arc;

use openskill_proto::uri_template::Template;
use openskill_proto::v1::{Offering, OfferingKind, Skill};

use crate::call::principal::Principal;
use crate::catalog::snapshot::Snapshot;
use crate::workers::worker::Worker;

/// All offerings at one moment. Immutable.
#[derive(Debug, Default)]
pub(crate) struct McpOfferings {
    /// Prompts, by the names that clients use.
    pub(crate) prompts: BTreeMap<String, OfferingGroup>,
    /// Resources, by URI.
    pub(crate) resources: BTreeMap<String, OfferingGroup>,
    /// Templates, by URI template.
    pub(crate) templates: BTreeMap<String, OfferingGroup>,
    /// The latest state of each resource that reports one, by owner and URI.
    revisions: BTreeMap<(String, String), String>,
}

/// The offerings that several owners have under the same name, sorted by owner. A viewer gets the first one that it
/// may see, so that a hidden one does not hide the others.
#[derive(Debug, Default)]
pub(crate) struct OfferingGroup(Vec<Arc<MergedOffering>>);

impl OfferingGroup {
    /// Returns the first offering that `sees` accepts.
    pub(crate) fn first(&self, sees: impl Fn(&MergedOffering) -> bool) -> Option<&Arc<MergedOffering>> {
        self.0.iter().find(|it| sees(it))
    }
}

/// A prompt, a resource or a template.
#[derive(Debug)]
pub(crate) struct MergedOffering {
    pub(crate) offering: Offering,
    /// The definition for clients, as a JSON object.
    pub(crate) definition: String,
    /// The workers that offer it.
    pub(crate) workers: Vec<Arc<Worker>>,
    template: Option<Template>,
}

impl MergedOffering {
    /// Returns the skills that it belongs to: its owner, or the tools of its MCP server.
    pub(crate) fn skills<'s>(&self, skills: &'s Snapshot) -> impl Iterator<Item = &'s Skill> + use<'s> {
        let Offering { owner, of_server, .. } = &self.offering;
        // The tools of one server are adjacent.
        let prefix = if *of_server { format!("{owner}__") } else { owner.clone() };
        let (first, of_server) = (prefix.clone(), *of_server);
        let is_its = move |id: &str| if of_server { id.starts_with(&prefix) } else { id == prefix };
        skills.range(first..).take_while(move |(id, _)| is_its(id)).map(|(_, it)| &it.skill)
    }

    /// Whether a principal may see it, which requires one of its owner's skills.
    pub(crate) fn exists_for(&self, principal: &Principal, skills: &Snapshot) -> bool {
        let Offering { owner, toolset, of_server, .. } = &self.offering;
        principal.sees_all()
            || *of_server && principal.allows(owner, toolset, false)
            || self.skills(skills).any(|it| principal.may_call(it))
    }
}

impl McpOfferings {
    /// Merges the offerings of all workers.
    pub(super) fn merge(workers: &[Arc<Worker>]) -> Self {
        let mut merged = Self::default();
        let mut all: Vec<(Offering, Arc<Worker>)> = Vec::new();
        for worker in workers {
            let Some(state) = worker.serving() else { continue };
            all.extend(state.offerings.iter().map(|it| (it.clone(), Arc::clone(worker))));
            for update in &state.updates {
                // Include every worker's state, so that a change at any of them is noticed.
                let known = merged.revisions.entry((update.owner.clone(), update.uri.clone())).or_default();
                known.push_str(&update.revision);
                known.push(' ');
            }
        }
        all.sort_by(|(one, _), (other, _)| one.owner.cmp(&other.owner));
        for (offering, worker) in all {
            merged.add(offering, worker);
        }
        merged
    }

    fn add(&mut self, offering: Offering, worker: Arc<Worker>) {
        let (name, place) = match offering.kind() {
            OfferingKind::Prompt if offering.of_server => {
                (format!("{}__{}", offering.owner, offering.key), &mut self.prompts)
            }
            OfferingKind::Prompt => (offering.key.clone(), &mut self.prompts),
            OfferingKind::Resource => (offering.key.clone(), &mut self.resources),
            OfferingKind::Template => (offering.key.clone(), &mut self.templates),
        };
        let items = &mut place.entry(name.clone()).or_default().0;
        match items.last_mut() {
            // Offerings are sorted by owner, so those of one owner are adjacent.
            Some(item) if item.offering.owner == offering.owner => {
                // Always succeeds, because the item is not shared yet.
                if let Some(item) = Arc::get_mut(item) {
                    item.workers.push(worker);
                }
            }
            _ => {
                let template = (offering.kind() == OfferingKind::Template).then(|| Template::parse(&offering.key));
                items.push(Arc::new(MergedOffering {
                    definition: definition(&offering, &name),
                    template: template.flatten(),
                    workers: vec![worker],
                    offering,
                }));
            }
        }
    }

    /// Finds the resource, or the matching template, of a URI, among the offerings that the viewer `sees`.
    pub(crate) fn resource(&self, uri: &str, sees: impl Fn(&MergedOffering) -> bool) -> Option<&Arc<MergedOffering>> {
        let fits = |it: &MergedOffering| it.template.as_ref().is_some_and(|it| it.match_uri(uri).is_some());
        let resource = self.resources.get(uri).and_then(|it| it.first(&sees));
        resource.or_else(|| self.templates.values().find_map(|it| it.first(|it| fits(it) && sees(it))))
    }

    /// Returns the state of an owner's resource, which differs after each change. Empty if changes are not tracked.
    pub(crate) fn revision(&self, item: &MergedOffering, uri: &str) -> &str {
        let key = (item.offering.owner.clone(), uri.to_owned());
        self.revisions.get(&key).map_or("", String::as_str)
    }
}

/// Returns a definition with the name that clients use.
fn definition(offering: &Offering, name: &str) -> String {
    if !offering.of_server || offering.kind() != OfferingKind::Prompt {
        return offering.definition_json.clone();
    }
    let mut fields: serde_json::Map<String, serde_json::Value> =
        serde_json::from_str(&offering.definition_json).unwrap_or_default();
    fields.insert("name".to_owned(), name.into());
    serde_json::Value::Object(fields).to_string()
}

#[cfg(test)]
mod tests {
    use openskill_proto::v1::{ResourceUpdate, WorkerState};

    use super::*;
    use crate::workers::source::Endpoint;

    fn offering(kind: OfferingKind, owner: &str, key: &str, of_server: bool) -> Offering {
        let definition_json = serde_json::json!({"name": key}).to_string();
        let (owner, key) = (owner.to_owned(), key.to_owned());
        Offering { kind: kind.into(), owner, key, definition_json, of_server, ..Offering::default() }
    }

    fn worker(offerings: Vec<Offering>, revision: &str) -> Arc<Worker> {
        let worker = Worker::new(Endpoint::Tcp("nobody:1".to_owned()), 1, None);
        let update = ResourceUpdate { owner: "a".to_owned(), uri: "x:1".to_owned(), revision: revision.to_owned() };
        worker.update(WorkerState { offerings, updates: vec![update], ..WorkerState::default() });
        Arc::new(worker)
    }

    #[test]
    fn workers_share_what_they_have_and_prompts_of_servers_are_named_after_them() {
        use OfferingKind::{Prompt, Resource, Template};
        let offerings = || {
            vec![
                offering(Prompt, "a", "p", false),
                offering(Prompt, "b", "p", false),
                offering(Prompt, "s", "p", true),
                offering(Resource, "a", "x:1", false),
                offering(Template, "a", "x:{id}/y", false),
            ]
        };
        let merged = McpOfferings::merge(&[worker(offerings(), "1"), worker(offerings(), "1")]);
        assert_eq!(merged.prompts.keys().collect::<Vec<_>>(), ["p", "s__p"]);
        let prompt = |merged: &McpOfferings, name: &str| Arc::clone(merged.prompts[name].first(|_| true).unwrap());
        let first = prompt(&merged, "p");
        assert_eq!((first.offering.owner.as_str(), first.workers.len()), ("a", 2));
        assert_eq!(prompt(&merged, "s__p").definition, r#"{"name":"s__p"}"#);
        let found = |uri: &str| merged.resource(uri, |_| true).map(|it| it.offering.key.as_str());
        assert_eq!((found("x:1"), found("x:5/y"), found("x:5")), (Some("x:1"), Some("x:{id}/y"), None));
        let changed = McpOfferings::merge(&[worker(offerings(), "1"), worker(offerings(), "2")]);
        assert_ne!(merged.revision(&first, "x:1"), changed.revision(&first, "x:1"));
        assert_eq!(merged.revision(&first, "x:2"), "");
    }

    #[test]
    fn an_owner_that_is_hidden_hides_no_other_of_the_same_name() {
        use OfferingKind::{Prompt, Resource, Template};
        let of = |owner: &str| {
            [(Prompt, "p"), (Resource, "x:1"), (Template, "x:{id}/y")]
                .map(|(kind, key)| offering(kind, owner, key, false))
        };
        let merged = McpOfferings::merge(&[worker([of("a"), of("b")].concat(), "1"), worker(of("b").to_vec(), "1")]);
        for (hidden, owner, workers) in [("a", "b", 2), ("b", "a", 1), ("", "a", 1)] {
            let sees = |it: &MergedOffering| it.offering.owner != hidden;
            let found = [
                merged.prompts["p"].first(sees),
                merged.resource("x:1", sees),
                merged.resource("x:5/y", sees),
                merged.templates["x:{id}/y"].first(sees),
            ];
            for item in found.map(Option::unwrap) {
                assert_eq!((item.offering.owner.as_str(), item.workers.len()), (owner, workers));
            }
        }
        let of_b = merged.resource("x:1", |it| it.offering.owner == "b").unwrap();
        assert_eq!(merged.revision(of_b, "x:1"), "", "what changed is another owner's");
    }
}
