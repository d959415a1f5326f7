//! Counts for how many questions a search finds the right tool among the first five.
//!
//! ```text
//! cargo run --release -p openskill-text --example tool_search -- FOLDER
//! ```
//!
//! `FOLDER` contains `real_calls_valid.jsonl`: one call per line, `{"question", "name", "tools" (name to JSON Schema)}`. The tools
//! of all calls are the catalog. They have names and parameters, and no descriptions of their own.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a command line tool")]

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use openskill_text::tools::{ToolDocument, rank, search};
use serde_json::Value;

/// How many tools a search returns.
const AMONG: usize = 5;

fn main() -> ExitCode {
    let Some(folder) = std::env::args().nth(1) else {
        eprintln!("usage: tool_search FOLDER");
        return ExitCode::from(2);
    };
    let file = Path::new(&folder).join("real_calls_valid.jsonl");
    let text = match std::fs::read_to_string(&file) {
        Ok(text) => text,
        Err(error) => {
            eprintln!("{}: {error}", file.display());
            return ExitCode::from(2);
        }
    };
    let calls: Vec<Value> = text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
    let mut schemas: BTreeMap<&str, &Value> = BTreeMap::new();
    for tools in calls.iter().filter_map(|call| call["tools"].as_object()) {
        schemas.extend(tools.iter().map(|(name, schema)| (name.as_str(), schema)));
    }
    let names: Vec<&str> = schemas.keys().copied().collect();
    let documents: Vec<_> =
        schemas.iter().map(|(name, schema)| ToolDocument::new(name, "", "", Some(schema))).collect();
    let documents: Vec<&ToolDocument> = documents.iter().collect();
    let asked: Vec<(&str, &str)> =
        calls.iter().filter_map(|call| Some((call["question"].as_str()?, call["name"].as_str()?))).collect();
    println!("{} tools, {} calls", names.len(), asked.len());
    for (label, ranked) in [("words alone", rank as Ranked), ("search", search)] {
        report(label, ranked, &names, &documents, &asked);
    }
    ExitCode::SUCCESS
}

type Ranked = fn(&str, &[&ToolDocument]) -> Vec<(usize, f64)>;

fn report(label: &str, ranked: Ranked, names: &[&str], documents: &[&ToolDocument], asked: &[(&str, &str)]) {
    let (mut hits, mut times) = (0, Vec::new());
    // A question whose calls need different tools is found if one of them is.
    let mut questions: BTreeMap<&str, bool> = BTreeMap::new();
    let mut alone: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for (question, name) in asked {
        let begun = Instant::now();
        let found = ranked(question, documents);
        times.push(begun.elapsed());
        let is_hit = found.iter().take(AMONG).any(|(at, _)| names[*at] == *name);
        hits += usize::from(is_hit);
        *questions.entry(question).or_default() |= is_hit;
        alone.entry(question).or_default().insert(name);
    }
    times.sort_unstable();
    let share = |part: usize, whole: usize| 100.0 * part as f64 / whole.max(1) as f64;
    let found = questions.values().filter(|it| **it).count();
    let single: Vec<_> = questions.iter().filter(|(question, _)| alone[*question].len() == 1).collect();
    let found_single = single.iter().filter(|(_, found)| **found).count();
    println!(
        "{label}: the right tool among {AMONG}: {:.1} % of calls, {:.1} % of {} questions, {:.1} % of the {} that need one tool; \
         a search takes {:.3} ms, 99 % take at most {:.3} ms",
        share(hits, asked.len()),
        share(found, questions.len()),
        questions.len(),
        share(found_single, single.len()),
        single.len(),
        millis(times[times.len() / 2]),
        millis(times[times.len() * 99 / 100]),
    );
}

fn millis(time: Duration) -> f64 {
    time.as_secs_f64() * 1000.0
}
