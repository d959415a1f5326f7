//! Problems with settings, and the masking of values in them.

use super::names::is_credential;

/// Masks the user part of a URL, which may contain a password.
pub(crate) fn mask(value: &str) -> String {
    match (value.find("://"), value.rfind('@')) {
        (Some(scheme), Some(at)) if scheme < at => format!("{}***{}", &value[..scheme + 3], &value[at..]),
        _ => value.to_owned(),
    }
}

/// Masks the secrets in a value: credentials, the user part of a URL, and header values.
pub(crate) fn mask_setting(name: &str, value: &str) -> String {
    if is_credential(name) {
        return "***".to_owned();
    }
    if !name.ends_with("_HEADERS") {
        return mask(value);
    }
    let names = value.split(',').filter(|pair| !pair.trim().is_empty());
    let masked = names.map(|pair| match pair.split_once('=') {
        Some((name, _)) => format!("{}=***", name.trim()),
        None => "***".to_owned(),
    });
    masked.collect::<Vec<_>>().join(",")
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SettingProblem {
    /// The setting, or the file if the problem concerns no particular setting.
    pub(crate) name: String,
    /// The source of the value.
    pub(crate) origin: String,
    /// What is wrong, and which values are accepted.
    pub(crate) reason: String,
}

/// All problems found in the settings.
#[derive(Debug, thiserror::Error)]
#[error("invalid settings:{}", .0.iter().map(|it| format!("\n  {} ({}): {}", it.name, it.origin, it.reason)).collect::<String>())]
pub(crate) struct SettingProblems(pub(crate) Vec<SettingProblem>);

impl SettingProblem {
    pub(crate) fn new(name: &str, origin: &str, reason: impl Into<String>) -> Self {
        Self { name: name.to_owned(), origin: origin.to_owned(), reason: reason.into() }
    }
}

impl From<SettingProblem> for SettingProblems {
    fn from(problem: SettingProblem) -> Self {
        Self(vec![problem])
    }
}

#[cfg(test)]
mod tests {
    use super::{mask, mask_setting};

    #[test]
    fn the_values_of_headers_are_masked_and_their_names_are_not() {
        let shown = mask_setting("OTEL_EXPORTER_OTLP_HEADERS", "api-key=s3cret, b = s3cret,s3cret");
        assert_eq!(shown, "api-key=***,b=***,***");
    }

    #[test]
    fn a_key_is_masked_whole() {
        assert_eq!(mask_setting("OPENAI_API_KEY", "sk-s3cret"), "***");
    }

    #[test]
    fn a_password_in_a_url_is_masked() {
        assert_eq!(mask("http://user:p@s3cret@host:1"), "http://***@host:1");
        assert_eq!(mask("http://host:1"), "http://host:1");
    }
}
