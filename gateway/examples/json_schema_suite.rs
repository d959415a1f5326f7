//! Runs the JSON-Schema-Test-Suite (draft 2020-12) through the validator that checks arguments.
//!
//! ```text
//! cargo run --release -p openskill-gateway --example json_schema_suite -- tests/draft2020-12
//! ```
//!
//! It runs the required cases: the files of the folder itself, without `optional/`. Each case must hold for the schema as
//! written and, if the gateway can translate it, for its translation. Cases whose schema refers to a remote document are
//! counted separately, because openskill fetches nothing. Exits with 1 if any other case fails.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a command line tool")]

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use openskill_gateway::arguments::compile_schema;
use openskill_skill::draft::to_2020_12;
use serde::Deserialize;
use serde_json::Value;

#[derive(Deserialize)]
struct Group {
    description: String,
    schema: Value,
    tests: Vec<Case>,
}

#[derive(Deserialize)]
struct Case {
    description: String,
    data: Value,
    valid: bool,
}

#[derive(Default)]
struct Count {
    passed: usize,
    failed: usize,
    remote: usize,
}

fn main() -> ExitCode {
    let Some(folder) = std::env::args().nth(1) else {
        eprintln!("usage: json_schema_suite FOLDER");
        return ExitCode::from(2);
    };
    let mut count = Count::default();
    match files(Path::new(&folder)) {
        Ok(files) => files.iter().for_each(|file| run(file, &mut count)),
        Err(error) => {
            eprintln!("{folder}: {error}");
            return ExitCode::from(2);
        }
    }
    println!("passed {}, failed {}, refused for remote references {}", count.passed, count.failed, count.remote);
    if count.failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn files(folder: &Path) -> std::io::Result<Vec<PathBuf>> {
    let entries = std::fs::read_dir(folder)?.map(|entry| entry.map(|entry| entry.path()));
    let mut files = entries.collect::<std::io::Result<Vec<_>>>()?;
    files.retain(|file| file.extension().is_some_and(|it| it == "json"));
    files.sort();
    Ok(files)
}

fn run(file: &Path, count: &mut Count) {
    let groups: Vec<Group> = match std::fs::read(file).map(|bytes| serde_json::from_slice(&bytes)) {
        Ok(Ok(groups)) => groups,
        other => {
            println!("{}: cannot be read: {:?}", file.display(), other.err());
            count.failed += 1;
            return;
        }
    };
    let name = file.file_stem().unwrap_or_default().to_string_lossy();
    for group in groups {
        match compile_schema(&group.schema) {
            Ok(validator) => {
                let translated = to_2020_12(&group.schema).ok().and_then(|it| compile_schema(&it).ok());
                for case in &group.tests {
                    let mut validators = std::iter::once(&validator).chain(&translated);
                    let passed = validators.all(|it| it.is_valid(&case.data) == case.valid);
                    if !passed {
                        println!(
                            "{name}: {}: {}: expected valid = {}",
                            group.description, case.description, case.valid
                        );
                    }
                    count.passed += usize::from(passed);
                    count.failed += usize::from(!passed);
                }
            }
            Err(refused) if refused.to_string().contains("http") => {
                println!("{name}: {}: not fetched: {refused}", group.description);
                count.remote += group.tests.len();
            }
            Err(refused) => {
                println!("{name}: {}: {refused}", group.description);
                count.failed += group.tests.len();
            }
        }
    }
}
