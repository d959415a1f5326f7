//! The table of all settings, which is in `reference.md`. `docs/configuration.md` has a copy of it.

use std::sync::LazyLock;

/// The table as Markdown, with a row for each setting: variable, key in `openskill.toml`, default, commands that read
/// it, and meaning.
pub(crate) const REFERENCE: &str = include_str!("reference.md");

/// One setting.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Setting {
    /// The environment variable.
    pub(crate) name: &'static str,
    /// The key in `openskill.toml`.
    pub(crate) key: &'static str,
    /// The default value. Empty if the setting has no default.
    pub(crate) default: &'static str,
}

/// All settings, in the order of the table.
pub(crate) static ALL: LazyLock<Vec<Setting>> =
    LazyLock::new(|| REFERENCE.lines().skip(2).filter_map(setting).collect());

fn setting(row: &'static str) -> Option<Setting> {
    // A default that is not quoted is `none`.
    let quoted = |cell: &'static str| cell.strip_prefix('`')?.strip_suffix('`');
    let mut cells = row.strip_prefix("| ")?.split(" | ");
    let (name, key, default) = (cells.next()?, cells.next()?, cells.next()?);
    Some(Setting { name: quoted(name)?, key: quoted(key)?, default: quoted(default).unwrap_or_default() })
}

/// Whether a variable is a setting.
pub(crate) fn is_known(name: &str) -> bool {
    ALL.iter().any(|setting| setting.name == name)
}

/// Returns the default of a setting. Empty if the setting has no default.
pub(crate) fn default_value(name: &str) -> &'static str {
    ALL.iter().find(|setting| setting.name == name).map_or("", |setting| setting.default)
}

/// Whether a setting is a credential. Credentials are never shown or passed to child processes.
pub(crate) fn is_credential(name: &str) -> bool {
    name.ends_with("_API_KEY") || ["OPENSKILL_TOKEN", "OPENSKILL_STORE", "OPENSKILL_WEBHOOK_SECRET"].contains(&name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_is_a_setting_whose_key_is_its_name_without_the_prefix() {
        assert_eq!(ALL.len(), REFERENCE.lines().count() - 2);
        for Setting { name, key, .. } in ALL.iter() {
            assert_eq!(*key, name.strip_prefix("OPENSKILL_").unwrap_or(name).to_ascii_lowercase());
        }
        assert_eq!((default_value("OPENSKILL_LISTEN"), default_value("OPENSKILL_KEYS")), ("127.0.0.1:8000", ""));
    }
}
