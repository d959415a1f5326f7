//! Lists in the formats of `--output`, printed once or updated as they change.

use serde_json::{Value, json};

use crate::args::Format;
use crate::table::Table;
use crate::terminal::{columns, print_json, print_out, print_value};
use crate::yaml::yaml;

/// An item that list commands print.
pub(crate) trait ListItem: Sized + 'static {
    /// The item's key in the JSON output of a change.
    const KIND: &'static str;
    /// The columns of the table, in order.
    const COLUMNS: &'static [Column<Self>];

    /// Converts the item to JSON.
    fn value(&self) -> Value;
}

/// A table column: its head, and the text of each cell.
pub(crate) struct Column<T> {
    head: &'static str,
    kind: ColumnKind,
    cell: fn(&T) -> String,
}

/// When a column is shown, and what becomes of it if the terminal is too narrow.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ColumnKind {
    Always,
    /// Truncated if the terminal is too narrow.
    Truncatable,
    /// Left out if the terminal is too narrow.
    Optional,
    /// Shown only with `--output wide`.
    WideOnly,
}

impl<T> Column<T> {
    pub(crate) const fn new(head: &'static str, cell: fn(&T) -> String) -> Self {
        Self { head, kind: ColumnKind::Always, cell }
    }

    /// Creates a text column whose cells may be truncated.
    pub(crate) const fn text(head: &'static str, cell: fn(&T) -> String) -> Self {
        Self { head, kind: ColumnKind::Truncatable, cell }
    }

    /// Creates a column that narrow terminals leave out. The last one is left out first.
    pub(crate) const fn optional(head: &'static str, cell: fn(&T) -> String) -> Self {
        Self { head, kind: ColumnKind::Optional, cell }
    }

    /// Creates a column for `--output wide` only.
    pub(crate) const fn wide(head: &'static str, cell: fn(&T) -> String) -> Self {
        Self { head, kind: ColumnKind::WideOnly, cell }
    }
}

/// How items of a watched list change.
pub(crate) const ADDED: &str = "added";
pub(crate) const UPDATED: &str = "updated";
pub(crate) const REMOVED: &str = "removed";

/// Prints a list to stdout in this format.
pub(crate) fn print_list<T: ListItem>(items: &[T], format: Format) {
    match format {
        Format::Json => print_value(&items.iter().map(ListItem::value).collect()),
        Format::Yaml => print_out(&yaml(&items.iter().map(ListItem::value).collect())),
        Format::Table | Format::Wide => {
            let columns = columns_for::<T>(format);
            let rows = items.iter().map(|item| cells(&columns, item));
            print_out(&table(&columns, &[], format).rows(rows));
        }
    }
}

pub(crate) fn print_one(value: &Value, format: Format) {
    match format {
        Format::Yaml => print_out(&yaml(value)),
        _ => print_value(value),
    }
}

/// Prints a table row by row, as the items come.
pub(crate) struct RowPrinter<T: ListItem> {
    columns: Vec<&'static Column<T>>,
    table: Table,
}

impl<T: ListItem> RowPrinter<T> {
    pub(crate) fn new(format: Format) -> Self {
        let columns = columns_for::<T>(format);
        let table = table(&columns, &[], format);
        Self { columns, table }
    }

    pub(crate) fn print(&mut self, item: &T) {
        print_out(&self.table.rows([cells(&self.columns, item)]));
    }
}

/// Prints changes of a list as they happen.
pub(crate) struct ChangePrinter<T: ListItem> {
    format: Format,
    columns: Vec<&'static Column<T>>,
    table: Table,
}

impl<T: ListItem> ChangePrinter<T> {
    pub(crate) fn new(format: Format) -> Self {
        let columns = columns_for::<T>(format);
        let table = table(&columns, &["CHANGE"], format).at_least(0, REMOVED.len());
        Self { format, columns, table }
    }

    /// Prints changes: as table rows, as one JSON object per line, or as one YAML document each.
    pub(crate) fn print(&mut self, changes: &[(&'static str, T)]) {
        let document = |(change, item): &(&str, T)| json!({ "change": change, T::KIND: item.value() });
        match self.format {
            Format::Json => changes.iter().for_each(|it| print_json(&format!("{}\n", document(it)))),
            Format::Yaml => changes.iter().for_each(|it| print_out(&format!("---\n{}", yaml(&document(it))))),
            Format::Table | Format::Wide => {
                let rows = changes.iter().map(|(change, item)| {
                    std::iter::once((*change).to_owned()).chain(cells(&self.columns, item)).collect()
                });
                print_out(&self.table.rows(rows));
            }
        }
    }
}

/// Returns the columns shown in a format.
fn columns_for<T: ListItem>(format: Format) -> Vec<&'static Column<T>> {
    T::COLUMNS.iter().filter(|it| it.kind != ColumnKind::WideOnly || format == Format::Wide).collect()
}

fn cells<T: ListItem>(columns: &[&'static Column<T>], item: &T) -> Vec<String> {
    columns.iter().map(|column| (column.cell)(item)).collect()
}

/// Creates an empty table with the columns of `before`, then those of the list. With `--output wide`, nothing is
/// truncated or left out.
fn table<T: ListItem>(columns_shown: &[&'static Column<T>], before: &[&'static str], format: Format) -> Table {
    let positions = |kind| -> Vec<usize> {
        let found = columns_shown.iter().enumerate().filter(|(_, it)| it.kind == kind);
        found.map(|(at, _)| before.len() + at).collect()
    };
    let head = before.iter().copied().chain(columns_shown.iter().map(|it| it.head)).collect();
    let room = columns(std::io::stdout()).filter(|_| format != Format::Wide);
    let text = positions(ColumnKind::Truncatable).first().copied();
    Table::new(head, text, room).optional(positions(ColumnKind::Optional))
}

/// Returns the text, or a dash if it is empty.
pub(crate) fn or_dash(text: &str) -> String {
    if text.is_empty() { "-".to_owned() } else { text.to_owned() }
}
