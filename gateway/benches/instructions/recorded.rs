//! The counts that were recorded, and how a new count compares with them.

use std::collections::BTreeMap;
use std::env;
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
pub(super) struct Recorded {
    made_with: Tools,
    counts: BTreeMap<String, u64>,
}

/// What determines the counts, beside our own code.
#[derive(Debug, Default, PartialEq, Eq, Deserialize)]
struct Tools {
    rustc: String,
    target: String,
    libc: String,
}

impl Tools {
    /// Those of this machine. Cargo runs the binary with the compiler that built it.
    fn here() -> Self {
        let rustc = first_output(&env::var("RUSTC").unwrap_or_else(|_| "rustc".to_owned()), "-vV");
        let field = |name: &str| rustc.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_default().to_owned();
        let libc = first_output("getconf", "GNU_LIBC_VERSION");
        Self { rustc: field("release: "), target: field("host: "), libc }
    }
}

fn first_output(program: &str, argument: &str) -> String {
    let output = Command::new(program).arg(argument).output();
    output.map(|it| String::from_utf8_lossy(&it.stdout).trim().to_owned()).unwrap_or_default()
}

fn path() -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/benches/instructions.toml"))
}

impl Recorded {
    pub(super) fn read() -> Self {
        let text = fs::read_to_string(path()).unwrap_or_default();
        toml::from_str(&text).unwrap_or_default()
    }

    /// How a count compares, in words. An error if it grew, or was never recorded.
    pub(super) fn judge(&self, name: &str, now: u64) -> Result<String, String> {
        self.judge_with(&Tools::here(), name, now)
    }

    fn judge_with(&self, here: &Tools, name: &str, now: u64) -> Result<String, String> {
        let recorded = self.counts.get(name).ok_or("not recorded yet")?;
        let percent = 100.0 * (now as f64 / *recorded as f64 - 1.0);
        let tolerance = match &self.made_with {
            tools if tools == here => TOLERANCE_PERCENT,
            tools if tools.target == here.target => OTHER_TOOLS_PERCENT,
            tools => return Ok(format!("not compared: recorded on {}", tools.target)),
        };
        if percent > tolerance { Err(format!("GREW by {percent:.1}%")) } else { Ok(format!("{percent:+.1}%")) }
    }

    /// The recorded count, for a table.
    pub(super) fn shown(&self, name: &str) -> String {
        self.counts.get(name).map_or("none".to_owned(), u64::to_string)
    }

    pub(super) fn write(counts: impl Iterator<Item = (String, u64)>) {
        let Tools { rustc, target, libc } = Tools::here();
        let made_with = format!("rustc = \"{rustc}\"\ntarget = \"{target}\"\nlibc = \"{libc}\"");
        let counts: String = counts.map(|(name, count)| format!("{name} = {count}\n")).collect();
        fs::write(path(), format!("{HEAD}\n[made_with]\n{made_with}\n\n[counts]\n{counts}")).unwrap();
        println!("\nwritten: {}", path().display());
    }
}

#[test]
fn a_count_that_grew_fails_and_other_tools_get_more_tolerance() {
    let tools = |rustc: &str, target: &str| Tools { rustc: rustc.into(), target: target.into(), libc: String::new() };
    let counts = BTreeMap::from([("call".to_owned(), 1000)]);
    let recorded = Recorded { made_with: tools("1", "x86"), counts };
    let holds = |now, rustc, target| recorded.judge_with(&tools(rustc, target), "call", now).is_ok();
    assert!(holds(1049, "1", "x86") && !holds(1051, "1", "x86") && holds(500, "1", "x86"));
    assert!(holds(1199, "2", "x86") && !holds(1201, "2", "x86"));
    assert!(holds(9999, "1", "arm"));
    assert!(recorded.judge_with(&tools("1", "x86"), "another call", 1).is_err());
}
