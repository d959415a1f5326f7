//! Tables for people: each column is as wide as its widest cell.

use openskill_log::text::one_line;

/// Renders a header and rows.
pub(crate) fn table<const N: usize>(head: [&str; N], rows: impl IntoIterator<Item = [String; N]>) -> String {
    // Escaped before they are measured.
    let rows = rows.into_iter().map(|row| row.map(|cell| one_line(&cell).into_owned()));
    let rows: Vec<[String; N]> = std::iter::once(head.map(str::to_owned)).chain(rows).collect();
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or_default();
    let widths: Vec<usize> = (0..N).map(width).collect();
    let mut text = String::new();
    for row in &rows {
        let cells: Vec<_> = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:width$}")).collect();
        text += cells.join("  ").trim_end();
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::table;

    #[test]
    fn a_cell_that_hides_something_stays_in_its_column_and_its_line() {
        let rows = [["a\u{202e}b\nc".to_owned(), "d".to_owned()], ["e".to_owned(), "f".to_owned()]];
        let text = table(["ONE", "TWO"], rows);
        assert_eq!(text, "ONE            TWO\na\\u{202e}b\\nc  d\ne              f\n");
    }
}
