//! The ledger finds each kind of disagreement, and nothing else.

use super::*;

fn tried(call_id: &str, skill: &'static str, ends: &[End]) -> Attempt {
    let now = Instant::now();
    let call = call_id.split('.').next().unwrap().to_owned();
    Attempt { call_id: call_id.to_owned(), call, skill, ends: ends.to_vec(), accepted: false, begun: now, ended: now }
}

fn line(call_id: &str, code: &str) -> Line {
    Line { call_id: call_id.to_owned(), success: code.is_empty(), code: code.to_owned(), ..Line::default() }
}

fn ledger(attempts: &[Attempt], lines: &[Line], effects: &[&str]) -> Ledger {
    let effects = effects.iter().map(|id| (*id).to_owned()).collect();
    Ledger { attempts: attempts.to_vec(), lines: lines.to_vec(), effects, killed: Vec::new() }
}

/// The disagreements about one attempt.
fn kinds(skill: &'static str, ends: &[End], lines: &[Line], effects: &[&str]) -> Vec<Kind> {
    let ledger = ledger(&[tried("a.1", skill, ends)], lines, effects);
    ledger.disagreements().into_iter().map(|it| it.kind).collect()
}

fn failed(code: &str) -> End {
    End::Failed(code.to_owned())
}

fn refused() -> End {
    End::Refused("OVERLOADED".to_owned())
}

fn broken() -> End {
    End::Broken("reset".to_owned())
}

fn not_sent() -> End {
    End::NotSent("refused".to_owned())
}

#[test]
fn consistent_witnesses_yield_no_finding() {
    let (ok, lost) = (line("a.1", ""), line("a.1", "UNAVAILABLE"));
    let nothing: [Kind; 0] = [];
    assert_eq!(kinds(skills::EFFECT, &[End::Ok], std::slice::from_ref(&ok), &["a.1"]), nothing);
    assert_eq!(kinds(skills::WAIT, &[End::Ok], std::slice::from_ref(&ok), &[]), nothing);
    assert_eq!(kinds(skills::EFFECT, &[failed("UNAVAILABLE")], std::slice::from_ref(&lost), &["a.1"]), nothing);
    assert_eq!(kinds(skills::EFFECT, &[failed("UNAVAILABLE")], &[lost], &[]), nothing);
    assert_eq!(kinds(skills::EFFECT, &[refused()], &[line("a.1", "OVERLOADED")], &[]), nothing);
    assert_eq!(kinds(skills::EFFECT, &[End::Refused("UNAVAILABLE".to_owned())], &[], &[]), nothing);
    assert_eq!(kinds(skills::EFFECT, &[not_sent()], &[], &[]), nothing);
    assert_eq!(kinds(skills::EFFECT, &[broken()], &[ok], &["a.1"]), nothing);
    assert_eq!(kinds(skills::EFFECT, &[broken()], &[], &[]), nothing);
    assert_eq!(kinds(skills::EFFECT, &[End::Dropped], &[line("a.1", "CANCELLED")], &["a.1"]), nothing);
    assert_eq!(kinds(skills::EFFECT_AGAIN, &[End::Ok], &[line("a.1", "")], &["a.1", "a.1", "a.1"]), nothing);
}

#[test]
fn the_client_sees_exactly_one_end() {
    assert_eq!(kinds(skills::WAIT, &[], &[line("a.1", "")], &[]), [Kind::NoEnd]);
    assert_eq!(kinds(skills::WAIT, &[End::Ok, End::Ok], &[line("a.1", "")], &[]), [Kind::TwoEnds]);
}

#[test]
fn the_gateway_logs_each_attempt_once_with_its_outcome() {
    let ok = line("a.1", "");
    assert_eq!(kinds(skills::WAIT, &[End::Ok], &[], &[]), [Kind::NoLine]);
    assert_eq!(kinds(skills::WAIT, &[refused()], &[], &[]), [Kind::NoLine]);
    assert_eq!(kinds(skills::WAIT, &[End::Ok], &[ok.clone(), ok.clone()], &[]), [Kind::TwoLines]);
    assert_eq!(kinds(skills::WAIT, &[End::Ok], &[ok.clone(), line("b.1", "")], &[]), [Kind::UnknownLine]);
    assert_eq!(kinds(skills::WAIT, &[End::Ok], &[line("a.1", "TIMEOUT")], &[]), [Kind::OtherEnd]);
    assert_eq!(kinds(skills::WAIT, &[failed("TIMEOUT")], std::slice::from_ref(&ok), &[]), [Kind::OtherEnd]);
    assert_eq!(kinds(skills::WAIT, &[failed("TIMEOUT")], &[line("a.1", "INTERNAL")], &[]), [Kind::OtherEnd]);
    assert_eq!(kinds(skills::WAIT, &[not_sent()], &[ok], &[]), [Kind::NotSentButRun]);
}

#[test]
fn effects_match_outcomes() {
    let ok = [line("a.1", "")];
    assert_eq!(kinds(skills::EFFECT, &[End::Ok], &ok, &[]), [Kind::NoEffect]);
    assert_eq!(kinds(skills::EFFECT_AGAIN, &[End::Ok], &ok, &[]), [Kind::NoEffect]);
    assert_eq!(kinds(skills::EFFECT, &[End::Ok], &ok, &["a.1", "b.1"]), [Kind::UnknownEffect]);
    for code in ["OVERLOADED", "CIRCUIT_OPEN", "INVALID_ARGUMENT"] {
        assert_eq!(kinds(skills::EFFECT, &[failed(code)], &[line("a.1", code)], &["a.1"]), [Kind::EffectOfRefused]);
    }
    assert_eq!(kinds(skills::EFFECT, &[broken()], &[], &["a.1"]), [Kind::EffectWithoutLine]);
    let mut excused = ledger(&[tried("a.1", skills::EFFECT, &[broken()])], &[], &["a.1"]);
    excused.killed.push(excused.attempts[0].begun);
    assert_eq!(excused.disagreements(), []);
}

#[test]
fn no_call_runs_more_often_than_allowed() {
    let (ok, twice) = ([line("a.1", "")], ["a.1", "a.1"]);
    assert_eq!(kinds(skills::EFFECT, &[End::Ok], &ok, &twice), [Kind::EffectTwice]);
    assert_eq!(kinds(skills::EFFECT_AGAIN, &[End::Ok], &ok, &[&twice[..], &twice[..]].concat()), [Kind::EffectTwice]);
    let attempts = [tried("a.1", skills::EFFECT, &[broken()]), tried("a.2", skills::EFFECT, &[End::Ok])];
    let lines = [line("a.1", "CANCELLED"), line("a.2", "")];
    let doubled = Disagreement { kind: Kind::CallTwice, call_id: "a".to_owned() };
    assert_eq!(ledger(&attempts, &lines, &["a.1", "a.2"]).disagreements(), [doubled]);
}
