//! Secrets that a generator plants do not survive, and innocent text does.

use openskill_redact::Redactor;
use openskill_redact::testing::{Random, SHAPES, innocent, planted};

fn redacted(redactor: &Redactor, text: &str, is_json: bool) -> String {
    if is_json { redactor.json(text.as_bytes()).into_owned() } else { redactor.text(text).into_owned() }
}

#[test]
fn no_planted_secret_survives() {
    let redactor = Redactor::default();
    let survivors: Vec<_> = planted(1, 3_000)
        .iter()
        .filter_map(|planted| {
            let out = redacted(&redactor, &planted.text, planted.is_json);
            let part = planted.survivor(&out)?;
            Some(format!("{} in {}: {part:?}\n  {}\n  {out}\n", planted.secret.shape, planted.place, planted.text))
        })
        .collect();
    assert!(
        survivors.is_empty(),
        "{} survive\n{}",
        survivors.len(),
        survivors.iter().take(40).cloned().collect::<String>()
    );
}

#[test]
fn no_planted_secret_survives_in_a_long_text() {
    let redactor = Redactor::default();
    let mut random = Random::new(6);
    let mut filler = || {
        let mut text = String::new();
        while text.len() < 2_000 {
            text.push_str(&innocent(&mut random));
            text.push('\n');
        }
        text
    };
    let mut survivors = Vec::new();
    for planted in planted(7, 1_000) {
        let text = [filler(), planted.text.clone(), "\n".to_owned(), filler()].concat();
        let out = redactor.text(&text);
        if let Some(part) = planted.survivor(&out) {
            survivors.push(format!("{} in {}: {part:?}\n  {}\n", planted.secret.shape, planted.place, planted.text));
        }
    }
    assert!(survivors.is_empty(), "{} survive\n{}", survivors.len(), survivors.concat());
}

#[test]
fn no_planted_secret_survives_chunks() {
    let redactor = Redactor::default();
    let mut random = Random::new(2);
    let mut survivors = Vec::new();
    for planted in planted(3, 1_000) {
        let mut stream = redactor.stream();
        let (mut out, mut rest) = (String::new(), planted.text.as_str());
        while !rest.is_empty() {
            let cut = rest.ceil_char_boundary(1 + random.below(40));
            out += &stream.push(&rest[..cut]);
            rest = &rest[cut..];
        }
        out += &stream.finish();
        if let Some(part) = planted.survivor(&out) {
            survivors.push(format!(
                "{} in {}: {part:?}\n  {}\n  {out}\n",
                planted.secret.shape, planted.place, planted.text
            ));
        }
    }
    assert!(
        survivors.is_empty(),
        "{} survive\n{}",
        survivors.len(),
        survivors.iter().take(20).cloned().collect::<String>()
    );
}

#[test]
fn json_with_a_secret_stays_json() {
    let redactor = Redactor::default();
    for planted in planted(4, 2_000).iter().filter(|planted| planted.is_json) {
        let out = redactor.json(planted.text.as_bytes());
        assert!(serde_json::from_str::<serde_json::Value>(&out).is_ok(), "{}\n{out}", planted.text);
    }
}

#[test]
fn there_are_many_shapes() {
    let known = SHAPES.iter().filter(|(_, _, is_known_by_look)| *is_known_by_look).count();
    assert!(SHAPES.len() >= 60 && known >= 60, "{known} of {}", SHAPES.len());
}

#[test]
fn innocent_text_is_left_alone() {
    let redactor = Redactor::default();
    let mut random = Random::new(5);
    let texts: Vec<_> = (0..5_000).map(|_| innocent(&mut random)).collect();
    let touched: Vec<_> = texts.iter().filter(|text| redactor.text(text) != **text).collect();
    let shown: String = touched.iter().take(20).map(|text| format!("{text}\n  -> {}\n", redactor.text(text))).collect();
    assert!(touched.len() * 100 < texts.len(), "{} of {} are touched\n{shown}", touched.len(), texts.len());
    assert!(touched.is_empty(), "{} of {} are touched\n{shown}", touched.len(), texts.len());
}
