//! The catalog at one moment, and the difference between two.

use std::collections::BTreeMap;
use std::sync::Arc;

use openskill_proto::v1::{CatalogChange, ChangeKind, Skill};

use super::entry::Entry;

/// Skills by id. Immutable.
pub(crate) type Snapshot = BTreeMap<String, Arc<Entry>>;

/// Counts the skills that can be called. Every displayed number of skills comes from here.
pub(crate) fn callable(skills: &Snapshot) -> usize {
    skills.values().filter(|entry| !entry.candidates.is_empty()).count()
}

/// Returns the changes from `before` to `after`: first removals, then the others by id.
pub(crate) fn difference(before: &Snapshot, after: &Snapshot) -> Vec<CatalogChange> {
    let change = |kind: ChangeKind, skill: &Skill| CatalogChange {
        kind: kind.into(),
        skill: Some(skill.clone()),
        ..CatalogChange::default()
    };
    let gone = before.values().filter(|entry| !after.contains_key(&entry.skill.id));
    let mut changes: Vec<_> = gone.map(|entry| change(ChangeKind::Removed, &entry.skill)).collect();
    for (id, entry) in after {
        match before.get(id) {
            None => changes.push(change(ChangeKind::Added, &entry.skill)),
            Some(old) if old.skill != entry.skill => changes.push(change(ChangeKind::Updated, &entry.skill)),
            Some(_) => {}
        }
    }
    changes
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arguments::{Definition, Rules};

    fn skill(id: &str, version: &str) -> Skill {
        Skill { id: id.to_owned(), version: version.to_owned(), ..Skill::default() }
    }

    fn snapshot(skills: &[Skill]) -> Snapshot {
        let definition = Arc::new(Definition::without_schema(Rules::default()));
        let series = openskill_telemetry::metrics::SkillMetrics::new(1).get("a", "http");
        let entry = |skill: &Skill| {
            Arc::new(Entry::new(skill.clone(), Arc::clone(&definition), Vec::new(), Arc::clone(&series)))
        };
        skills.iter().map(|skill| (skill.id.clone(), entry(skill))).collect()
    }

    #[test]
    fn a_difference_lists_added_updated_and_removed_skills() {
        let before = snapshot(&[skill("a", "1"), skill("b", "1"), skill("c", "1")]);
        let after = snapshot(&[skill("b", "1"), skill("c", "2"), skill("d", "1")]);
        let changes: Vec<_> =
            difference(&before, &after).into_iter().map(|it| (it.kind(), it.skill.unwrap().id)).collect();
        assert_eq!(
            changes,
            [
                (ChangeKind::Removed, "a".to_owned()),
                (ChangeKind::Updated, "c".to_owned()),
                (ChangeKind::Added, "d".to_owned())
            ]
        );
        assert!(difference(&after, &after).is_empty());
    }
}
