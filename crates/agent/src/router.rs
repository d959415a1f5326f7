//! Chooses a skill by rules, where there is no model. Pure.
//!
//! The rules are data, in `router/rules.json`, and are tried in order. A rule whose skill does not exist, is unavailable, or
//! whose arguments are not in the text, is passed over.

use std::sync::LazyLock;

use openskill_proto::v1::{Skill, SkillStatus};
use serde::Deserialize;

use crate::entry::Routing;

mod arguments;
mod words;

use words::Words;

/// What the router chose.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Choice {
    /// The skill and the rule.
    pub routing: Routing,
    /// The call. None if no skill fits.
    pub call: Option<RoutedCall>,
    /// What to tell the user beside the result.
    pub text: String,
}

/// A call of a skill.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RoutedCall {
    /// The skill.
    pub skill_id: String,
    /// Its arguments, a JSON object as text.
    pub arguments: String,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Rule {
    skill: String,
    /// What the text begins with, in any case.
    #[serde(default)]
    prefix: String,
    /// Whole words, in any case.
    #[serde(default)]
    words: Vec<String>,
    /// Parts of the text: Chinese does not separate words.
    #[serde(default)]
    parts: Vec<String>,
    reason: String,
}

static RULES: LazyLock<Vec<Rule>> = LazyLock::new(|| {
    // The tests read the file: it can't be wrong here.
    serde_json::from_str(include_str!("router/rules.json")).unwrap_or_default()
});

/// The skill for a text. Without one that fits, the text comes back through `echo`, with hints.
pub fn route(text: &str, skills: &[Skill]) -> Choice {
    let text = text.trim();
    let words = Words::of(text);
    let is_callable = |id: &str| skills.iter().any(|it| it.id == id && it.status() != SkillStatus::Unavailable);
    for rule in RULES.iter().filter(|it| is_callable(&it.skill) && it.fits(text, &words)) {
        if let Some(arguments) = arguments::of(&rule.skill, text, &words) {
            return chosen(&rule.skill, &rule.reason, arguments, String::new());
        }
    }
    let text_for_user = hints(text, is_callable);
    if is_callable("echo") {
        return chosen("echo", "no other rule fits", arguments::echo(text), text_for_user);
    }
    let routing = Routing { skill_id: String::new(), reason: "no rule fits".to_owned() };
    Choice { routing, call: None, text: text_for_user }
}

impl Rule {
    fn fits(&self, text: &str, words: &Words<'_>) -> bool {
        if !self.prefix.is_empty() {
            return text.get(..self.prefix.len()).is_some_and(|it| it.eq_ignore_ascii_case(&self.prefix));
        }
        self.words.iter().any(|it| words.has(it)) || self.parts.iter().any(|it| text.contains(it.as_str()))
    }
}

fn chosen(skill_id: &str, reason: &str, arguments: String, text: String) -> Choice {
    Choice {
        routing: Routing { skill_id: skill_id.to_owned(), reason: reason.to_owned() },
        call: Some(RoutedCall { skill_id: skill_id.to_owned(), arguments }),
        text,
    }
}

/// What can be said, in the language of the text.
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
    match (is_chinese, examples.is_empty()) {
        (true, true) => "没有配置模型，也没有可用的技能。".to_owned(),
        (true, false) => format!("没有配置模型，按规则选择技能。可以这样说：{}", examples.join("；")),
        (false, true) => "No model is configured, and no skill can be called.".to_owned(),
        (false, false) => {
            format!("No model is configured, so rules choose a skill. You can say: {}", examples.join("; "))
        }
    }
}

#[cfg(test)]
mod tests;
