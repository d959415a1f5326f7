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
    pub(crate) prompts: BTreeMap<String, Items>,
    /// By URI.
    pub(crate) resources: BTreeMap<String, Items>,
    /// By URI template.
    pub(crate) templates: BTreeMap<String, Items>,
    /// The latest state of resources that have one, by owner and URI.
    revisions: BTreeMap<(String, String), String>,
}

/// What several owners call the same, sorted by owner. A viewer gets the first that it sees: one that is hidden from it hides no
/// other.
#[derive(Debug, Default)]
pub(crate) struct Items(Vec<Arc<Item>>);

impl Items {
    /// The one for a viewer who `sees` some of them.
    pub(crate) fn first(&self, sees: impl Fn(&Item) -> bool) -> Option<&Arc<Item>> {
        self.0.iter().find(|it| sees(it))
    }
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
    /// Merges what workers offer.
    pub(super) fn merge(workers: &[Arc<Worker>]) -> Self {
        let mut shelf = Self::default();
        let mut all: Vec<(Offering, Arc<Worker>)> = Vec::new();
        for worker in workers {
            let Some(state) = worker.serving() else { continue };
            all.extend(state.offerings.iter().map(|it| (it.clone(), Arc::clone(worker))));
            for update in &state.updates {
                // Each worker counts for itself: a change of any of them is one.
                let known = shelf.revisions.entry((update.owner.clone(), update.uri.clone())).or_default();
                known.push_str(&update.revision);
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
        let items = &mut place.entry(name.clone()).or_default().0;
        match items.last_mut() {
            // Sorted by owner, so one owner's are next to each other.
            Some(item) if item.offering.owner == offering.owner => {
                // Nobody else has it yet.
                if let Some(item) = Arc::get_mut(item) {
                    item.workers.push(worker);
                }
            }
            _ => {
                let template = (offering.kind() == OfferingKind::Template).then(|| Template::parse(&offering.key));
                items.push(Arc::new(Item {
                    definition: definition(&offering, &name),
                    template: template.flatten(),
                    workers: vec![worker],
                    offering,
                }));
            }
        }
    }

    /// What a URI names for a viewer who `sees` some of it: a resource, or a template that it fits.
    pub(crate) fn resource(&self, uri: &str, sees: impl Fn(&Item) -> bool) -> Option<&Arc<Item>> {
        let fits = |it: &Item| it.template.as_ref().is_some_and(|it| it.matched(uri).is_some());
        let resource = self.resources.get(uri).and_then(|it| it.first(&sees));
        resource.or_else(|| self.templates.values().find_map(|it| it.first(|it| fits(it) && sees(it))))
    }

    /// The state of an owner's resource. It differs after a change. Empty if nothing is known of changes.
    pub(crate) fn revision(&self, item: &Item, uri: &str) -> &str {
        let key = (item.offering.owner.clone(), uri.to_owned());
        self.revisions.get(&key).map_or("", String::as_str)
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
        let prompt = |shelf: &Shelf, name: &str| Arc::clone(shelf.prompts[name].first(|_| true).unwrap());
        let first = prompt(&shelf, "p");
        assert_eq!((first.offering.owner.as_str(), first.workers.len()), ("a", 2));
        assert_eq!(prompt(&shelf, "s__p").definition, r#"{"name":"s__p"}"#);
        let found = |uri: &str| shelf.resource(uri, |_| true).map(|it| it.offering.key.as_str());
        assert_eq!((found("x:1"), found("x:5/y"), found("x:5")), (Some("x:1"), Some("x:{id}/y"), None));
        let changed = Shelf::merge(&[worker(offerings(), "1"), worker(offerings(), "2")]);
        assert_ne!(shelf.revision(&first, "x:1"), changed.revision(&first, "x:1"));
        assert_eq!(shelf.revision(&first, "x:2"), "");
    }

    #[test]
    fn an_owner_that_is_hidden_hides_no_other_of_the_same_name() {
        use OfferingKind::{Prompt, Resource, Template};
        let of = |owner: &str| {
            [(Prompt, "p"), (Resource, "x:1"), (Template, "x:{id}/y")]
                .map(|(kind, key)| offering(kind, owner, key, false))
        };
        let shelf = Shelf::merge(&[worker([of("a"), of("b")].concat(), "1"), worker(of("b").to_vec(), "1")]);
        for (hidden, owner, workers) in [("a", "b", 2), ("b", "a", 1), ("", "a", 1)] {
            let sees = |it: &Item| it.offering.owner != hidden;
            let found = [
                shelf.prompts["p"].first(sees),
                shelf.resource("x:1", sees),
                shelf.resource("x:5/y", sees),
                shelf.templates["x:{id}/y"].first(sees),
            ];
            for item in found.map(Option::unwrap) {
                assert_eq!((item.offering.owner.as_str(), item.workers.len()), (owner, workers));
            }
        }
        let of_b = shelf.resource("x:1", |it| it.offering.owner == "b").unwrap();
        assert_eq!(shelf.revision(of_b, "x:1"), "", "what changed is another owner's");
    }
}
