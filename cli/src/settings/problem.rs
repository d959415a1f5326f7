//! Problems with settings, and how values are shown in them.

/// Masks the user part of a URL, which may contain a password.
pub(crate) fn mask(value: &str) -> String {
    match (value.find("://"), value.rfind('@')) {
        (Some(scheme), Some(at)) if scheme < at => format!("{}***{}", &value[..scheme + 3], &value[at..]),
        _ => value.to_owned(),
    }
}

/// A problem with the settings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Problem {
    /// The setting, or the file if the problem concerns no setting.
    pub(crate) name: String,
    /// The source of the value.
    pub(crate) origin: String,
    /// What is wrong, and what is expected.
    pub(crate) reason: String,
}

/// All problems with the settings.
#[derive(Debug, thiserror::Error)]
#[error("invalid settings:{}", .0.iter().map(|it| format!("\n  {} ({}): {}", it.name, it.origin, it.reason)).collect::<String>())]
pub(crate) struct Problems(pub(crate) Vec<Problem>);

#[cfg(test)]
mod tests {
    use super::mask;

    #[test]
    fn a_password_in_a_url_is_masked() {
        assert_eq!(mask("http://user:p@s3cret@host:1"), "http://***@host:1");
        assert_eq!(mask("http://host:1"), "http://host:1");
    }
}
