//! Skills that are agents: whether they can run in this gateway.

use openskill_agent::delegation::refusal;
use openskill_agent::provider::Models;
use openskill_proto::v1::Skill;

/// What agents run with here. None: this gateway runs none.
#[derive(Debug, Default)]
pub(crate) struct Agents(Option<Models>);

impl Agents {
    pub(crate) fn new(models: Option<Models>) -> Self {
        Self(models)
    }

    /// Takes an agent's instructions out of what callers see, and says why it can't run here, if it can't.
    pub(super) fn withhold(&self, skill: &mut Skill) -> Option<String> {
        let definition = skill.agent.as_mut()?;
        definition.prompt.clear();
        match &self.0 {
            Some(models) => refusal(models, definition),
            None => Some("it is an agent, and this gateway runs none: set OPENSKILL_AGENT=on".to_owned()),
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
