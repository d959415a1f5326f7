//! A row of the settings table in [`names`](super::names), and the macro that defines the table.

/// One setting in the reference.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Setting {
    /// The environment variable.
    pub(crate) name: &'static str,
    /// The default value. Empty if the setting has no default.
    pub(crate) default: &'static str,
    /// The commands that read the setting.
    pub(crate) readers: &'static str,
    /// The description for the reference, in Markdown.
    pub(crate) about: &'static str,
}

/// Defines a constant with the name of each setting, and a table of them.
macro_rules! settings {
    ($table:ident $($konst:ident $name:literal $default:literal $readers:literal $about:literal;)*) => {
        $(
            #[cfg_attr(not(feature = "worker"), allow(dead_code, reason = "only workers read some of them"))]
            pub(crate) const $konst: &str = $name;
        )*

        /// The settings of this table, in the order of the reference.
        pub(crate) const $table: &[Setting] = &[
            $(Setting { name: $name, default: $default, readers: $readers, about: $about }),*
        ];
    };
}

pub(crate) use settings;

/// Whether a setting is a credential. Credentials are never shown or passed to child processes.
pub(crate) fn is_credential(name: &str) -> bool {
    name.ends_with("_API_KEY") || name == "OPENSKILL_TOKEN"
}

/// Returns the key of a setting in `openskill.toml`: `timeout_ms` for `OPENSKILL_TIMEOUT_MS`.
pub(crate) fn file_key(name: &str) -> String {
    name.strip_prefix("OPENSKILL_").unwrap_or(name).to_ascii_lowercase()
}
