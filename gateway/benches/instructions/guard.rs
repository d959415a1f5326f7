//! Counts the instructions on a call's way through the gateway and holds them against what was recorded:
//! `make bench-instructions`.
//!
//! Times wobble on a machine that others use; counts of instructions hardly do. Each case runs in a process of its own,
//! this very binary under valgrind's callgrind, which counts while the calls of the case run.
//!
//! - [`cases`]: what is counted
//! - [`steps`]: the gateway's steps one by one; [`whole`]: a whole call, with a worker [`in_memory`]
//! - [`callgrind`]: runs a case and reads its count
//! - [`recorded`]: the counts in `gateway/benches/instructions.toml`

use std::env;

mod callgrind;
mod cases;
mod in_memory;
mod recorded;
mod sample;
mod steps;
mod whole;

use callgrind::{count, profile};
use cases::Case;
use recorded::{Recorded, Tools, Verdict};

/// Names the case that a process is to run.
const CASE: &str = "OPENSKILL_COUNTED_CASE";

/// Set: the counts are written down, and not compared.
const RECORD: &str = "OPENSKILL_RECORD_INSTRUCTIONS";

/// How often each case runs when it is recorded: the median is kept.
const ROUNDS: usize = 3;

#[test]
fn every_case_can_be_run() {
    for case in cases::ALL {
        case.run(1);
    }
}

#[test]
#[ignore = "started under valgrind, by the one below"]
fn one_case() {
    let wanted = env::var(CASE).unwrap_or_default();
    for case in cases::ALL.iter().filter(|case| case.name == wanted) {
        case.run(case.times);
    }
}

#[test]
#[ignore = "takes valgrind and an optimized build: make bench-instructions"]
fn counts_are_as_recorded() -> Result<(), String> {
    let (recorded, tools) = (Recorded::read(), Tools::here());
    if env::var_os(RECORD).is_some_and(|it| !it.is_empty()) {
        record(&recorded, tools);
        return Ok(());
    }
    let scope = recorded.scope(&tools);
    println!("{}\n\n{:<20} {:>12} {:>12}", recorded.introduce(&tools), "instructions a call", "recorded", "now");
    let judge = |case: &Case| {
        let now = count(case);
        let verdict = recorded.judge(case.name, now, scope);
        println!("{:<20} {:>12} {now:>12}  {verdict}", case.name, recorded.shown(case.name));
        (case.name, verdict)
    };
    let verdicts: Vec<_> = cases::ALL.iter().map(judge).collect();
    if verdicts.iter().any(|(_, verdict)| matches!(verdict, Verdict::Shrank { .. })) {
        println!("\nSome take less than was recorded. To keep it so: make bench-instructions RECORD=1");
    }
    let bad: Vec<_> = verdicts.iter().filter(|(_, verdict)| verdict.is_bad()).collect();
    for (name, _) in &bad {
        println!("\nWhere the instructions of {name} are: callgrind_annotate {}", profile(name).display());
    }
    if bad.is_empty() {
        return Ok(());
    }
    let list: Vec<_> = bad.iter().map(|(name, verdict)| format!("{name} {verdict}")).collect();
    Err(format!("{}. If that is meant: make bench-instructions RECORD=1", list.join("; ")))
}

/// Counts everything a few times, and writes the medians down.
fn record(recorded: &Recorded, tools: Tools) {
    println!("{:<20} {:>12} {:>8}", "instructions a call", "median", "spread");
    let counts = cases::ALL.iter().map(|case| {
        let mut counts: Vec<u64> = (0..ROUNDS).map(|_| count(case)).collect();
        counts.sort_unstable();
        let (median, spread) = (counts[ROUNDS / 2], counts[ROUNDS - 1] - counts[0]);
        println!("{:<20} {median:>12} {:>7.2}%", case.name, 100.0 * spread as f64 / median as f64);
        (case.name, median)
    });
    recorded.with(tools, counts.collect()).write();
}
