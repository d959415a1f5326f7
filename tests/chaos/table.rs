//! The report, as a table: a row for each invariant, and for what is worth knowing.

use std::time::Duration;

/// One row.
#[derive(Debug)]
pub(crate) struct Row {
    what: String,
    figure: String,
    wanted: String,
    /// None for information.
    holds: Option<bool>,
}

impl Row {
    pub(crate) fn must(what: impl Into<String>, figure: impl ToString, wanted: impl Into<String>, holds: bool) -> Self {
        Self { what: what.into(), figure: figure.to_string(), wanted: wanted.into(), holds: Some(holds) }
    }

    /// A count that must be 0.
    pub(crate) fn none(what: impl Into<String>, count: usize) -> Self {
        Self::must(what, count, "0", count == 0)
    }

    /// The same, with details.
    pub(crate) fn none_of(what: impl Into<String>, count: usize, more: &str) -> Self {
        Self::must(what, format!("{count}{}{more}", if more.is_empty() { "" } else { "; " }), "0", count == 0)
    }

    pub(crate) fn info(what: impl Into<String>, figure: impl ToString) -> Self {
        Self { what: what.into(), figure: figure.to_string(), wanted: String::new(), holds: None }
    }
}

/// All rows so far.
#[derive(Debug, Default)]
pub(crate) struct Table(Vec<(String, Row)>);

impl Table {
    pub(crate) fn add(&mut self, phase: &str, rows: Vec<Row>) {
        self.0.extend(rows.into_iter().map(|row| (phase.to_owned(), row)));
    }

    pub(crate) fn holds(&self) -> bool {
        self.0.iter().all(|(_, row)| row.holds != Some(false))
    }

    /// As Markdown.
    pub(crate) fn text(&self) -> String {
        let mut text = "| phase | what | figure | wanted | holds |\n|---|---|---|---|---|\n".to_owned();
        for (phase, row) in &self.0 {
            let holds = row.holds.map_or("", |holds| if holds { "yes" } else { "NO" });
            text.push_str(&format!("| {phase} | {} | {} | {} | {holds} |\n", row.what, row.figure, row.wanted));
        }
        text
    }
}

/// A share as a percentage.
pub(crate) fn percent(part: usize, whole: usize) -> String {
    format!("{:.2} % of {whole}", 100.0 * share(part, whole))
}

/// The share of `part`; 1 if there is nothing.
pub(crate) fn share(part: usize, whole: usize) -> f64 {
    if whole == 0 { 1.0 } else { part as f64 / whole as f64 }
}

pub(crate) fn milliseconds(time: Duration) -> String {
    format!("{:.0} ms", time.as_secs_f64() * 1000.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_line_that_does_not_hold_is_seen() {
        let mut table = Table::default();
        table.add("leaks", vec![Row::info("calls", 10), Row::none("lost", 0)]);
        assert!(table.holds());
        table.add("faults", vec![Row::none("lost", 1)]);
        assert!(!table.holds() && table.text().contains("| faults | lost | 1 | 0 | NO |"), "{}", table.text());
    }
}
