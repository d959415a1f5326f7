//! The settings of the research tools.

use std::path::PathBuf;

use openskill_builtins::config::research::{Allow, Limits, Provider, Research, Site};
use openskill_model::{AnswerLimits, ProviderConfig, Secret, WireFormat};
use url::Url;

use crate::settings::problem::mask;
use crate::settings::reader::Reader;

/// The maximum length of a model's response stream, in bytes. An event of a hundred bytes or more may carry a
/// single word.
const MAX_STREAM_BYTES: usize = 4 << 20;

/// Reads a search provider.
type ProviderReader = fn(&mut Reader<'_>) -> Option<Provider>;

/// Reads the settings and the key files.
pub(super) fn read(reader: &mut Reader<'_>) -> Research {
    let providers: [(&str, ProviderReader); 6] = [
        ("", |_| None),
        ("searxng", |reader| url(reader, "OPENSKILL_RESEARCH_URL", "").map(Provider::Searxng)),
        ("brave", |reader| {
            let base = url(reader, "OPENSKILL_RESEARCH_URL", "https://api.search.brave.com");
            Some(Provider::Brave(base?, needed_key(reader)?))
        }),
        ("tavily", |reader| {
            let base = url(reader, "OPENSKILL_RESEARCH_URL", "https://api.tavily.com");
            Some(Provider::Tavily(base?, needed_key(reader)?))
        }),
        ("folder", |reader| folder(reader).map(Provider::Folder)),
        ("site", |reader| site(reader).map(Provider::Site)),
    ];
    Research {
        provider: reader.one_of("OPENSKILL_RESEARCH_PROVIDER", &providers)(reader),
        allow: allow(reader, "OPENSKILL_RESEARCH_ALLOW"),
        limits: Limits {
            loops: reader.number("OPENSKILL_RESEARCH_MAX_LOOPS", 1, 50),
            pages: reader.number("OPENSKILL_RESEARCH_MAX_PAGES", 1, 1000),
            bytes: reader.number("OPENSKILL_RESEARCH_MAX_BYTES", 1024, 1 << 30) as u64,
            time: reader.seconds("OPENSKILL_RESEARCH_MAX_SECONDS", 1, 3600),
            tokens: reader.number("OPENSKILL_RESEARCH_MAX_TOKENS", 0, 10_000_000) as u64,
        },
        model: model(reader, "OPENSKILL_RESEARCH_MODEL"),
    }
}

/// Parses an http or https URL. `default` is empty if the setting is required.
fn url(reader: &mut Reader<'_>, name: &str, default: &str) -> Option<Url> {
    let value = reader.raw.given(name).unwrap_or(default);
    if value.is_empty() {
        reader.problem(name, "this provider requires a URL: set an http:// or https:// URL");
        return None;
    }
    let parsed = parse(value);
    if parsed.is_none() {
        reader.problem(name, format!("'{}' is not an http:// or https:// URL without credentials", mask(value)));
    }
    parsed
}

fn parse(text: &str) -> Option<Url> {
    let url = Url::parse(text.trim()).ok()?;
    let is_plain = url.username().is_empty() && url.password().is_none() && url.has_host();
    (is_plain && matches!(url.scheme(), "http" | "https")).then_some(url)
}

fn needed_key(reader: &mut Reader<'_>) -> Option<Secret> {
    let key = key(reader, "OPENSKILL_RESEARCH_API_KEY");
    if key.is_none() {
        let reason = "this provider requires a key: set this variable or OPENSKILL_RESEARCH_API_KEY_FILE";
        reader.problem("OPENSKILL_RESEARCH_API_KEY", reason);
    }
    key
}

/// Reads a key from a variable, or from the file that the variable with `_FILE` names. Reports a value that is invalid
/// in a header without showing it.
fn key(reader: &mut Reader<'_>, variable: &str) -> Option<Secret> {
    let file = format!("{variable}_FILE");
    let given = reader.raw.value(variable).to_owned();
    let text = match reader.file(&file) {
        Some(_) if !given.is_empty() => {
            reader.problem(&file, format!("{variable} is also set: set only one of them"));
            return None;
        }
        Some(bytes) => String::from_utf8_lossy(&bytes).trim().to_owned(),
        None => given,
    };
    if !text.chars().all(|it| it.is_ascii_graphic()) {
        reader.problem(variable, "the key must be visible ASCII characters");
        return None;
    }
    Secret::new(&text)
}

fn folder(reader: &mut Reader<'_>) -> Option<PathBuf> {
    let Some(folder) = reader.raw.given("OPENSKILL_RESEARCH_FOLDER") else {
        let reason = "this provider requires a directory: set the directory of documents";
        reader.problem("OPENSKILL_RESEARCH_FOLDER", reason);
        return None;
    };
    std::path::absolute(folder).ok()
}

fn site(reader: &mut Reader<'_>) -> Option<Site> {
    let starts: Option<Vec<Url>> = reader.raw.list("OPENSKILL_RESEARCH_URL").map(parse).collect();
    let Some(starts) = starts.filter(|it| (1..=20).contains(&it.len())) else {
        let reason = "this provider needs 1 to 20 http:// or https:// URLs of start pages, separated by commas";
        reader.problem("OPENSKILL_RESEARCH_URL", reason);
        return None;
    };
    let pages = reader.number("OPENSKILL_RESEARCH_SITE_PAGES", 1, 50_000);
    let fresh = reader.seconds("OPENSKILL_RESEARCH_SITE_FRESH_S", 1, 30 * 86_400);
    Some(Site { starts, pages, fresh })
}

/// Reads the hosts outside the public internet that a tool may reach.
pub(super) fn allow(reader: &mut Reader<'_>, name: &str) -> Allow {
    let entries: Vec<String> = reader.raw.list(name).map(str::to_owned).collect();
    Allow::parse(&entries).unwrap_or_else(|reason| {
        reader.problem(name, reason);
        Allow::default()
    })
}

/// Configures a model with OpenAI's API. `name` is the setting for the model's name, with which the other settings
/// begin. Returns `None` if its URL is empty.
pub(super) fn model(reader: &mut Reader<'_>, name: &str) -> Option<ProviderConfig> {
    let url_name = format!("{name}_URL");
    reader.raw.given(&url_name)?;
    let mut base = url(reader, &url_name, "")?;
    let path = format!("{}/chat/completions", base.path().trim_end_matches('/'));
    base.set_path(&path);
    base.set_fragment(None);
    let Some(model) = reader.raw.given(name).map(str::to_owned) else {
        reader.problem(name, format!("{url_name} requires a model name"));
        return None;
    };
    let key = key(reader, &format!("{name}_API_KEY"));
    let limits = AnswerLimits { max_bytes: MAX_STREAM_BYTES, ..AnswerLimits::default() };
    let (kind, name, base) = (WireFormat::OpenAiChat, "model".to_owned(), String::from(base));
    Some(ProviderConfig { kind, name, base, key, model, limits })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::raw::RawSettings;

    fn of(values: &[(&'static str, &str)]) -> (Option<Provider>, String) {
        let raw = RawSettings::for_test(values);
        let mut reader = Reader::new(&raw);
        let read = read(&mut reader);
        (read.provider, reader.problems.iter().map(|it| format!("{}: {}\n", it.name, it.reason)).collect())
    }

    #[test]
    fn a_provider_needs_its_settings() {
        assert!(of(&[]).0.is_none() && of(&[]).1.is_empty());
        for (provider, missing) in [
            ("searxng", "OPENSKILL_RESEARCH_URL"),
            ("brave", "OPENSKILL_RESEARCH_API_KEY"),
            ("tavily", "OPENSKILL_RESEARCH_API_KEY"),
            ("folder", "OPENSKILL_RESEARCH_FOLDER"),
            ("site", "OPENSKILL_RESEARCH_URL"),
        ] {
            let (found, problems) = of(&[("OPENSKILL_RESEARCH_PROVIDER", provider)]);
            assert!(found.is_none() && problems.starts_with(missing), "{provider}: {problems}");
        }
        let brave = ("OPENSKILL_RESEARCH_PROVIDER", "brave");
        let (found, problems) = of(&[brave, ("OPENSKILL_RESEARCH_API_KEY", "s3cret")]);
        assert!(problems.is_empty() && !format!("{found:?}").contains("s3cret"), "{problems} {found:?}");
    }

    #[test]
    fn the_url_of_a_model_gets_its_method_and_no_version() {
        for (url, base) in [
            ("http://127.0.0.1:8080/v1/", "http://127.0.0.1:8080/v1/chat/completions"),
            ("https://a.example", "https://a.example/chat/completions"),
            ("https://a.example/b?api-version=1#c", "https://a.example/b/chat/completions?api-version=1"),
        ] {
            let raw =
                RawSettings::for_test(&[("OPENSKILL_RESEARCH_MODEL_URL", url), ("OPENSKILL_RESEARCH_MODEL", "m")]);
            let model = model(&mut Reader::new(&raw), "OPENSKILL_RESEARCH_MODEL").unwrap();
            assert_eq!((model.base.as_str(), model.model.as_str(), model.key), (base, "m", None), "{url}");
        }
    }

    #[test]
    fn a_key_is_in_no_problem() {
        let brave = ("OPENSKILL_RESEARCH_PROVIDER", "brave");
        let (_, problems) = of(&[brave, ("OPENSKILL_RESEARCH_API_KEY", "s3cret key")]);
        assert!(problems.contains("visible ASCII") && !problems.contains("s3cret"), "{problems}");
        let url = ("OPENSKILL_RESEARCH_URL", "http://me:s3cret@a.example/");
        let url = [("OPENSKILL_RESEARCH_PROVIDER", "searxng"), url];
        assert!(!of(&url).1.contains("s3cret") && !of(&url).1.is_empty());
    }
}
