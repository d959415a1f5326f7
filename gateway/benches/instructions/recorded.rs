//! The counts that were recorded, and how a new count compares with them.

use std::collections::BTreeMap;
use std::env::{self, consts::ARCH};
use std::fs;
use std::path::PathBuf;
use std::process::Command;

use serde::Deserialize;

/// How far above the recorded count a count may be.
const TOLERANCE_PERCENT: f64 = 5.0;

/// The tolerance with another compiler or C library, whose changes are not ours.
const OTHER_TOOLS_PERCENT: f64 = 20.0;

const HEAD: &str = "\
# Instructions of a call in the gateway, or of preparing its arguments. `make bench-instructions` counts them again and
# fails where a count grew by more than 5%; `make bench-instructions RECORD=1` writes this file.
";

/// `gateway/benches/instructions.toml`.
#[derive(Debug, Default, Deserialize)]
pub(super) struct RecordedCounts {
    arch: String,
    /// Compiler and C library.
    tools: String,
    counts: BTreeMap<String, u64>,
}

/// Those of this machine. Cargo runs the binary with the compiler that built it.
fn tools() -> String {
    let output = |program: String, argument: &str| {
        let output = Command::new(program).arg(argument).output();
        output.map(|it| String::from_utf8_lossy(&it.stdout).trim().to_owned()).unwrap_or_default()
    };
    let rustc = output(env::var("RUSTC").unwrap_or_else(|_| "rustc".to_owned()), "--version");
    format!("{rustc}, {}", output("getconf".to_owned(), "GNU_LIBC_VERSION"))
}

fn path() -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/benches/instructions.toml"))
}

impl RecordedCounts {
    pub(super) fn read() -> Self {
        let text = fs::read_to_string(path()).unwrap_or_default();
        toml_edit::de::from_str(&text).unwrap_or_default()
    }

    /// How a count compares, in words. An error if it grew, or was never recorded.
    pub(super) fn judge(&self, name: &str, now: u64) -> Result<String, String> {
        self.judge_with(ARCH, &tools(), name, now)
    }

    fn judge_with(&self, arch: &str, tools: &str, name: &str, now: u64) -> Result<String, String> {
        let recorded = self.counts.get(name).ok_or("not recorded yet")?;
        if self.arch != arch {
            return Ok(format!("not compared: recorded on {}", self.arch));
        }
        let percent = 100.0 * (now as f64 / *recorded as f64 - 1.0);
        let tolerance = if self.tools == tools { TOLERANCE_PERCENT } else { OTHER_TOOLS_PERCENT };
        if percent > tolerance { Err(format!("GREW by {percent:.1}%")) } else { Ok(format!("{percent:+.1}%")) }
    }

    /// The recorded count, for a table.
    pub(super) fn count_text(&self, name: &str) -> String {
        self.counts.get(name).map_or("none".to_owned(), u64::to_string)
    }

    pub(super) fn write(counts: impl Iterator<Item = (String, u64)>) {
        let counts: String = counts.map(|(name, count)| format!("{name} = {count}\n")).collect();
        fs::write(path(), format!("{HEAD}\narch = \"{ARCH}\"\ntools = \"{}\"\n\n[counts]\n{counts}", tools())).unwrap();
        println!("\nwritten: {}", path().display());
    }
}

#[test]
fn a_count_that_grew_fails_and_other_tools_get_more_tolerance() {
    let counts = BTreeMap::from([("call".to_owned(), 1000)]);
    let recorded = RecordedCounts { arch: "x86_64".to_owned(), tools: "1".to_owned(), counts };
    let holds = |now, tools, arch| recorded.judge_with(arch, tools, "call", now).is_ok();
    assert!(holds(1049, "1", "x86_64") && !holds(1051, "1", "x86_64") && holds(500, "1", "x86_64"));
    assert!(holds(1199, "2", "x86_64") && !holds(1201, "2", "x86_64"));
    assert!(holds(9999, "1", "aarch64"));
    assert!(recorded.judge_with("x86_64", "1", "another call", 1).is_err());
}
