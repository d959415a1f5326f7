//! How a scenario went.

use std::collections::BTreeMap;
use std::fmt::{Display, Formatter};
use std::path::PathBuf;

use super::Event;
use super::check::check;
use super::stage::Stage;
use super::violation::Violation;

#[derive(Debug)]
pub struct Report {
    pub name: String,
    /// How many faults there were.
    pub faults: usize,
    pub events: Vec<Event>,
    pub violations: Vec<Violation>,
    /// The history, if it has violations.
    pub kept: Option<PathBuf>,
}

impl Report {
    /// Checks the history of a stage whose processes have ended. Keeps it if something is wrong.
    pub fn new(name: &str, stage: &Stage, faults: usize) -> Self {
        let events = stage.journal.events();
        let violations = check(&events);
        let kept = (!violations.is_empty()).then(|| stage.journal.keep(name, &stage.log()));
        Self { name: name.to_owned(), faults, events, violations, kept }
    }

    fn count(&self, is_counted: impl Fn(&Event) -> bool) -> usize {
        self.events.iter().filter(|it| is_counted(it)).count()
    }
}

impl Display for Report {
    fn fmt(&self, to: &mut Formatter<'_>) -> std::fmt::Result {
        let mut ends: BTreeMap<String, usize> = BTreeMap::new();
        for event in &self.events {
            if let Event::Final { state, .. } = event {
                *ends.entry(state.to_lowercase()).or_default() += 1;
            }
        }
        let ends: Vec<_> = ends.into_iter().map(|(state, count)| format!("{count} {state}")).collect();
        write!(
            to,
            "{}: {} faults, {} submits ({} unknown, {} refused), {}, {} runs, {} reads, {} cancellations: {} violations",
            self.name,
            self.faults,
            self.count(|it| matches!(it, Event::Submitted { .. })),
            self.count(|it| matches!(it, Event::Unknown { .. })),
            self.count(|it| matches!(it, Event::Refused { .. })),
            if ends.is_empty() { "no operations".to_owned() } else { ends.join(", ") },
            self.count(|it| matches!(it, Event::Effect { .. })),
            self.count(|it| matches!(it, Event::Result { .. })),
            self.count(|it| matches!(it, Event::Cancelled { .. })),
            self.violations.len(),
        )?;
        for violation in &self.violations {
            write!(to, "\n  {violation}")?;
        }
        match &self.kept {
            Some(path) => write!(to, "\n  history: {}; the gateway's log is beside it", path.display()),
            None => Ok(()),
        }
    }
}
