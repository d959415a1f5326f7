//! Prepares the arguments of recorded model calls and counts the outcomes.
//!
//! ```text
//! cargo run --release -p openskill-gateway --example evaluate_arguments -- FOLDER [--list]
//! ```
//!
//! `FOLDER` contains `real_calls_invalid.jsonl` and `real_calls_valid.jsonl`: one call per line, `{"name", "arguments" (text as
//! the model wrote it), "tools" (name to JSON Schema), "gold" (name to parameter to allowed values), "classes", "model"}`.
//! Exits with 1 if a valid call was refused or changed, or a repair broke a correct field. Defaults that are appended are not a
//! change.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a command line tool")]

use std::collections::BTreeMap;
use std::path::Path;
use std::process::ExitCode;

use openskill_gateway::arguments::{Definition, Policy, Prepared, Rejected, Rules};
use serde::Deserialize;
use serde_json::{Map, Value};

#[derive(Deserialize)]
struct Call {
    model: String,
    name: String,
    arguments: String,
    tools: BTreeMap<String, Value>,
    gold: Map<String, Value>,
    classes: Vec<String>,
}

/// The outcomes of the calls of one class.
#[derive(Default)]
struct Count {
    calls: usize,
    repaired: usize,
    gold_correct: usize,
    feedback: usize,
    feedback_with_example: usize,
    unchanged: usize,
    broken: usize,
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let list = arguments.iter().any(|it| it == "--list");
    let Some(folder) = arguments.iter().find(|it| !it.starts_with("--")) else {
        eprintln!("usage: evaluate_arguments FOLDER [--list]");
        return ExitCode::from(2);
    };
    let read = |name: &str| read_calls(&Path::new(folder).join(name));
    let (invalid, valid) = match (read("real_calls_invalid.jsonl"), read("real_calls_valid.jsonl")) {
        (Ok(invalid), Ok(valid)) => (invalid, valid),
        (Err(error), _) | (_, Err(error)) => {
            eprintln!("{error}");
            return ExitCode::from(2);
        }
    };
    let changed = valid.iter().filter(|call| !passes_unchanged(call)).count();
    let filled = valid.iter().filter_map(|call| Some(defaults(call)?.len())).filter(|it| *it > 0).collect::<Vec<_>>();
    let mut counts: BTreeMap<String, Count> = BTreeMap::new();
    for call in &invalid {
        tally(call, counts.entry(call.classes.join("+")).or_default(), list);
    }
    let broken = report(&counts);
    println!();
    println!("valid calls: {}, changed: {changed} (must be 0)", valid.len());
    println!("valid calls that got defaults: {}, of {} parameters", filled.len(), filled.iter().sum::<usize>());
    println!("repaired calls with a correct field made wrong: {broken} (must be 0)");
    if changed + broken == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn read_calls(file: &Path) -> Result<Vec<Call>, String> {
    let text = std::fs::read_to_string(file).map_err(|error| format!("{}: {error}", file.display()))?;
    let calls = text.lines().filter(|line| !line.trim().is_empty()).map(serde_json::from_str);
    calls.collect::<Result<_, _>>().map_err(|error| format!("{}: {error}", file.display()))
}

fn define(call: &Call) -> Option<Definition> {
    let schema = call.tools.get(&call.name)?;
    Definition::compile(&schema.to_string(), Rules::default(), &[]).ok()
}

fn passes_unchanged(call: &Call) -> bool {
    let Some(definition) = define(call) else { return false };
    let Ok(prepared) = definition.prepare(&call.arguments, Policy::Repair) else { return false };
    let sent: Value = serde_json::from_str(&call.arguments).unwrap_or_default();
    prepared.repairs.is_empty()
        && without_defaults(&prepared) == sent
        && is_subsequence(&call.arguments, &prepared.text)
        && (!prepared.defaults.is_empty() || prepared.text == call.arguments)
}

/// The parameters of a call that got their defaults.
fn defaults(call: &Call) -> Option<Vec<String>> {
    Some(define(call)?.prepare(&call.arguments, Policy::Repair).ok()?.defaults)
}

/// The arguments without the defaults that were appended.
fn without_defaults(prepared: &Prepared<'_>) -> Value {
    let mut value: Value = serde_json::from_str(&prepared.text).unwrap_or_default();
    for (outer, name) in prepared.defaults.iter().filter_map(|path| path.rsplit_once('/')) {
        let name = name.replace("~1", "/").replace("~0", "~");
        value.pointer_mut(outer).and_then(Value::as_object_mut).and_then(|it| it.remove(&name));
    }
    value
}

/// Whether all characters of `part` are in `whole`, in this order.
fn is_subsequence(part: &str, whole: &str) -> bool {
    let mut rest = whole.chars();
    part.chars().all(|it| rest.any(|other| other == it))
}

fn tally(call: &Call, count: &mut Count, list: bool) {
    count.calls += 1;
    let Some(definition) = define(call) else {
        // The gateway answers NOT_FOUND and suggests a similar skill.
        count.feedback += 1;
        return;
    };
    match definition.prepare(&call.arguments, Policy::Repair) {
        Ok(prepared) if prepared.repairs.is_empty() => count.unchanged += 1,
        Ok(prepared) => {
            count.repaired += 1;
            let after = without_defaults(&prepared);
            let correct = entries(call).iter().any(|gold| is_correct(gold, &after));
            let before: Value = serde_json::from_str(&call.arguments).unwrap_or_default();
            let broken = breaks(call, &before, &after);
            count.gold_correct += usize::from(correct);
            count.broken += usize::from(broken);
            if list && !correct {
                let kinds: Vec<_> = prepared.repairs.iter().map(|it| it.kind.name()).collect();
                println!(
                    "not the expected call: {} {} -> {} ({})",
                    call.model,
                    call.arguments,
                    prepared.text,
                    kinds.join(", ")
                );
            }
        }
        Err(rejected) => {
            count.feedback += 1;
            let (message, example) = match &rejected {
                Rejected::Unreadable(reason) => (reason.clone(), reason.contains("Example: ")),
                Rejected::Unfit(feedback) => (feedback.message(), feedback.example.is_some()),
            };
            count.feedback_with_example += usize::from(example);
            if list {
                println!("feedback: {} {}\n    {message}", call.model, call.arguments.replace('\n', " "));
            }
        }
    }
}

fn report(counts: &BTreeMap<String, Count>) -> usize {
    let head = ["class", "calls", "repaired", "gold-correct", "feedback", "with example", "unchanged"];
    println!(
        "{:<32}{:>7}{:>10}{:>14}{:>10}{:>14}{:>12}",
        head[0], head[1], head[2], head[3], head[4], head[5], head[6]
    );
    let mut all = Count::default();
    for (class, it) in counts {
        line(class, it);
        all.calls += it.calls;
        all.repaired += it.repaired;
        all.gold_correct += it.gold_correct;
        all.feedback += it.feedback;
        all.feedback_with_example += it.feedback_with_example;
        all.unchanged += it.unchanged;
        all.broken += it.broken;
    }
    line("all", &all);
    all.broken
}

fn line(class: &str, it: &Count) {
    println!(
        "{class:<32}{:>7}{:>10}{:>14}{:>10}{:>14}{:>12}",
        it.calls, it.repaired, it.gold_correct, it.feedback, it.feedback_with_example, it.unchanged
    );
}

/// The gold calls of this skill. Several calls of one skill are numbered: `name_1`, `name 2`.
fn entries(call: &Call) -> Vec<&Map<String, Value>> {
    let plain = |name: &str| name.replace('.', "_");
    let unnumbered =
        |name: &str| name.trim_end_matches(|it: char| it.is_ascii_digit()).trim_end_matches(['_', ' ']).to_owned();
    let fits = |name: &str| plain(name) == call.name || unnumbered(&plain(name)) == call.name;
    call.gold.iter().filter(|(name, _)| fits(name)).filter_map(|(_, gold)| gold.as_object()).collect()
}

/// Whether a call is one that the gold data accepts: every parameter has one of its allowed values. `""` among them means
/// that the parameter may be omitted.
fn is_correct(gold: &Map<String, Value>, call: &Value) -> bool {
    let Some(call) = call.as_object() else { return false };
    let known = call.keys().all(|key| gold.contains_key(key));
    known && gold.iter().all(|(name, allowed)| field_fits(allowed, call.get(name)))
}

fn field_fits(allowed: &Value, value: Option<&Value>) -> bool {
    let allowed = allowed.as_array().map_or(std::slice::from_ref(allowed), Vec::as_slice);
    match value {
        None => allowed.iter().any(|it| it == ""),
        Some(value) => allowed.iter().any(|it| same(it, value)),
    }
}

fn same(gold: &Value, value: &Value) -> bool {
    match (gold, value) {
        (Value::String(gold), Value::String(value)) => letters(gold) == letters(value),
        (Value::Number(gold), Value::Number(value)) => gold.as_f64() == value.as_f64(),
        (Value::Array(gold), Value::Array(value)) => {
            gold.len() == value.len() && gold.iter().zip(value).all(|(gold, value)| same(gold, value))
        }
        (Value::Object(gold), Value::Object(value)) => {
            value.keys().all(|key| gold.contains_key(key))
                && gold.iter().all(|(name, allowed)| field_fits(allowed, value.get(name)))
        }
        _ => gold == value,
    }
}

/// Text without what the gold data ignores: case, spaces, some punctuation.
fn letters(text: &str) -> String {
    text.chars().filter(|it| !" ,./-_*^".contains(*it)).flat_map(char::to_lowercase).collect()
}

/// Whether a field that was correct as the model wrote it is wrong after the repair.
fn breaks(call: &Call, before: &Value, after: &Value) -> bool {
    let entries = entries(call);
    let is_correct = |name: &str, value: Option<&Value>| {
        entries.iter().filter_map(|gold| gold.get(name)).any(|allowed| field_fits(allowed, value))
    };
    let names = entries.iter().flat_map(|gold| gold.keys());
    names.into_iter().any(|name| is_correct(name, before.get(name)) && !is_correct(name, after.get(name)))
}
