//! Tables for people: each column is as wide as its widest cell, and one text column is truncated to fit the terminal.

use openskill_telemetry::log::text::one_line;
use unicode_width::{UnicodeWidthChar as _, UnicodeWidthStr as _};

/// The minimum width of the text column. If a line still does not fit, the terminal wraps it.
const MIN_TEXT_WIDTH: usize = 12;

const GAP: &str = "  ";

/// A table that is printed in parts. Later rows are aligned with earlier ones.
#[derive(Debug)]
pub(crate) struct Table {
    head: Vec<&'static str>,
    widths: Vec<usize>,
    /// The column that may be truncated. Ids are never truncated.
    text: Option<usize>,
    /// The maximum width of a line. `None` disables truncation.
    room: Option<usize>,
    has_begun: bool,
}

impl Table {
    pub(crate) fn new(head: Vec<&'static str>, text: Option<usize>, room: Option<usize>) -> Self {
        let widths = head.iter().map(|it| it.width()).collect();
        Self { head, widths, text, room, has_begun: false }
    }

    /// Makes a column at least this wide, to leave room for later cells.
    pub(crate) fn at_least(mut self, column: usize, width: usize) -> Self {
        if let Some(own) = self.widths.get_mut(column) {
            *own = (*own).max(width);
        }
        self
    }

    /// Formats the next rows as lines. The first call also returns the head.
    pub(crate) fn rows(&mut self, rows: impl IntoIterator<Item = Vec<String>>) -> String {
        // Escape cells before measuring them.
        let escaped = |row: Vec<String>| row.iter().map(|cell| one_line(cell).into_owned()).collect::<Vec<_>>();
        let mut rows: Vec<_> = rows.into_iter().map(escaped).collect();
        for row in &rows {
            let widest = self.widths.iter_mut().zip(row);
            widest.for_each(|(width, cell)| *width = (*width).max(cell.width()));
        }
        if !std::mem::replace(&mut self.has_begun, true) {
            rows.insert(0, self.head.iter().map(|it| (*it).to_owned()).collect());
        }
        self.narrow_text();
        rows.iter().map(|row| self.line(row)).collect()
    }

    /// Narrows the text column so that a line fits.
    fn narrow_text(&mut self) {
        let (Some(text), Some(room)) = (self.text, self.room) else { return };
        let all = self.widths.iter().sum::<usize>() + GAP.len() * self.widths.len().saturating_sub(1);
        if let Some(width) = self.widths.get_mut(text) {
            let rest = all - *width;
            *width = (*width).min(room.saturating_sub(rest).max(MIN_TEXT_WIDTH));
        }
    }

    fn line(&self, row: &[String]) -> String {
        let cells: Vec<_> = row.iter().zip(&self.widths).map(|(cell, width)| fit_cell(cell, *width)).collect();
        let mut line = cells.join(GAP).trim_end().to_owned();
        line.push('\n');
        line
    }
}

/// Pads a cell to the width of its column. A longer cell is truncated and ends with an ellipsis.
fn fit_cell(cell: &str, width: usize) -> String {
    let own = cell.width();
    if own <= width {
        return format!("{cell}{}", " ".repeat(width - own));
    }
    let mut left = width.saturating_sub(1);
    let fits = cell.chars().take_while(|it| {
        let wide = it.width().unwrap_or_default();
        let is_in = wide <= left;
        left = left.saturating_sub(wide);
        is_in
    });
    fit_cell(&format!("{}…", fits.collect::<String>().trim_end()), width)
}

#[cfg(test)]
mod tests {
    use super::Table;

    fn row<const N: usize>(cells: [&str; N]) -> Vec<String> {
        cells.map(str::to_owned).into()
    }

    #[test]
    fn a_cell_that_hides_something_stays_in_its_column_and_its_line() {
        let text = Table::new(vec!["ONE", "TWO"], None, None).rows([row(["a\u{202e}b\nc", "d"]), row(["e", "f"])]);
        assert_eq!(text, "ONE            TWO\na\\u{202e}b\\nc  d\ne              f\n");
    }

    #[test]
    fn only_the_column_of_text_gives_way_to_the_edge() {
        let rows = || [row(["an-id-that-is-long", "some words about it, and more", "x"])];
        let shown = |room| Table::new(vec!["ID", "TEXT", "N"], Some(1), room).rows(rows());
        let lines: Vec<_> = shown(Some(40)).lines().map(str::to_owned).collect();
        assert_eq!(lines[1], "an-id-that-is-long  some words about…  x");
        assert!(shown(None).contains("some words about it, and more"));
        assert!(shown(Some(10)).contains("an-id-that-is-long  some words…   x"));
    }

    #[test]
    fn wide_characters_take_two_columns() {
        let text = Table::new(vec!["NAME", "N"], None, None).rows([row(["计算", "1"]), row(["ab", "2"])]);
        assert_eq!(text, "NAME  N\n计算  1\nab    2\n");
        let cut = Table::new(vec!["T"], Some(0), Some(12)).rows([row(["计算器计算器计算器"])]);
        assert_eq!(cut, "T\n计算器计算…\n");
    }

    #[test]
    fn later_rows_are_aligned_and_have_no_head() {
        let mut table = Table::new(vec!["ID", "N"], None, None);
        assert_eq!(table.rows([row(["longer", "1"])]), "ID      N\nlonger  1\n");
        assert_eq!(table.rows([row(["a", "2"])]), "a       2\n");
    }
}
