//! The settings of the research tools.

use std::path::PathBuf;

use openskill_builtins::config::research::{Allow, Limits, Provider, Research, Site};
use openskill_model::{AnswerLimits, ProviderConfig, Secret, WireFormat};
use url::Url;

use crate::settings::names;
use crate::settings::problem::mask;
use crate::settings::reader::Reader;

/// Reads the settings and the key files.
pub(super) fn read(reader: &mut Reader<'_>) -> Research {
    Research { provider: provider(reader), allow: allow(reader), limits: limits(reader), model: model(reader) }
}

#[derive(Debug, Clone, Copy)]
enum ProviderKind {
    None,
    Searxng,
    Brave,
    Tavily,
    Folder,
    Site,
}

fn provider(reader: &mut Reader<'_>) -> Option<Provider> {
    let kinds = [
        ("", ProviderKind::None),
        ("searxng", ProviderKind::Searxng),
        ("brave", ProviderKind::Brave),
        ("tavily", ProviderKind::Tavily),
        ("folder", ProviderKind::Folder),
        ("site", ProviderKind::Site),
    ];
    match reader.one_of(names::RESEARCH_PROVIDER, &kinds) {
        ProviderKind::None => None,
        ProviderKind::Searxng => url(reader, names::RESEARCH_URL, "").map(Provider::Searxng),
        ProviderKind::Brave => {
            let base = url(reader, names::RESEARCH_URL, "https://api.search.brave.com");
            Some(Provider::Brave(base?, needed_key(reader)?))
        }
        ProviderKind::Tavily => {
            let base = url(reader, names::RESEARCH_URL, "https://api.tavily.com");
            Some(Provider::Tavily(base?, needed_key(reader)?))
        }
        ProviderKind::Folder => folder(reader).map(Provider::Folder),
        ProviderKind::Site => site(reader).map(Provider::Site),
    }
}

