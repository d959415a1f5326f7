//! What the table of [`names`](super::names) says of a setting, and how the table is written.

/// A setting.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Setting {
    /// The environment variable.
    pub(crate) name: &'static str,
    /// The default value. Empty means none.
    pub(crate) default: &'static str,
    /// The commands that read it.
    pub(crate) readers: &'static str,
    /// Its meaning, in Markdown, for the reference.
    pub(crate) about: &'static str,
}

/// Makes a constant with the name of each setting, and a table of them.
macro_rules! settings {
    ($table:ident $($konst:ident $name:literal $default:literal $readers:literal $about:literal;)*) => {
        $(
            #[cfg_attr(not(feature = "worker"), allow(dead_code, reason = "only workers read some of them"))]
            pub(crate) const $konst: &str = $name;
        )*

        /// These settings, in the order of the reference.
        pub(crate) const $table: &[Setting] = &[
            $(Setting { name: $name, default: $default, readers: $readers, about: $about }),*
        ];
    };
}

pub(crate) use settings;

/// Whether a setting is a credential: nobody but its reader gets it, and nobody sees it.
pub(crate) fn is_credential(name: &str) -> bool {
    name.ends_with("_API_KEY") || name == "OPENSKILL_TOKEN"
}

/// The key of a setting in `openskill.toml`: `timeout_ms` for `OPENSKILL_TIMEOUT_MS`.
pub(crate) fn file_key(name: &str) -> String {
    name.strip_prefix("OPENSKILL_").unwrap_or(name).to_ascii_lowercase()
}
