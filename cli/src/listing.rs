//! Lists, in the formats of `--output`, once or as they change.

use serde_json::{Value, json};

use crate::args::Format;
use crate::table::Table;
use crate::terminal::{columns, say, say_json, say_value};
use crate::yaml::yaml;

/// What list commands list.
pub(crate) trait Item: Sized + 'static {
    /// What an item is called in the JSON of a change.
    const KIND: &'static str;
    /// The columns of the table, in order.
    const COLUMNS: &'static [Column<Self>];

    /// The item as JSON.
    fn value(&self) -> Value;
}

/// A column of a list.
pub(crate) struct Column<T> {
    head: &'static str,
    shown: Shown,
    cell: fn(&T) -> String,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Shown {
    Always,
    /// Cut where the terminal is too narrow.
    AsText,
    /// With `--output wide` only.
    Wide,
}

impl<T> Column<T> {
    pub(crate) const fn new(head: &'static str, cell: fn(&T) -> String) -> Self {
        Self { head, shown: Shown::Always, cell }
    }

    /// Text that may be cut.
    pub(crate) const fn text(head: &'static str, cell: fn(&T) -> String) -> Self {
        Self { head, shown: Shown::AsText, cell }
    }

    /// Shown by `--output wide` alone.
    pub(crate) const fn wide(head: &'static str, cell: fn(&T) -> String) -> Self {
        Self { head, shown: Shown::Wide, cell }
    }
}

/// How an item of a watched list changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Change {
    Added,
    Updated,
    Removed,
}

impl Change {
    fn name(self) -> &'static str {
        match self {
            Self::Added => "added",
            Self::Updated => "updated",
            Self::Removed => "removed",
        }
    }
}

/// Prints a list.
pub(crate) fn list<T: Item>(items: &[T], format: Format) {
    match format {
        Format::Json => say_value(&items.iter().map(Item::value).collect()),
        Format::Yaml => say(&yaml(&items.iter().map(Item::value).collect())),
        Format::Table | Format::Wide => {
            let columns = shown::<T>(format);
            let rows = items.iter().map(|item| cells(&columns, item));
            say(&table(&columns, &[], format).rows(rows));
        }
    }
}

/// Prints one item as JSON or YAML.
pub(crate) fn one(value: &Value, format: Format) {
    match format {
        Format::Yaml => say(&yaml(value)),
        _ => say_value(value),
    }
}

/// Prints changes of a list, as they come.
pub(crate) struct Changes<T: Item> {
    format: Format,
    columns: Vec<&'static Column<T>>,
    table: Table,
}

impl<T: Item> Changes<T> {
    pub(crate) fn new(format: Format) -> Self {
        let columns = shown::<T>(format);
        let table = table(&columns, &["CHANGE"], format).at_least(0, Change::Removed.name().len());
        Self { format, columns, table }
    }

    /// Prints some changes: as rows, or each as one JSON object on a line or one YAML document.
    pub(crate) fn tell(&mut self, changes: &[(Change, T)]) {
        let document = |(change, item): &(Change, T)| json!({ "change": change.name(), T::KIND: item.value() });
        match self.format {
            Format::Json => changes.iter().for_each(|it| say_json(&format!("{}\n", document(it)))),
            Format::Yaml => changes.iter().for_each(|it| say(&format!("---\n{}", yaml(&document(it))))),
            Format::Table | Format::Wide => {
                let rows = changes.iter().map(|(change, item)| {
                    std::iter::once(change.name().to_owned()).chain(cells(&self.columns, item)).collect()
                });
                say(&self.table.rows(rows));
            }
        }
    }
}

/// The columns of a format.
fn shown<T: Item>(format: Format) -> Vec<&'static Column<T>> {
    T::COLUMNS.iter().filter(|it| it.shown != Shown::Wide || format == Format::Wide).collect()
}

fn cells<T: Item>(columns: &[&'static Column<T>], item: &T) -> Vec<String> {
    columns.iter().map(|column| (column.cell)(item)).collect()
}

/// An empty table with these columns, after some others. A wide one is never cut.
fn table<T: Item>(shown: &[&'static Column<T>], before: &[&'static str], format: Format) -> Table {
    let text = shown.iter().position(|it| it.shown == Shown::AsText).map(|at| before.len() + at);
    let head = before.iter().copied().chain(shown.iter().map(|it| it.head)).collect();
    Table::new(head, text, columns().filter(|_| format != Format::Wide))
}

/// A dash where there is nothing.
pub(crate) fn or_dash(text: &str) -> String {
    if text.is_empty() { "-".to_owned() } else { text.to_owned() }
}
