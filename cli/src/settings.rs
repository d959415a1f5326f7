//! Settings: where each value comes from, and whether it can be used.
//!
//! Two stages. [`Raw`] is what was read: flag, environment, `.env`, `openskill.toml`, default, in this order. [`Settings`]
//! is what is in force: every value valid. All that is wrong is reported at once, each with its source.

pub(crate) mod names;
mod raw;
mod reference;
mod resolve;

pub(crate) use raw::Raw;
pub(crate) use reference::reference;
pub(crate) use resolve::{LogFormat, Settings};

/// A value as it may be shown: without the user part of a URL, which may be a password.
pub(crate) fn mask(value: &str) -> String {
    match (value.find("://"), value.rfind('@')) {
        (Some(scheme), Some(at)) if scheme < at => format!("{}***{}", &value[..scheme + 3], &value[at..]),
        _ => value.to_owned(),
    }
}

/// One thing that is wrong with the settings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Problem {
    /// The setting, or the file if there is no setting to name.
    pub(crate) name: String,
    /// Where the value came from.
    pub(crate) origin: String,
    /// What is wrong, and what is asked for.
    pub(crate) reason: String,
}

/// All that is wrong with the settings.
#[derive(Debug, thiserror::Error)]
#[error("settings that can't be used:{}", .0.iter().map(|it| format!("\n  {} ({}): {}", it.name, it.origin, it.reason)).collect::<String>())]
pub(crate) struct Problems(pub(crate) Vec<Problem>);

#[cfg(test)]
mod tests {
    use super::mask;

    #[test]
    fn a_password_in_a_url_is_not_shown() {
        assert_eq!(mask("http://user:p@s3cret@host:1"), "http://***@host:1");
        assert_eq!(mask("http://host:1"), "http://host:1");
    }
}
