use super::*;
use crate::config::{AnswerLimits, Secret, WireFormat};

const KEY: &str = "sk-very-secret";

fn config(kind: WireFormat, name: &str, base: &str, key: &str, model: &str) -> ProviderConfig {
    ProviderConfig {
        kind,
        name: name.to_owned(),
        base: base.to_owned(),
        key: Secret::new(key),
        model: model.to_owned(),
        limits: AnswerLimits::default(),
    }
}

fn models() -> Models {
    Models::new(vec![
        config(WireFormat::OpenAiChat, "local", "http://localhost:11434", "", "qwen3:8b"),
        config(WireFormat::Anthropic, "anthropic", "", KEY, "claude-sonnet"),
        config(WireFormat::Gemini, "gemini", "", KEY, ""),
    ])
    .unwrap()
}

fn picked(wanted: &str) -> String {
    models().pick(wanted).unwrap().unwrap().name().to_owned()
}

#[test]
fn models_are_picked_by_provider_by_name_or_not_at_all() {
    assert_eq!(picked(""), "local:qwen3:8b");
    assert_eq!(picked("anthropic"), "anthropic:claude-sonnet");
    assert_eq!(picked("anthropic:claude-opus"), "anthropic:claude-opus");
    assert_eq!(picked("llama3"), "local:llama3");
    assert_eq!(picked("llama3:70b"), "local:llama3:70b", "names of models have colons too");
    assert_eq!(picked(" gemini:gemini-3-pro "), "gemini:gemini-3-pro");
}

#[test]
fn what_is_not_configured_names_the_variable_to_set() {
    let missing = |models: &Models, wanted: &str| models.pick(wanted).unwrap_err().to_string();
    assert!(Models::none().pick("").unwrap().is_none(), "the router answers");
    assert!(Models::new(Vec::new()).unwrap().pick("").unwrap().is_none());
    let none = missing(&Models::none(), "gpt-4o");
    for variable in ["OPENAI_API_KEY", "DASHSCOPE_API_KEY", "ANTHROPIC_API_KEY", "GEMINI_API_KEY"] {
        assert!(none.contains(variable), "{none}");
    }
    assert_eq!(missing(&Models::none(), "anthropic"), "no model \"anthropic\" is configured: set ANTHROPIC_API_KEY");
    assert!(missing(&models(), "dashscope:qwen-plus").ends_with("set DASHSCOPE_API_KEY"));
    assert!(missing(&models(), "openai").ends_with("set OPENAI_API_KEY"));
    assert!(missing(&models(), "gemini").ends_with("set GEMINI_MODEL"), "it has no default");
    assert!(missing(&models(), "local:a\nb").ends_with("set OPENAI_MODEL"));
}

#[test]
fn a_provider_that_cannot_work_is_refused_at_once() {
    let refused = |config: ProviderConfig| Models::new(vec![config]).unwrap_err().to_string();
    for (kind, variable) in [
        (WireFormat::OpenAiChat, "OPENAI_API_KEY"),
        (WireFormat::OpenAiResponses, "OPENAI_API_KEY"),
        (WireFormat::DashScope, "DASHSCOPE_API_KEY"),
        (WireFormat::Anthropic, "ANTHROPIC_API_KEY"),
        (WireFormat::Gemini, "GEMINI_API_KEY"),
    ] {
        assert!(refused(config(kind, "x", "", " ", "m")).starts_with(&format!("{variable} is not set")));
    }
    let base = refused(config(WireFormat::OpenAiChat, "x", "https://u:sk-very-secret@h/v1", "k", "m"));
    assert!(base.starts_with("OPENAI_API_BASE contains credentials") && !base.contains(KEY), "{base}");
    assert!(
        refused(config(WireFormat::Gemini, "x", "ftp://h", "k", "m"))
            .starts_with("GEMINI_API_BASE has the scheme 'ftp'")
    );
    let key = refused(config(WireFormat::Anthropic, "x", "", "sk-very-secret\nX: y", "m"));
    assert!(key.starts_with("ANTHROPIC_API_KEY has characters") && !key.contains(KEY), "{key}");
    assert!(
        refused(config(WireFormat::OpenAiChat, "x", "http://h", "", &"m".repeat(257)))
            .starts_with("OPENAI_MODEL is not a valid model name")
    );
    for name in ["", "a:b"] {
        assert!(matches!(
            Models::new(vec![config(WireFormat::OpenAiChat, name, "http://h", "", "m")]),
            Err(ConfigError::Name(_))
        ));
    }
    let twice = || config(WireFormat::OpenAiChat, "x", "http://h", "", "m");
    assert!(matches!(Models::new(vec![twice(), twice()]), Err(ConfigError::Name(_))));
}

#[test]
fn nothing_shows_a_key() {
    let models = models();
    let model = models.pick("anthropic").unwrap().unwrap();
    let shown = format!("{models:?} {model:?} {:#?}", models.pick("gemini:g").unwrap());
    assert!(!shown.contains(KEY) && shown.contains("claude-sonnet"), "{shown}");
}
