//! The system prompt for a model.

use openskill_proto::v1;

use super::builtin_tools::BuiltinTool;
use crate::entry::Mode;

/// The agent's introduction, if the operator configures no other instructions.
const INSTRUCTIONS: &str = include_str!("prompt/introduction.txt").trim_ascii_end();

/// The maximum number of disabled tools to name.
const MAX_DISABLED: usize = 30;

/// The maximum length of the reason why a tool is disabled, in characters.
const MAX_REASON: usize = 200;

/// The inputs of the system prompt.
#[derive(Debug, Clone)]
pub struct PromptInputs<'a> {
    /// The operator's instructions. Empty means the built-in instructions.
    pub instructions: &'a str,
    /// Tools that can't be called at the moment.
    pub disabled: &'a [v1::DisabledTool],
    /// Which calls may run without the user's approval.
    pub mode: Mode,
    /// The built-in tools of this step.
    pub builtin_tools: &'a [BuiltinTool],
    /// The limit that the turn has reached, so that no more calls are possible.
    pub limit: Option<&'a str>,
    /// Whether the turn belongs to a sub-agent, which works for another agent or a program.
    pub is_delegated: bool,
    /// Whether the model sees pictures that tools return.
    pub sees_pictures: bool,
}

/// Renders the system prompt.
pub fn system(inputs: &PromptInputs<'_>) -> String {
    let mut parts =
        vec![if inputs.instructions.trim().is_empty() { INSTRUCTIONS } else { inputs.instructions }.to_owned()];
    if inputs.is_delegated {
        parts.push(include_str!("prompt/delegated.txt").trim_ascii_end().to_owned());
    }
    if let Some(limit) = inputs.limit {
        parts.push(format!(
            "This turn reached its limit {limit}. No more tools can be called: answer with what you know, and say what is \
             missing."
        ));
        return parts.join("\n\n");
    }
    parts.push(include_str!("prompt/results.txt").trim_ascii_end().to_owned());
    if inputs.sees_pictures {
        parts.push(include_str!("prompt/pictures.txt").trim_ascii_end().to_owned());
    }
    parts.extend(inputs.builtin_tools.iter().map(|it| it.instruction().to_owned()));
    if inputs.mode == Mode::ReadOnly {
        parts.push("The user does not want anything to be changed: only read-only tools are available.".to_owned());
    }
    if !inputs.disabled.is_empty() {
        parts.push(format!("These tools can't be called at the moment:\n{}", list_disabled(inputs.disabled)));
    }
    parts.join("\n\n")
}

fn list_disabled(tools: &[v1::DisabledTool]) -> String {
    let lines = tools.iter().take(MAX_DISABLED).map(|it| {
        // The reason may come from a remote server.
        let reason: String = it.reason.chars().filter(|c| !c.is_control()).take(MAX_REASON).collect();
        let when = if it.retry_after_ms > 0 {
            format!(" (available again in about {} s)", it.retry_after_ms.div_ceil(1000))
        } else {
            String::new()
        };
        format!("- {}: {reason}{when}", it.skill_id)
    });
    let mut lines: Vec<_> = lines.collect();
    if tools.len() > MAX_DISABLED {
        lines.push(format!("- and {} more", tools.len() - MAX_DISABLED));
    }
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn inputs() -> PromptInputs<'static> {
        PromptInputs {
            instructions: "",
            disabled: &[],
            mode: Mode::Ask,
            builtin_tools: &[BuiltinTool::AskUser, BuiltinTool::ToolSearch],
            limit: None,
            is_delegated: false,
            sees_pictures: false,
        }
    }

    #[test]
    fn it_names_what_is_disabled_and_how_to_use_the_agents_own_tools() {
        let disabled =
            [v1::DisabledTool { skill_id: "web".into(), reason: "its circuit\nis open".into(), retry_after_ms: 1500 }];
        let text = system(&PromptInputs { disabled: &disabled, ..inputs() });
        assert!(text.contains("- web: its circuitis open (available again in about 2 s)"), "{text}");
        assert!(text.contains("ask_user") && text.contains("tool_search") && !text.contains("read_result"));
    }

    #[test]
    fn at_a_limit_it_says_only_that() {
        let text = system(&PromptInputs { limit: Some("max_tool_calls"), instructions: "Be brief.", ..inputs() });
        assert!(text.starts_with("Be brief.") && text.contains("max_tool_calls") && !text.contains("ask_user"));
    }

    #[test]
    fn a_sub_agent_learns_that_nobody_can_be_asked() {
        let builtin_tools = &[BuiltinTool::ReadResult];
        let text = system(&PromptInputs { instructions: "Find it.", is_delegated: true, builtin_tools, ..inputs() });
        assert!(text.starts_with("Find it.") && text.contains("you cannot ask anyone") && !text.contains("ask_user"));
    }
}
