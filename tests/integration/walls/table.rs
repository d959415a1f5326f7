//! The table of what each probe must end in. Its head says how it is written.

use std::collections::{BTreeMap, BTreeSet};

use super::stage::{Kind, Level};

const TEXT: &str = include_str!("../../fixtures/walls/expected.txt");

/// Where a probe ran.
#[derive(Debug, Clone, Copy)]
pub(super) struct Place {
    /// The words for its worker.
    pub(super) worker: &'static [&'static str],
    pub(super) kind: Kind,
    pub(super) level: Level,
}

/// The lines, by their patterns.
#[derive(Debug)]
pub(super) struct Table(BTreeMap<String, [String; 2]>);

impl Table {
    pub(super) fn read() -> Self {
        Self::parse(TEXT).unwrap_or_else(|line| panic!("expected.txt: {line}"))
    }

    /// The line that can't be read, if there is one.
    fn parse(text: &str) -> Result<Self, String> {
        let mut lines = BTreeMap::new();
        for line in text.lines().filter(|line| !line.trim().is_empty() && !line.starts_with('#')) {
            let cells: Vec<_> = line.split("  ").map(str::trim).filter(|cell| !cell.is_empty()).collect();
            let [name, standard, strict] = cells[..] else { return Err(line.to_owned()) };
            let strict = if strict == "=" { standard } else { strict };
            if lines.insert(name.to_owned(), [standard.to_owned(), strict.to_owned()]).is_some() {
                return Err(format!("twice: {line}"));
            }
        }
        Ok(Self(lines))
    }

    /// What differs from the table, a line each.
    pub(super) fn differences(&self, outcomes: &BTreeMap<String, String>, place: Place) -> Vec<String> {
        let mut differences = Vec::new();
        let mut met = BTreeSet::new();
        for (name, outcome) in outcomes {
            let Some((pattern, cells)) = self.line_of(name) else {
                differences.push(format!("{name}: is not in the table, was {outcome}"));
                continue;
            };
            met.insert(pattern);
            let cell = &cells[place.level as usize];
            if !allows(cell, outcome, place) {
                differences.push(format!("{name}: expected {cell}, was {outcome}"));
            }
        }
        let unmet = self.0.keys().filter(|pattern| !met.contains(pattern));
        differences.extend(unmet.map(|pattern| format!("{pattern}: no probe has this name")));
        differences
    }

    /// The line with this name, or else with the longest pattern that fits.
    fn line_of(&self, name: &str) -> Option<(&String, &[String; 2])> {
        self.0.get_key_value(name).or_else(|| {
            let fitting = self.0.iter().filter(|(pattern, _)| fits(pattern, name));
            fitting.max_by_key(|(pattern, _)| pattern.len())
        })
    }
}

/// Whether a name fits a pattern, in which one `*` stands for anything.
fn fits(pattern: &str, name: &str) -> bool {
    pattern.split_once('*').is_some_and(|(start, end)| {
        name.len() >= start.len() + end.len() && name.starts_with(start) && name.ends_with(end)
    })
}

/// Whether a cell allows an outcome. What is said of this place outweighs what is said of every place.
fn allows(cell: &str, outcome: &str, place: Place) -> bool {
    let alternatives: Vec<_> = cell.split(" or ").map(|it| Alternative::parse(it, place)).collect();
    let most = alternatives.iter().filter_map(|it| it.words).max();
    let best = alternatives.iter().filter(|it| it.words.is_some() && it.words == most);
    best.map(|it| it.outcome).any(|it| it == outcome || (it == "refused" && outcome.starts_with("refused:")))
        || outcome == "elsewhere"
}

/// `refused:EPERM (root fork)`: an outcome, and where it is the one.
struct Alternative<'a> {
    outcome: &'a str,
    /// How many words say so. None: it is for other places.
    words: Option<usize>,
}

impl<'a> Alternative<'a> {
    fn parse(text: &'a str, place: Place) -> Self {
        let (outcome, places) = text.split_once(" (").unwrap_or((text, ")"));
        let words: Vec<_> = places.trim_end_matches(')').split_whitespace().collect();
        let is_here = words.iter().all(|word| *word == place.kind.word() || place.worker.contains(word));
        Self { outcome, words: is_here.then_some(words.len()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HERE: Place = Place { worker: &["root"], kind: Kind::Fork, level: Level::Standard };

    #[test]
    fn a_cell_names_outcomes_and_where_they_hold() {
        let cell = "refused or done (fork) or ignored (overriding fork)";
        let ends = |place: Place| ["refused:EPERM", "done", "ignored"].map(|outcome| allows(cell, outcome, place));
        assert_eq!(ends(HERE), [false, true, false]);
        assert_eq!(ends(Place { kind: Kind::Exec, ..HERE }), [true, false, false]);
        assert_eq!(ends(Place { worker: &["overriding"], ..HERE }), [false, false, true]);
        assert!(allows("refused:EPERM or ignored", "ignored", HERE));
        assert!(!allows("refused:EPERM", "refused:EACCES", HERE) && !allows("refused", "passed:EINVAL", HERE));
    }

    #[test]
    fn an_exact_name_outweighs_a_pattern_and_what_differs_is_said() {
        let table =
            Table::parse("# head\n\nfiles.read_*  refused  =\nfiles.read_own  done  =\nfiles.x  done  refused\n");
        let table = table.unwrap();
        let outcomes = [("files.read_own", "done"), ("files.read_it", "done"), ("more", "done")];
        let outcomes = outcomes.map(|(name, outcome)| (name.to_owned(), outcome.to_owned()));
        let expected = [
            "files.read_it: expected refused, was done",
            "more: is not in the table, was done",
            "files.x: no probe has this name",
        ];
        assert_eq!(table.differences(&outcomes.into(), HERE), expected);
        assert!(Table::parse("one cell").is_err() && Table::parse("a  b  =\na  c  =").is_err());
    }
}
