//! Counts the instructions of calls through the gateway and compares them with the counts that were recorded:
//! `make bench-instructions`.
//!
//! Times vary on a machine that others use; counts of instructions hardly do. Each case runs in a separate process: this
//! test binary under valgrind's callgrind, which counts while the calls of the case run.
//!
//! - [`cases`]: what is counted; [`calls`]: the calls, to a worker that answers [`in_memory`]
//! - [`callgrind`]: runs a case and reads its count
//! - [`recorded`]: the counts in `gateway/benches/instructions.toml`

use std::env;

mod callgrind;
mod calls;
mod cases;
mod in_memory;
mod recorded;

use callgrind::{count, profile};
use recorded::RecordedCounts;

/// Names the case that a process runs.
const CASE: &str = "OPENSKILL_COUNTED_CASE";

/// If it is set, the counts are recorded and not compared.
const RECORD: &str = "OPENSKILL_RECORD_INSTRUCTIONS";

#[test]
fn every_case_can_be_run() {
    for case in cases::ALL {
        case.run(1);
    }
}

#[test]
#[ignore = "counts_are_as_recorded starts it under valgrind"]
fn one_case() {
    let wanted = env::var(CASE).unwrap_or_default();
    for case in cases::ALL.iter().filter(|case| case.name == wanted) {
        case.run(case.times);
    }
}

#[test]
#[ignore = "needs valgrind and an optimized build: make bench-instructions"]
fn counts_are_as_recorded() -> Result<(), String> {
    let recorded = RecordedCounts::read();
    println!("{:<20} {:>12} {:>12}", "instructions a call", "recorded", "now");
    let judge = |case: &cases::Case| {
        let now = count(case);
        let verdict = recorded.judge(case.name, now);
        let words = verdict.clone().unwrap_or_else(|failure| failure);
        println!("{:<20} {:>12} {now:>12}  {words}", case.name, recorded.count_text(case.name));
        (case.name, now, verdict.is_err())
    };
    let counts: Vec<_> = cases::ALL.iter().map(judge).collect();
    if env::var_os(RECORD).is_some_and(|it| !it.is_empty()) {
        RecordedCounts::write(counts.into_iter().map(|(name, now, _)| (name.to_owned(), now)));
        return Ok(());
    }
    let failed: Vec<_> = counts.iter().filter(|(.., failed)| *failed).map(|(name, ..)| *name).collect();
    for name in &failed {
        println!("Where the instructions of {name} are: callgrind_annotate {}", profile(name).display());
    }
    match failed.is_empty() {
        true => Ok(()),
        false => Err(format!("{}. If this is intended: make bench-instructions RECORD=1", failed.join(", "))),
    }
}
