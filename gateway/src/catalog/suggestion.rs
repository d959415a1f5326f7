//! Suggests a first call to a user who just started a gateway. Pure.

use super::snapshot::Snapshot;

/// A call that does no harm.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Suggestion {
    /// The id of the skill.
    pub skill_id: String,
    /// Its arguments: an example from its manifest, a JSON object.
    pub input_json: String,
}

/// Suggests an example call of a skill that an agent may call without asking: `echo` if it exists, otherwise the
/// first one by id.
pub(crate) fn suggestion(skills: &Snapshot) -> Option<Suggestion> {
    let callable = skills.values().filter(|entry| !entry.candidates.is_empty()).map(|entry| &entry.skill);
    let harmless = callable.filter(|skill| skill.idempotent && !skill.needs_approval());
    let with_example = harmless.filter_map(|skill| Some((skill, skill.example_inputs_json.first()?)));
    let (skill, input_json) = with_example.min_by_key(|(skill, _)| (skill.id != "echo", &skill.id))?;
    Some(Suggestion { skill_id: skill.id.clone(), input_json: input_json.clone() })
}
