//! Builds the URL of an API method from a configured base URL. Does no I/O.

use reqwest::Url;

/// Validates a base URL, and appends the API version if it is missing.
///
/// # Errors
/// The URL can't be used. The message does not quote it, because it may contain a credential.
pub(crate) fn base(text: &str, version: &str) -> Result<Url, String> {
    let text = text.trim();
    let mut url = Url::parse(text).map_err(|error| format!("is not a URL: {error}"))?;
    if !matches!(url.scheme(), "http" | "https") {
        return Err(format!("has the scheme '{}': only http and https are supported", url.scheme()));
    }
    if url.host_str().is_none_or(str::is_empty) {
        return Err("has no host".to_owned());
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err("contains credentials, which would end up in logs: set the key separately".to_owned());
    }
    // Azure selects its API version in the query of the method's URL.
    if url.fragment().is_some() || url.query().is_some() && !is_method(url.path()) {
        return Err("has a query or a fragment, which a base URL cannot have".to_owned());
    }
    let path = url.path().trim_end_matches('/').to_owned();
    let path = if path.split('/').any(is_version) || is_method(&path) { path } else { format!("{path}/{version}") };
    url.set_path(&path);
    Ok(url)
}

/// Returns the URL of a method below a base URL. If the base URL already ends with the method, returns it
/// unchanged.
pub(crate) fn method(base: &Url, segments: &[&str]) -> Url {
    let mut url = base.clone();
    if is_method(base.path()) {
        return url;
    }
    // Fails only for URLs that cannot be a base, which excludes http and https.
    if let Ok(mut path) = url.path_segments_mut() {
        path.pop_if_empty().extend(segments);
    }
    url
}

/// Returns whether the URL's host is `host` or one of its subdomains.
pub(crate) fn is_host(url: &Url, host: &str) -> bool {
    let of = url.host_str().unwrap_or_default();
    of == host || of.strip_suffix(host).is_some_and(|rest| rest.ends_with('.'))
}

/// Returns whether a path segment is an API version, such as `v1` or `v1beta`.
fn is_version(segment: &str) -> bool {
    let rest = segment.strip_prefix('v').unwrap_or_default();
    rest.starts_with(|it: char| it.is_ascii_digit()) && rest.chars().all(|it| it.is_ascii_alphanumeric() || it == '.')
}

fn is_method(path: &str) -> bool {
    ["/chat/completions", "/responses", "/messages"].iter().any(|method| path.ends_with(method))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bases_are_taken_as_people_write_them() {
        for (written, used) in [
            ("https://api.openai.com/v1", "https://api.openai.com/v1/chat/completions"),
            ("https://api.openai.com/v1/", "https://api.openai.com/v1/chat/completions"),
            ("https://api.openai.com", "https://api.openai.com/v1/chat/completions"),
            (" http://localhost:11434/ ", "http://localhost:11434/v1/chat/completions"),
            (
                "https://dashscope.aliyuncs.com/compatible-mode/v1",
                "https://dashscope.aliyuncs.com/compatible-mode/v1/chat/completions",
            ),
            (
                "https://dashscope.aliyuncs.com/compatible-mode//",
                "https://dashscope.aliyuncs.com/compatible-mode/v1/chat/completions",
            ),
            ("https://open.bigmodel.cn/api/paas/v4", "https://open.bigmodel.cn/api/paas/v4/chat/completions"),
            ("https://host/v1beta/openai/", "https://host/v1beta/openai/chat/completions"),
            ("https://host/inference/chat/completions", "https://host/inference/chat/completions"),
            ("https://host/a/chat/completions?api-version=1", "https://host/a/chat/completions?api-version=1"),
        ] {
            let base = base(written, "v1").unwrap();
            assert_eq!(method(&base, &["chat", "completions"]).as_str(), used, "{written}");
        }
        let gemini = base("https://generativelanguage.googleapis.com", "v1beta").unwrap();
        let url = method(&gemini, &["models", "a/b:c?d"]);
        assert_eq!(url.as_str(), "https://generativelanguage.googleapis.com/v1beta/models/a%2Fb:c%3Fd");
    }

    #[test]
    fn bases_that_leak_or_lead_nowhere_are_refused() {
        for (written, reason) in [
            ("https://user:sk-secret@host/v1", "credentials"),
            ("https://sk-secret@host/v1", "credentials"),
            ("ftp://host", "scheme 'ftp'"),
            ("file:///etc/passwd", "scheme 'file'"),
            ("localhost:11434", "scheme 'localhost'"),
            ("https://host/v1?key=sk-secret", "query"),
            ("api.openai.com/v1", "not a URL"),
            ("", "not a URL"),
        ] {
            let refused = base(written, "v1").unwrap_err();
            assert!(refused.contains(reason) && !refused.contains("sk-secret"), "{written}: {refused}");
        }
    }

    #[test]
    fn hosts_are_told_apart() {
        let url = |text: &str| Url::parse(text).unwrap();
        assert!(is_host(&url("https://api.openai.com/v1"), "api.openai.com"));
        assert!(is_host(&url("https://eu.api.openai.com/v1"), "api.openai.com"));
        assert!(!is_host(&url("https://evil-api.openai.com.example/v1"), "api.openai.com"));
        assert!(!is_host(&url("https://notapi.openai.com/v1"), "api.openai.com"));
    }
}
