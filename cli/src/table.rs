//! Tables for people: each column is as wide as its widest cell. To fit the terminal, optional columns are left out and
//! one text column is truncated.

use openskill_telemetry::log::text::one_line;
use unicode_width::UnicodeWidthStr as _;

use crate::terminal::cut;

/// The minimum width of the text column. If a line still does not fit without optional columns, the terminal wraps it.
const MIN_TEXT_WIDTH: usize = 8;

const GAP: &str = "  ";

/// A table that is printed in parts. Later rows are aligned with earlier ones.
#[derive(Debug)]
pub(crate) struct Table {
    head: Vec<&'static str>,
    widths: Vec<usize>,
    /// The column that may be truncated. Ids are never truncated.
    text: Option<usize>,
    /// The columns that are left out if a line is too long, the first one last.
    optional: Vec<usize>,
    left_out: Vec<usize>,
    /// The maximum width of a line. `None` disables truncation.
    room: Option<usize>,
    has_begun: bool,
}

impl Table {
    pub(crate) fn new(head: Vec<&'static str>, text: Option<usize>, room: Option<usize>) -> Self {
        let widths = head.iter().map(|it| it.width()).collect();
        Self { head, widths, text, optional: Vec::new(), left_out: Vec::new(), room, has_begun: false }
    }

    /// Makes columns optional. If a line is too long, the last one is left out first.
    pub(crate) fn optional(mut self, columns: impl IntoIterator<Item = usize>) -> Self {
        self.optional.extend(columns);
        self
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
        self.fit();
        rows.iter().map(|row| self.line(row)).collect()
    }

    /// Leaves out optional columns and narrows the text column so that a line fits.
    fn fit(&mut self) {
        let Some(room) = self.room else { return };
        let text = self.text.and_then(|it| self.widths.get(it)).copied().unwrap_or_default();
        while self.width() - text + text.min(MIN_TEXT_WIDTH) > room
            && let Some(column) = self.optional.pop()
        {
            self.left_out.push(column);
        }
        let rest = self.width() - text;
        if let Some(width) = self.text.and_then(|it| self.widths.get_mut(it)) {
            *width = text.min(room.saturating_sub(rest).max(MIN_TEXT_WIDTH));
        }
    }

    /// Returns the width of a whole line.
    fn width(&self) -> usize {
        let shown = self.widths.len() - self.left_out.len();
        let left_out: usize = self.left_out.iter().filter_map(|it| self.widths.get(*it)).sum();
        self.widths.iter().sum::<usize>() - left_out + GAP.len() * shown.saturating_sub(1)
    }

    fn line(&self, row: &[String]) -> String {
        let shown = row.iter().zip(&self.widths).enumerate().filter(|(column, _)| !self.left_out.contains(column));
        let cells: Vec<_> = shown.map(|(_, (cell, width))| fit_cell(cell, *width)).collect();
        let mut line = cells.join(GAP).trim_end().to_owned();
        line.push('\n');
        line
    }
}

/// Truncates or pads a cell to the width of its column.
fn fit_cell(cell: &str, width: usize) -> String {
    let cell = cut(cell, width);
    let padding = width.saturating_sub(cell.width());
    format!("{cell}{}", " ".repeat(padding))
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
        assert!(shown(Some(10)).contains("an-id-that-is-long  some wo…  x"));
    }

    #[test]
    fn optional_columns_are_left_out_where_they_do_not_fit_and_stay_out() {
        let mut table = Table::new(vec!["ID", "A", "B", "TEXT"], Some(3), Some(20)).optional([1, 2]);
        assert_eq!(table.rows([row(["one", "aa", "bb", "short"])]), "ID   A   B   TEXT\none  aa  bb  short\n");
        assert_eq!(table.rows([row(["two", "aa", "bbbb", "some more text"])]), "two  aa  some more…\n");
        assert_eq!(table.rows([row(["three", "aaaaaaaa", "b", "text"])]), "three  text\n");
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
