//! What MCP clients find beside skills: the prompts and resources of all workers, merged.

use std::collections::BTreeMap;
use std::sync::Arc;

use openskill_proto::uri_template::Template;
use openskill_proto::v1::{Offering, OfferingKind, Skill};

use crate::call::principal::Principal;
use crate::catalog::snapshot::Snapshot;
use crate::workers::worker::Worker;

/// Everything at one moment. Immutable.
#[derive(Debug, Default)]
pub(crate) struct Shelf {
    /// By the names that clients use.
    pub(crate) prompts: BTreeMap<String, Arc<Item>>,
    /// By URI.
    pub(crate) resources: BTreeMap<String, Arc<Item>>,
    /// By URI template.
    pub(crate) templates: BTreeMap<String, Arc<Item>>,
    /// The latest state of resources that have one, by URI.
    revisions: BTreeMap<String, String>,
}

/// A prompt, a resource or a template.
#[derive(Debug)]
pub(crate) struct Item {
    pub(crate) offering: Offering,
    /// As clients get it: a JSON object.
    pub(crate) definition: String,
    /// Those that have it.
    pub(crate) workers: Vec<Arc<Worker>>,
    template: Option<Template>,
}

impl Item {
    /// The skills that it belongs to: its owner, or the tools of the server.
    pub(crate) fn skills<'s>(&self, skills: &'s Snapshot) -> impl Iterator<Item = &'s Skill> + use<'s> {
        let Offering { owner, of_server, .. } = &self.offering;
        // The tools of a server are next to each other.
        let prefix = if *of_server { format!("{owner}__") } else { owner.clone() };
        let (first, of_server) = (prefix.clone(), *of_server);
        let is_its = move |id: &str| if of_server { id.starts_with(&prefix) } else { id == prefix };
        skills.range(first..).take_while(move |(id, _)| is_its(id)).map(|(_, it)| &it.skill)
    }

    /// Whether it exists for a principal: one of its owner's skills does.
    pub(crate) fn exists_for(&self, principal: &Principal, skills: &Snapshot) -> bool {
        let Offering { owner, toolset, of_server, .. } = &self.offering;
        principal.sees_all()
            || *of_server && principal.allows(owner, toolset, false)
            || self.skills(skills).any(|it| principal.may_call(it))
    }
}

impl Shelf {
    /// Merges what workers offer. Where two owners have the same name or URI, the first one's counts.
    pub(super) fn merge(workers: &[Arc<Worker>]) -> Self {
        let mut shelf = Self::default();
        let mut all: Vec<(Offering, Arc<Worker>)> = Vec::new();
        for worker in workers {
            let Some(state) = worker.serving() else { continue };
            all.extend(state.offerings.iter().map(|it| (it.clone(), Arc::clone(worker))));
            let revisions = state.updates.iter().map(|it| (it.uri.clone(), it.revision.clone()));
            for (uri, revision) in revisions {
                // Each worker counts for itself: a change of any of them is one.
                let known = shelf.revisions.entry(uri).or_default();
                known.push_str(&revision);
                known.push(' ');
            }
        }
        all.sort_by(|(one, _), (other, _)| one.owner.cmp(&other.owner));
        for (offering, worker) in all {
            shelf.add(offering, worker);
        }
        shelf
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
        match place.get_mut(&name) {
            Some(item) if item.offering.owner == offering.owner => {
                // Nobody else has it yet.
                if let Some(item) = Arc::get_mut(item) {
                    item.workers.push(worker);
                }
            }
            Some(_) => {}
            None => {
                let template = (offering.kind() == OfferingKind::Template).then(|| Template::parse(&offering.key));
                let item = Item {
                    definition: definition(&offering, &name),
                    template: template.flatten(),
                    workers: vec![worker],
                    offering,
                };
                place.insert(name, Arc::new(item));
            }
        }
    }

    /// What a URI names for a viewer who `sees` some of it: a resource, or a template that it fits.
    pub(crate) fn resource(&self, uri: &str, sees: impl Fn(&Item) -> bool) -> Option<&Arc<Item>> {
        let fits = |it: &Item| it.template.as_ref().is_some_and(|it| it.matched(uri).is_some());
        let resource = self.resources.get(uri).filter(|it| sees(it));
        resource.or_else(|| self.templates.values().find(|it| fits(it) && sees(it)))
    }

    /// The state of a resource. It differs after a change. None if nothing is known of changes.
    pub(crate) fn revision(&self, uri: &str) -> Option<&str> {
        self.revisions.get(uri).map(String::as_str)
    }
}

/// A definition with the name that clients use.
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
        let shelf = Shelf::merge(&[worker(offerings(), "1"), worker(offerings(), "1")]);
        assert_eq!(shelf.prompts.keys().collect::<Vec<_>>(), ["p", "s__p"]);
        assert_eq!((shelf.prompts["p"].offering.owner.as_str(), shelf.prompts["p"].workers.len()), ("a", 2));
        assert_eq!(shelf.prompts["s__p"].definition, r#"{"name":"s__p"}"#);
        let found = |uri: &str| shelf.resource(uri, |_| true).map(|it| it.offering.key.as_str());
        assert_eq!((found("x:1"), found("x:5/y"), found("x:5")), (Some("x:1"), Some("x:{id}/y"), None));
        let changed = Shelf::merge(&[worker(offerings(), "1"), worker(offerings(), "2")]);
        assert_ne!(shelf.revision("x:1"), changed.revision("x:1"));
        assert_eq!(shelf.revision("x:2"), None);
    }
}
