//! Text made to be slow is looked at in part, and the rest of it is hidden.

use openskill_redact::Redactor;
use openskill_redact::testing::{Random, planted, typical};

const LONG: usize = 1 << 20;

/// Text that costs far more than usual: no two assignments are alike.
fn dense(length: usize) -> String {
    let mut random = Random::new(3);
    let mut text = String::new();
    while text.len() < length {
        let number = random.below(1 << 20);
        text.push_str(&format!("token{number:x}=(a,--key-{number:x} @"));
    }
    text
}

#[test]
fn what_a_slow_text_hides_behind_is_hidden() {
    let redactor = Redactor::default();
    let text = dense(LONG);
    for planted in planted(1, 200) {
        let shown = redactor.text(&format!("{text}\n{}", planted.text)).into_owned();
        assert!(shown.ends_with("***") && shown.len() < text.len(), "{}", planted.text);
        assert!(!shown.contains(&planted.secret.text), "{}", planted.text);
    }
}

#[test]
fn the_beginning_of_a_slow_text_is_shown() {
    let text = dense(LONG);
    let shown = Redactor::default().text(&text).into_owned();
    assert_eq!(shown[..16 << 10], text[..16 << 10]);
}

#[test]
fn json_that_costs_too_much_stays_json() {
    let members = (0..60_000).map(|it| format!("{{\"session_id\":\"{it}\",\"key\":{it},\"other\":\"note {it}\"}}"));
    let text = format!("[{}]", members.collect::<Vec<_>>().join(","));
    let shown = Redactor::default().json(text.as_bytes()).into_owned();
    let values: Vec<serde_json::Value> = serde_json::from_str(&shown).expect("it is JSON");
    assert_eq!((values.len(), &values[0]["other"]), (60_000, &"note 0".into()));
    assert_eq!(values[59_999], serde_json::json!({"session_id": "***", "key": "***", "other": "***"}));
}

#[test]
fn escapes_that_are_not_read_are_hidden_with_what_follows() {
    // Each layer has escapes, and the deeper ones cost more than a text of this length may.
    let text = format!("{}password%25253Dhunter2secret ", "plain words%252520 ".repeat(LONG / 8));
    let shown = Redactor::default().text(&text).into_owned();
    assert!(!shown.contains("hunter2secret"));
    assert!(
        shown.starts_with("plain words%252520 plain") && shown.len() < text.len(),
        "{} {}",
        shown.len(),
        &shown[..shown.len().min(90)]
    );
}

#[test]
fn usual_text_is_read_to_its_end() {
    let redactor = Redactor::default();
    for (name, text) in typical(4 * LONG) {
        let shown = redactor.text(&text);
        assert!(shown.len() * 100 > text.len() * 99, "{name}: {} of {} bytes are shown", shown.len(), text.len());
    }
}