/// Parses an http or https URL. `default` is empty if the setting is required.
fn url(reader: &mut Reader<'_>, name: &str, default: &str) -> Option<Url> {
    let value = match reader.raw.value(name) {
        "" => default,
        value => value,
    };
    if value.is_empty() {
        reader.problem(name, "this provider requires a URL: set an http:// or https:// URL".to_owned());
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
    let key = key(reader, names::RESEARCH_API_KEY, names::RESEARCH_API_KEY_FILE);
    if key.is_none() {
        let reason = "this provider requires a key: set this variable or OPENSKILL_RESEARCH_API_KEY_FILE".to_owned();
        reader.problem(names::RESEARCH_API_KEY, reason);
    }
    key
}

/// Reads a key from a variable or a file. Reports a value that is invalid in a header without showing it.
fn key(reader: &mut Reader<'_>, variable: &str, file: &str) -> Option<Secret> {
    let given = reader.raw.value(variable).to_owned();
    let text = match reader.file(file) {
        Some(_) if !given.is_empty() => {
            reader.problem(file, format!("{variable} is also set: set only one of them"));
            return None;
        }
        Some(bytes) => String::from_utf8_lossy(&bytes).trim().to_owned(),
        None => given,
    };
    if !text.chars().all(|it| it.is_ascii_graphic()) {
        reader.problem(variable, "the key must be visible ASCII characters".to_owned());
        return None;
    }
    Secret::new(&text)
}

fn folder(reader: &mut Reader<'_>) -> Option<PathBuf> {
    let value = reader.raw.value(names::RESEARCH_FOLDER);
    if value.is_empty() {
        reader.problem(
            names::RESEARCH_FOLDER,
            "this provider requires a directory: set the directory of documents".to_owned(),
        );
        return None;
    }
    std::path::absolute(value).ok()
}

fn site(reader: &mut Reader<'_>) -> Option<Site> {
    let value = reader.raw.value(names::RESEARCH_URL);
    let texts: Vec<&str> = value.split(',').map(str::trim).filter(|it| !it.is_empty()).collect();
    let starts: Vec<Url> = texts.iter().filter_map(|it| parse(it)).collect();
    if starts.is_empty() || starts.len() < texts.len() || starts.len() > 20 {
        let reason = "this provider needs 1 to 20 http:// or https:// URLs of start pages, separated by commas";
        reader.problem(names::RESEARCH_URL, reason.to_owned());
        return None;
    }
    let pages = reader.number(names::RESEARCH_SITE_PAGES, 1, 50_000);
    let fresh = reader.seconds(names::RESEARCH_SITE_FRESH, 1, 30 * 86_400);
    Some(Site { starts, pages, fresh })
}

fn allow(reader: &mut Reader<'_>) -> Allow {
    let value = reader.raw.value(names::RESEARCH_ALLOW);
    let entries: Vec<String> = value.split(',').map(str::trim).filter(|it| !it.is_empty()).map(str::to_owned).collect();
    Allow::parse(&entries).unwrap_or_else(|reason| {
        reader.problem(names::RESEARCH_ALLOW, reason);
        Allow::default()
    })
}

fn limits(reader: &mut Reader<'_>) -> Limits {
    Limits {
        loops: reader.number(names::RESEARCH_MAX_LOOPS, 1, 50),
        pages: reader.number(names::RESEARCH_MAX_PAGES, 1, 1000),
        bytes: reader.number(names::RESEARCH_MAX_BYTES, 1024, 1 << 30) as u64,
        time: reader.seconds(names::RESEARCH_MAX_SECONDS, 1, 3600),
        tokens: reader.number(names::RESEARCH_MAX_TOKENS, 0, 10_000_000) as u64,
    }
}

fn model(reader: &mut Reader<'_>) -> Option<ProviderConfig> {
    let settings = ModelSettings {
        url: names::RESEARCH_MODEL_URL,
        model: names::RESEARCH_MODEL,
        key: names::RESEARCH_MODEL_API_KEY,
        key_file: names::RESEARCH_MODEL_API_KEY_FILE,
    };
    read_model(reader, &settings)
}

/// The setting names of one model.
pub(super) struct ModelSettings {
    pub(super) url: &'static str,
    /// The setting for the model's name.
    pub(super) model: &'static str,
    /// The setting for the API key.
    pub(super) key: &'static str,
    /// The setting for the file that contains the API key.
    pub(super) key_file: &'static str,
}

/// The maximum length of a model's response stream, in bytes. An event of a hundred bytes or more may carry a
/// single word.
const MAX_STREAM_BYTES: usize = 4 << 20;

/// Configures a model with OpenAI's API. Returns `None` if its URL is empty.
pub(super) fn read_model(reader: &mut Reader<'_>, settings: &ModelSettings) -> Option<ProviderConfig> {
    if reader.raw.value(settings.url).is_empty() {
        return None;
    }
    let mut base = url(reader, settings.url, "")?;
    let path = format!("{}/chat/completions", base.path().trim_end_matches('/'));
    base.set_path(&path);
    base.set_fragment(None);
    let model = reader.raw.value(settings.model).to_owned();
    if model.is_empty() {
        reader.problem(settings.model, format!("{} requires a model name", settings.url));
        return None;
    }
    let key = key(reader, settings.key, settings.key_file);
    let limits = AnswerLimits { max_bytes: MAX_STREAM_BYTES, ..AnswerLimits::default() };
    let (kind, name, base) = (WireFormat::OpenAiChat, "model".to_owned(), String::from(base));
    Some(ProviderConfig { kind, name, base, key, model, limits })
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::settings::raw::RawSettings;

    fn of(values: &[(&'static str, &str)]) -> (Option<Provider>, String) {
        let flags = values.iter().map(|(name, value)| (*name, (*value).to_owned())).collect();
        let raw = RawSettings::read(&flags, |_| None, Path::new("/nonexistent"));
        let mut reader = Reader::new(&raw);
        let read = read(&mut reader);
        (read.provider, reader.problems.iter().map(|it| format!("{}: {}\n", it.name, it.reason)).collect())
    }

    #[test]
    fn a_provider_needs_its_settings() {
        assert!(of(&[]).0.is_none() && of(&[]).1.is_empty());
        for (provider, missing) in [
            ("searxng", names::RESEARCH_URL),
            ("brave", names::RESEARCH_API_KEY),
            ("tavily", names::RESEARCH_API_KEY),
            ("folder", names::RESEARCH_FOLDER),
            ("site", names::RESEARCH_URL),
        ] {
            let (found, problems) = of(&[(names::RESEARCH_PROVIDER, provider)]);
            assert!(found.is_none() && problems.starts_with(missing), "{provider}: {problems}");
        }
        let (found, problems) = of(&[(names::RESEARCH_PROVIDER, "brave"), (names::RESEARCH_API_KEY, "s3cret")]);
        assert!(problems.is_empty() && !format!("{found:?}").contains("s3cret"), "{problems} {found:?}");
    }

    #[test]
    fn the_url_of_a_model_gets_its_method_and_no_version() {
        for (url, base) in [
            ("http://127.0.0.1:8080/v1/", "http://127.0.0.1:8080/v1/chat/completions"),
            ("https://a.example", "https://a.example/chat/completions"),
            ("https://a.example/b?api-version=1#c", "https://a.example/b/chat/completions?api-version=1"),
        ] {
            let values = [(names::RESEARCH_MODEL_URL, url), (names::RESEARCH_MODEL, "m")];
            let flags = values.iter().map(|(name, value)| (*name, (*value).to_owned())).collect();
            let raw = RawSettings::read(&flags, |_| None, Path::new("/nonexistent"));
            let model = model(&mut Reader::new(&raw)).unwrap();
            assert_eq!((model.base.as_str(), model.model.as_str(), model.key), (base, "m", None), "{url}");
        }
    }

    #[test]
    fn a_key_is_in_no_problem() {
        let (_, problems) = of(&[(names::RESEARCH_PROVIDER, "brave"), (names::RESEARCH_API_KEY, "s3cret key")]);
        assert!(problems.contains("visible ASCII") && !problems.contains("s3cret"), "{problems}");
        let url = [(names::RESEARCH_PROVIDER, "searxng"), (names::RESEARCH_URL, "http://me:s3cret@a.example/")];
        assert!(!of(&url).1.contains("s3cret") && !of(&url).1.is_empty());
    }
}
