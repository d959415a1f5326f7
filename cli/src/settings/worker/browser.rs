//! The settings of the browser tools.

use openskill_builtins::config::browser::{Browser, QUERY};
use openskill_builtins::config::research::Allow;
use url::Url;

use super::research::{ModelSettings, read_model};
use crate::settings::names;
use crate::settings::reader::Reader;

const MODEL: ModelSettings = ModelSettings {
    url: names::BROWSER_MODEL_URL,
    model: names::BROWSER_MODEL,
    key: names::BROWSER_MODEL_API_KEY,
    key_file: names::BROWSER_MODEL_API_KEY_FILE,
};

pub(super) fn read(reader: &mut Reader<'_>) -> Browser {
    let program = reader.raw.value(names::BROWSER);
    let program = if program.is_empty() { None } else { std::path::absolute(program).ok() };
    Browser {
        program,
        allow: allow(reader),
        search: search(reader),
        sessions: reader.number(names::BROWSER_SESSIONS, 1, 1000),
        spares: reader.number(names::BROWSER_SPARES, 0, 16),
        tabs: reader.number(names::BROWSER_TABS, 1, 100),
        memory_mb: reader.number(names::BROWSER_MEMORY_MB, 512, 1 << 20) as u64,
        idle: reader.seconds(names::BROWSER_IDLE, 1, 86_400),
        age: reader.seconds(names::BROWSER_MAX_AGE, 1, 7 * 86_400),
        download_bytes: (reader.number(names::BROWSER_DOWNLOAD_MB, 0, 64) as u64) << 20,
        model: read_model(reader, &MODEL),
    }
}

fn allow(reader: &mut Reader<'_>) -> Allow {
    let value = reader.raw.value(names::BROWSER_ALLOW);
    let entries: Vec<String> = value.split(',').map(str::trim).filter(|it| !it.is_empty()).map(str::to_owned).collect();
    Allow::parse(&entries).unwrap_or_else(|reason| {
        reader.problem(names::BROWSER_ALLOW, reason);
        Allow::default()
    })
}

fn search(reader: &mut Reader<'_>) -> String {
    let value = reader.raw.value(names::BROWSER_SEARCH_URL).trim().to_owned();
    let parsed = Url::parse(&value.replace(QUERY, "x"));
    let is_web = parsed.is_ok_and(|it| matches!(it.scheme(), "http" | "https") && it.has_host());
    if !is_web || !value.contains(QUERY) {
        let reason = format!("must be an http:// or https:// URL with {QUERY} in it");
        reader.problem(names::BROWSER_SEARCH_URL, reason);
    }
    value
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::settings::raw::RawSettings;

    fn problems(values: &[(&'static str, &str)]) -> String {
        let flags = values.iter().map(|(name, value)| (*name, (*value).to_owned())).collect();
        let raw = RawSettings::read(&flags, |_| None, Path::new("/nonexistent"));
        let mut reader = Reader::new(&raw);
        read(&mut reader);
        reader.problems.iter().map(|it| format!("{}: {}\n", it.name, it.reason)).collect()
    }

    #[test]
    fn the_defaults_are_valid_and_those_of_the_worker() {
        assert_eq!(problems(&[]), "");
        let raw = RawSettings::read(&Default::default(), |_| None, Path::new("/nonexistent"));
        let read = read(&mut Reader::new(&raw));
        assert_eq!(format!("{read:?}"), format!("{:?}", Browser::default()));
    }

    #[test]
    fn a_search_needs_its_query_and_a_web_address() {
        for url in ["https://a.example/?q=", "file:///{query}", "{query}", ""] {
            let found = problems(&[(names::BROWSER_SEARCH_URL, url)]);
            // An empty value counts as unset.
            assert_eq!(found.is_empty(), url.is_empty(), "{url}: {found}");
        }
        assert_eq!(problems(&[(names::BROWSER_SEARCH_URL, "http://127.0.0.1:8080/find/{query}?a=b")]), "");
    }
}
