//! Decides whether skills that are agents can run in this gateway.

use openskill_agent::delegation::refusal;
use openskill_model::Models;
use openskill_proto::v1::Skill;

/// The models for agents. None if this gateway runs no agents.
#[derive(Debug, Default)]
pub(crate) struct Agents(Option<Models>);

impl Agents {
    pub(crate) fn new(models: Option<Models>) -> Self {
        Self(models)
    }

    /// Removes an agent's instructions from the skill that callers see. Returns the reason if the agent can't run
    /// here.
    pub(super) fn withhold(&self, skill: &mut Skill) -> Option<String> {
        let definition = skill.agent.as_mut()?;
        definition.prompt.clear();
        match &self.0 {
            Some(models) => refusal(models, definition),
            None => Some("it is an agent, and this gateway runs no agents: set OPENSKILL_AGENT=on".to_owned()),
        }
    }
}

#[cfg(test)]
mod tests {
    use openskill_proto::v1::AgentDefinition;

    use super::*;

    fn agent() -> Skill {
        let definition = AgentDefinition { prompt: "Find it.".to_owned(), ..AgentDefinition::default() };
        Skill { agent: Some(definition), ..Skill::default() }
    }

    #[test]
    fn callers_see_no_instructions_and_the_reason_why_an_agent_can_t_run() {
        for (agents, word) in
            [(Agents::default(), "OPENSKILL_AGENT"), (Agents::new(Some(Models::none())), "OPENAI_API_KEY")]
        {
            let mut skill = agent();
            let reason = agents.withhold(&mut skill).unwrap();
            assert!(reason.contains(word), "{reason}");
            assert_eq!(skill.agent.unwrap().prompt, "");
        }
        assert_eq!(Agents::default().withhold(&mut Skill::default()), None, "it is no agent");
    }
}
