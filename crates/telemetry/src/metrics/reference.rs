//! Renders the reference of all metrics as Markdown.

use crate::metrics::table::ALL;

/// Renders the table for `docs/metrics.md`.
pub fn reference() -> String {
    let mut text = "| metric | type | unit | labels | of | meaning |\n|---|---|---|---|---|---|\n".to_owned();
    for metric in ALL {
        let labels: Vec<_> = metric.labels.iter().map(|label| format!("`{label}`")).collect();
        let cells = [
            format!("`{}`", metric.name),
            metric.kind.word().to_owned(),
            metric.unit().unwrap_or_default().to_owned(),
            labels.join(", "),
            metric.process.word().to_owned(),
            metric.help.to_owned(),
        ];
        let row = cells.iter().map(|cell| if cell.is_empty() { "| ".to_owned() } else { format!("| {cell} ") });
        text += &row.collect::<String>();
        text += "|\n";
    }
    text
}
