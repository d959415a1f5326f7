//! Renders the reference of all settings as Markdown.

use super::names::{ALL, file_key};

/// Renders the table for `docs/configuration.md`.
pub(crate) fn reference() -> String {
    let mut text =
        "| variable | in `openskill.toml` | default | read by | meaning |\n|---|---|---|---|---|\n".to_owned();
    for setting in ALL.iter() {
        let default = if setting.default.is_empty() { "none".to_owned() } else { format!("`{}`", setting.default) };
        let key = file_key(setting.name);
        text += &format!("| `{}` | `{key}` | {default} | {} | {} |\n", setting.name, setting.readers, setting.about);
    }
    text
}
