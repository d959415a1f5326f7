//! The settings of the research tools.

use std::path::PathBuf;

use openskill_worker::config::research::{Allow, Limits, Model, Provider, Research, Secret, Site};
use url::Url;

use crate::settings::names;
use crate::settings::problem::mask;
use crate::settings::reader::Reader;

/// Reads the settings, and the files with keys.
pub(super) fn read(reader: &mut Reader<'_>) -> Research {
    Research { provider: provider(reader), allow: allow(reader), limits: limits(reader), model: model(reader) }
}

#[derive(Debug, Clone, Copy)]
enum Kind {
    None,
    Searxng,
    Brave,
    Tavily,
    Folder,
    Site,
}

fn provider(reader: &mut Reader<'_>) -> Option<Provider> {
    let kinds = [
        ("", Kind::None),
        ("searxng", Kind::Searxng),
        ("brave", Kind::Brave),
        ("tavily", Kind::Tavily),
        ("folder", Kind::Folder),
        ("site", Kind::Site),
    ];
    match reader.one_of(names::RESEARCH_PROVIDER, &kinds) {
        Kind::None => None,
        Kind::Searxng => url(reader, names::RESEARCH_URL, "").map(Provider::Searxng),
        Kind::Brave => {
            let base = url(reader, names::RESEARCH_URL, "https://api.search.brave.com");
            Some(Provider::Brave(base?, needed_key(reader)?))
        }
        Kind::Tavily => {
            let base = url(reader, names::RESEARCH_URL, "https://api.tavily.com");
            Some(Provider::Tavily(base?, needed_key(reader)?))
        }
        Kind::Folder => folder(reader).map(Provider::Folder),
        Kind::Site => site(reader).map(Provider::Site),
    }
}

/// A URL of http or https. `default`: empty if it must be set.
fn url(reader: &mut Reader<'_>, name: &str, default: &str) -> Option<Url> {
    let value = match reader.raw.value(name) {
        "" => default,
        value => value,
    };
    if value.is_empty() {
        reader.problem(name, "this provider needs it: set an http:// or https:// URL".to_owned());
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
    if key.is_empty() {
        let reason = "this provider needs a key: set it, or OPENSKILL_RESEARCH_API_KEY_FILE".to_owned();
        reader.problem(names::RESEARCH_API_KEY, reason);
        return None;
    }
    Some(key)
}

/// A key from a variable or a file. A value that no header can carry is a problem, and never shown.
fn key(reader: &mut Reader<'_>, variable: &str, file: &str) -> Secret {
    let given = reader.raw.value(variable).to_owned();
    let text = match reader.file(file) {
        Some(_) if !given.is_empty() => {
            reader.problem(file, format!("{variable} is set too: set one of them"));
            return Secret::default();
        }
        Some(bytes) => String::from_utf8_lossy(&bytes).trim().to_owned(),
        None => given,
    };
    if !text.chars().all(|it| it.is_ascii_graphic()) {
        reader.problem(variable, "the key must be visible ASCII characters".to_owned());
        return Secret::default();
    }
    Secret::new(&text)
}

fn folder(reader: &mut Reader<'_>) -> Option<PathBuf> {
    let value = reader.raw.value(names::RESEARCH_FOLDER);
    if value.is_empty() {
        reader.problem(names::RESEARCH_FOLDER, "this provider needs it: set the directory of documents".to_owned());
        return None;
    }
    std::path::absolute(value).ok()
}

fn site(reader: &mut Reader<'_>) -> Option<Site> {
    let value = reader.raw.value(names::RESEARCH_URL);
    let texts: Vec<&str> = value.split(',').map(str::trim).filter(|it| !it.is_empty()).collect();
    let starts: Vec<Url> = texts.iter().filter_map(|it| parse(it)).collect();
    if starts.is_empty() || starts.len() < texts.len() || starts.len() > 20 {
        let reason = "this provider needs 1 to 20 http:// or https:// URLs of pages to begin with, separated by commas";
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

fn model(reader: &mut Reader<'_>) -> Option<Model> {
    model_of(
        reader,
        (names::RESEARCH_MODEL_URL, names::RESEARCH_MODEL),
        (names::RESEARCH_MODEL_API_KEY, names::RESEARCH_MODEL_API_KEY_FILE),
    )
}

/// A model with OpenAI's API, by the names of the settings of its URL and its name, and of its key and the file with it.
pub(super) fn model_of(
    reader: &mut Reader<'_>,
    (at, called): (&'static str, &'static str),
    (variable, file): (&'static str, &'static str),
) -> Option<Model> {
    if reader.raw.value(at).is_empty() {
        return None;
    }
    let base = url(reader, at, "")?;
    let name = reader.raw.value(called).to_owned();
    if name.is_empty() {
        reader.problem(called, format!("{at} needs the name of a model"));
        return None;
    }
    let key = key(reader, variable, file);
    Some(Model { base, name, key })
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::settings::raw::Raw;

    fn of(values: &[(&'static str, &str)]) -> (Option<Provider>, String) {
        let flags = values.iter().map(|(name, value)| (*name, (*value).to_owned())).collect();
        let raw = Raw::read(&flags, |_| None, Path::new("/nonexistent"));
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
    fn a_key_is_in_no_problem() {
        let (_, problems) = of(&[(names::RESEARCH_PROVIDER, "brave"), (names::RESEARCH_API_KEY, "s3cret key")]);
        assert!(problems.contains("visible ASCII") && !problems.contains("s3cret"), "{problems}");
        let url = [(names::RESEARCH_PROVIDER, "searxng"), (names::RESEARCH_URL, "http://me:s3cret@a.example/")];
        assert!(!of(&url).1.contains("s3cret") && !of(&url).1.is_empty());
    }
}
