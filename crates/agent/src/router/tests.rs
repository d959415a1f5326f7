#![allow(clippy::unwrap_used)]

use openskill_proto::v1::Skill;

use super::{RULES, route};

fn shipped() -> Vec<Skill> {
    let ids = ["calculator", "echo", "file_search", "log_transform"];
    ids.into_iter().map(|id| Skill { id: id.to_owned(), ..Skill::default() }).collect()
}

fn chosen(text: &str) -> (String, String) {
    let choice = route(text, &shipped());
    (choice.routing.skill_id, choice.arguments.unwrap())
}

fn is_routed(text: &str, skill: &str, arguments: &str) {
    assert_eq!(chosen(text), (skill.to_owned(), arguments.to_owned()), "{text}");
}

#[test]
fn the_rules_can_be_read() {
    assert_eq!(RULES.len(), 4);
}

#[test]
fn each_rule_finds_its_skill_and_arguments() {
    is_routed("ECHO: hello 世界", "echo", r#"{"text":"hello 世界"}"#);
    is_routed("find \"late invoice\" in *.md", "file_search", r#"{"query":"late invoice","glob":"**/*.md"}"#);
    is_routed("grep copper in data/prices", "file_search", r#"{"query":"copper","root_dir":"data/prices"}"#);
    is_routed("请搜索 铜价", "file_search", r#"{"query":"铜价"}"#);
    is_routed(
        "mean and max of 10.5, 9.9, -11.20",
        "calculator",
        r#"{"numbers":[10.5,9.9,-11.20],"ops":["mean","max"]}"#,
    );
    is_routed("中位数 3 1 2。", "calculator", r#"{"numbers":[3,1,2],"ops":["median"]}"#);
    is_routed("比较 10 和 12", "calculator", r#"{"numbers":[10,12],"ops":["min","max"],"compare":{"a":10,"b":12}}"#);
    is_routed("parse data/logs/app.log", "log_transform", r#"{"input_path":"data/logs/app.log","format":"text"}"#);
    is_routed(
        "把日志 events.jsonl 转换一下",
        "log_transform",
        r#"{"input_path":"data/logs/events.jsonl","format":"jsonl"}"#,
    );
}

#[test]
fn words_within_words_do_not_count() {
    for text in ["the catalog of mining", "a maximal effort", "researching findings"] {
        assert_eq!(route(text, &shipped()).arguments, None, "{text}");
    }
}

#[test]
fn a_rule_without_its_arguments_or_its_skill_is_passed_over() {
    assert_eq!(route("the mean of life", &shipped()).arguments, None);
    let without: Vec<_> = shipped().into_iter().filter(|it| it.id != "file_search").collect();
    assert_eq!(route("find the mean of 1 and 2", &without).routing.skill_id, "calculator");
}

#[test]
fn what_no_rule_fits_calls_nothing_and_says_how_to_get_a_model() {
    let own = [Skill { id: "shout".to_owned(), ..Skill::default() }];
    for (text, skills, hint) in [
        ("hello", &shipped()[..], "mean and max"),
        ("你好", &shipped()[..], "平均"),
        ("hello", &own[..], "openskill invoke"),
        ("你好", &own[..], "重新启动"),
    ] {
        let choice = route(text, skills);
        assert_eq!((choice.arguments, choice.routing.skill_id.as_str()), (None, ""), "{text}");
        assert!(choice.text.contains(hint) && choice.text.contains("OPENAI_API_KEY"), "{}", choice.text);
    }
}
