use std::path::Path;

use serde_json::json;

use super::super::{Manifest, ManifestError, Rules, RunnerSpec};

const AGENT: &str = "id: researcher\ntype: agent\nagent:\n  prompt: Find it.\n  tools: [file_search, echo]\n";

fn parse(text: &str) -> Result<Manifest, ManifestError> {
    let rules = Rules { allowed_root: Path::new("/"), toolset: None };
    Manifest::parse(Path::new("/skills/researcher.yaml"), text, rules)
}

#[test]
fn an_agent_takes_a_task_and_gives_an_answer_unless_it_declares_parameters() {
    let manifest = parse(AGENT).unwrap();
    let RunnerSpec::Agent(agent) = &manifest.how else { panic!("{manifest:?}") };
    assert_eq!((manifest.runner.as_str(), agent.prompt.as_str(), agent.tools.len()), ("agent", "Find it.", 2));
    assert_eq!(manifest.input_schema.unwrap()["required"], json!(["task"]));
    assert_eq!(manifest.output_schema.unwrap()["required"], json!(["answer"]));
    assert_eq!(manifest.timeout_ms, Some(120_000));
    let own = parse(&format!("{AGENT}timeout_ms: 5000\nparameters: {{topic: {{type: string, required: true}}}}\n"));
    let own = own.unwrap();
    assert_eq!((own.input_schema.unwrap()["required"].clone(), own.timeout_ms), (json!(["topic"]), Some(5000)));
}

#[test]
fn limits_reach_the_gateway() {
    let more = "  model: openai:small\n  acts_on_untrusted: true\n  limits: {max_tool_calls: 7, max_tokens: 1000}\n";
    let text = format!("{AGENT}{more}");
    let RunnerSpec::Agent(definition) = parse(&text).unwrap().how else { panic!("{text}") };
    let limits = definition.limits.unwrap();
    assert_eq!((limits.max_tool_calls, limits.max_tokens, limits.max_iterations), (7, 1000, 0));
    assert!(definition.acts_on_untrusted);
    assert_eq!((definition.model.as_str(), definition.prompt.as_str()), ("openai:small", "Find it."));
}

#[test]
fn what_an_agent_can_t_have_is_refused_with_the_reason() {
    for (text, word) in [
        (AGENT.replace("Find it.", "''"), "prompt"),
        (AGENT.replace("echo", "researcher"), "can't call itself"),
        (AGENT.replace("echo", "file_search"), "given twice"),
        (AGENT.replace("echo", "Not An Id"), "not a valid skill id"),
        (format!("{AGENT}  limits: {{max_tool_calls: 51}}\n"), "1 to 50"),
        (format!("{AGENT}  limits: {{max_tokens: 0}}\n"), "at least 1"),
        (format!("{AGENT}  colour: red\n"), "colour"),
        (format!("{AGENT}entry: echo.py\n"), "agent.prompt"),
        (format!("{AGENT}limits: {{memory_mb: 5}}\n"), "agent.limits"),
        (format!("{AGENT}env: [HOME]\n"), "processes"),
        (format!("{AGENT}output_schema: {{type: string}}\n"), "always"),
        (format!("{AGENT}parameters: {{key: {{type: string, secret: true}}}}\n"), "secret"),
        (AGENT.replace("type: agent", "type: inproc\nentry: echo"), "applies only to agent skills"),
    ] {
        let error = parse(&text).unwrap_err();
        assert!(error.reason.contains(word), "{text}\n{error}");
    }
}
