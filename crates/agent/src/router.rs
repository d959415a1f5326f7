//! Chooses a skill by rules if there is no model. Does no I/O.
//!
//! The rules are data in `router/rules.json` and are tried in order. A rule is skipped if its skill does not exist
//! or is unavailable, or if the text does not contain the skill's arguments.

use std::sync::LazyLock;

use openskill_proto::v1::{Skill, SkillStatus};
use serde::Deserialize;

use crate::entry::Routing;

mod arguments;
mod words;

use words::Words;

/// The router's choice.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Choice {
    /// The chosen skill and the rule that matched.
    pub routing: Routing,
    /// The arguments of the call as a JSON object. `None` if no skill fits.
    pub arguments: Option<String>,
    /// A text for the user, in addition to the result.
    pub text: String,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Rule {
    skill: String,
    /// A prefix of the text, ignoring case.
    #[serde(default)]
    prefix: String,
    /// Whole words, ignoring case.
    #[serde(default)]
    words: Vec<String>,
    /// Substrings, because Chinese text does not separate words.
    #[serde(default)]
    parts: Vec<String>,
    reason: String,
}

static RULES: LazyLock<Vec<Rule>> = LazyLock::new(|| {
    // Tests parse this embedded file, so it is valid.
    serde_json::from_str(include_str!("router/rules.json")).unwrap_or_default()
});

/// Chooses a skill for a text. If no rule matches, says what the user can do.
pub fn route(text: &str, skills: &[Skill]) -> Choice {
    let text = text.trim();
    let words = Words::new(text);
    let is_callable = |id: &str| skills.iter().any(|it| it.id == id && it.status() != SkillStatus::Unavailable);
    for rule in RULES.iter().filter(|it| is_callable(&it.skill) && it.fits(text, &words)) {
        if let Some(arguments) = arguments::extract(&rule.skill, text, &words) {
            let routing = Routing { skill_id: rule.skill.clone(), reason: rule.reason.clone() };
            return Choice { routing, arguments: Some(arguments), text: String::new() };
        }
    }
    let routing = Routing { skill_id: String::new(), reason: "no rule matches".to_owned() };
    Choice { routing, arguments: None, text: hints(text, is_callable) }
}

impl Rule {
    fn fits(&self, text: &str, words: &Words) -> bool {
        if !self.prefix.is_empty() {
            return text.get(..self.prefix.len()).is_some_and(|it| it.eq_ignore_ascii_case(&self.prefix));
        }
        self.words.iter().any(|it| words.has(it)) || self.parts.iter().any(|it| text.contains(it.as_str()))
    }
}

/// The variables of the models, the default provider first.
const MODELS: &str = "OPENAI_API_KEY and OPENAI_MODEL (or ANTHROPIC_…, GEMINI_…, DASHSCOPE_…; for a local server \
                      OPENAI_API_BASE and OPENAI_MODEL)";
const MODELS_IN_CHINESE: &str = "OPENAI_API_KEY 和 OPENAI_MODEL（或 ANTHROPIC_…、GEMINI_…、DASHSCOPE_…；本地服务器用 \
                                 OPENAI_API_BASE 和 OPENAI_MODEL）";

/// Says how to get a model, and what the user can say without one, in the language of the text.
fn hints(text: &str, is_callable: impl Fn(&str) -> bool) -> String {
    let is_chinese = text.chars().any(|it| ('\u{4e00}'..='\u{9fff}').contains(&it));
    let lines: [(&str, &str, &str); 4] = [
        ("file_search", "find \"invoice\" in *.md", "搜索 \"发票\""),
        ("calculator", "mean and max of 10.5, 9.9, 11.2", "平均 10.5 9.9 11.2"),
        ("log_transform", "parse data/logs/app.log", "转换 data/logs/app.log"),
        ("echo", "echo: hello", "echo: 你好"),
    ];
    let usable = lines.into_iter().filter(|(skill, ..)| is_callable(skill));
    let examples: Vec<_> = usable.map(|(_, english, chinese)| if is_chinese { chinese } else { english }).collect();
    let (joined, in_chinese) = (examples.join("; "), examples.join("；"));
    match (is_chinese, examples.is_empty()) {
        (true, true) => format!("没有配置模型，也没有适用的规则。请设置 {MODELS_IN_CHINESE}，然后重新启动 openskill。"),
        (true, false) => {
            format!("没有配置模型，按规则选择技能。可以这样说：{in_chinese}\n要使用模型，请设置 {MODELS_IN_CHINESE}。")
        }
        (false, true) => format!(
            "No model is configured, and no rule knows your skills. Set {MODELS} and start openskill again. \
             `openskill invoke` calls skills without a model."
        ),
        (false, false) => format!(
            "No model is configured, so rules choose a skill. You can say: {joined}\nTo use a model, set {MODELS}."
        ),
    }
}

#[cfg(test)]
mod tests;
