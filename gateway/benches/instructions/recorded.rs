//! The counts that were recorded, and what another count means beside them.

use std::collections::BTreeMap;
use std::env;
use std::fmt::{self, Write as _};
use std::fs;
use std::path::PathBuf;
use std::process::Command;

use serde::Deserialize;

/// How far a count may be from what was recorded, unless the file says otherwise.
const TOLERANCE_PERCENT: f64 = 5.0;

/// With other tools so many times as far: it is not our code that has changed.
const OTHER_TOOLS: f64 = 4.0;

const HEAD: &str = "\
# Instructions that a step of a call takes in the gateway, or all of it. `make bench-instructions` counts them again and
# fails where one is more than the tolerance above; `make bench-instructions RECORD=1` writes this file.
";

/// `gateway/benches/instructions.toml`.
#[derive(Debug, Default, Deserialize)]
pub(super) struct Recorded {
    #[serde(default)]
    made_with: Tools,
    #[serde(default)]
    counts: BTreeMap<String, Count>,
}

/// What the code is made with, beside our own.
#[derive(Debug, Default, PartialEq, Eq, Deserialize)]
pub(super) struct Tools {
    rustc: String,
    target: String,
    libc: String,
}

#[derive(Debug, Clone, Copy, Deserialize)]
struct Count {
    instructions: u64,
    tolerance_percent: f64,
}

/// How far the recorded counts hold for this build.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Scope {
    Same,
    OtherTools,
    /// Other instructions altogether.
    OtherTarget,
}

/// What a count means beside the recorded one.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Verdict {
    Holds { percent: f64 },
    Grew { percent: f64, tolerance: f64 },
    Shrank { percent: f64 },
    NotRecorded,
    NotCompared,
}

impl Tools {
    /// Those of this machine. Cargo runs the binary with the compiler that has made it.
    pub(super) fn here() -> Self {
        let rustc = said(&env::var("RUSTC").unwrap_or_else(|_| "rustc".to_owned()), "-vV");
        let field = |name: &str| rustc.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_default().to_owned();
        Self { rustc: field("release: "), target: field("host: "), libc: said("getconf", "GNU_LIBC_VERSION") }
    }
}

impl fmt::Display for Tools {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "rustc {}, {}, {}", self.rustc, self.target, self.libc)
    }
}

/// What a program says of itself; nothing if it is not there.
fn said(program: &str, argument: &str) -> String {
    let output = Command::new(program).arg(argument).output();
    output.map(|it| String::from_utf8_lossy(&it.stdout).trim().to_owned()).unwrap_or_default()
}

impl Recorded {
    pub(super) fn read() -> Self {
        let Ok(text) = fs::read_to_string(path()) else { return Self::default() };
        toml::from_str(&text).unwrap_or_else(|error| panic!("{}: {error}", path().display()))
    }

    /// How far it holds for what was made with `tools`.
    pub(super) fn scope(&self, tools: &Tools) -> Scope {
        match &self.made_with {
            same if same == tools => Scope::Same,
            other if other.target == tools.target => Scope::OtherTools,
            _ => Scope::OtherTarget,
        }
    }

    /// Says what is compared with what.
    pub(super) fn introduce(&self, tools: &Tools) -> String {
        let both = format!("Recorded with {}.\nThis is       {tools}.", self.made_with);
        match self.scope(tools) {
            Scope::Same => format!("As recorded: {tools}."),
            Scope::OtherTools => format!(
                "{both}\nTheir counts differ, so four times the tolerance is let pass. If they are to stay, record anew:\n\
                 make bench-instructions RECORD=1"
            ),
            Scope::OtherTarget => format!("{both}\nThose are other instructions: nothing is compared, only shown."),
        }
    }

    pub(super) fn judge(&self, name: &str, now: u64, scope: Scope) -> Verdict {
        let Some(Count { instructions, tolerance_percent }) = self.counts.get(name) else {
            return Verdict::NotRecorded;
        };
        let tolerance = match scope {
            Scope::Same => *tolerance_percent,
            Scope::OtherTools => tolerance_percent * OTHER_TOOLS,
            Scope::OtherTarget => return Verdict::NotCompared,
        };
        let percent = 100.0 * (now as f64 / *instructions as f64 - 1.0);
        match percent {
            _ if percent > tolerance => Verdict::Grew { percent, tolerance },
            _ if percent < -tolerance => Verdict::Shrank { percent },
            _ => Verdict::Holds { percent },
        }
    }

    /// What was recorded, for a table.
    pub(super) fn shown(&self, name: &str) -> String {
        self.counts.get(name).map_or("none".to_owned(), |count| count.instructions.to_string())
    }

    /// New counts, with the tolerances there were.
    pub(super) fn with(&self, made_with: Tools, counts: Vec<(&'static str, u64)>) -> Self {
        let tolerance = |name: &str| self.counts.get(name).map_or(TOLERANCE_PERCENT, |count| count.tolerance_percent);
        let count = |(name, instructions): (&str, u64)| {
            (name.to_owned(), Count { instructions, tolerance_percent: tolerance(name) })
        };
        Self { made_with, counts: counts.into_iter().map(count).collect() }
    }

    pub(super) fn write(&self) {
        fs::write(path(), self.to_toml()).unwrap();
        println!("\nwritten: {}", path().display());
    }

    fn to_toml(&self) -> String {
        let Tools { rustc, target, libc } = &self.made_with;
        let made_with = format!("rustc = \"{rustc}\"\ntarget = \"{target}\"\nlibc = \"{libc}\"");
        let mut text = format!("{HEAD}\n[made_with]\n{made_with}\n\n[counts]\n");
        for (name, Count { instructions, tolerance_percent }) in &self.counts {
            let _ = writeln!(
                text,
                "{name} = {{ instructions = {instructions}, tolerance_percent = {tolerance_percent:.1} }}"
            );
        }
        text
    }
}

fn path() -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/benches/instructions.toml"))
}

impl Verdict {
    pub(super) fn is_bad(self) -> bool {
        matches!(self, Self::Grew { .. } | Self::NotRecorded)
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Holds { percent } => write!(f, "{percent:+.1}%"),
            Self::Grew { percent, tolerance } => write!(f, "grew by {percent:.1}%, {tolerance:.1}% is let pass"),
            Self::Shrank { percent } => write!(f, "shrank by {:.1}%", -percent),
            Self::NotRecorded => write!(f, "not recorded yet"),
            Self::NotCompared => write!(f, "not compared"),
        }
    }
}

#[test]
fn what_grew_does_not_hold_and_other_tools_get_more_room() {
    let tools =
        |rustc: &str, target: &str| Tools { rustc: rustc.to_owned(), target: target.to_owned(), libc: String::new() };
    let recorded = Recorded::default().with(tools("1", "x86"), vec![("step", 1000)]);
    let recorded: Recorded = toml::from_str(&recorded.to_toml()).unwrap();
    let is_bad = |now, scope| recorded.judge("step", now, scope).is_bad();
    let scope = |rustc, target| recorded.scope(&tools(rustc, target));
    assert!(!is_bad(1049, scope("1", "x86")) && is_bad(1051, scope("1", "x86")) && !is_bad(500, scope("1", "x86")));
    assert!(!is_bad(1199, scope("2", "x86")) && is_bad(1201, scope("2", "x86")));
    assert!(!is_bad(9999, scope("1", "arm")));
    assert!(recorded.judge("new step", 1, Scope::Same).is_bad());
}
