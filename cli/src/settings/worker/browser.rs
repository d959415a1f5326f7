//! The settings of the browser tools.

use openskill_builtins::config::browser::{Browser, QUERY};
use url::Url;

use super::research::{allow, model};
use crate::settings::reader::Reader;

pub(super) fn read(reader: &mut Reader<'_>) -> Browser {
    Browser {
        program: reader.raw.given("OPENSKILL_BROWSER").and_then(|it| std::path::absolute(it).ok()),
        allow: allow(reader, "OPENSKILL_BROWSER_ALLOW"),
        search: search(reader),
        sessions: reader.number("OPENSKILL_BROWSER_SESSIONS", 1, 1000),
        spares: reader.number("OPENSKILL_BROWSER_SPARES", 0, 16),
        tabs: reader.number("OPENSKILL_BROWSER_TABS", 1, 100),
        memory_mb: reader.number("OPENSKILL_BROWSER_MEMORY_MB", 512, 1 << 20) as u64,
        idle: reader.seconds("OPENSKILL_BROWSER_IDLE_S", 1, 86_400),
        age: reader.seconds("OPENSKILL_BROWSER_MAX_AGE_S", 1, 7 * 86_400),
        download_bytes: (reader.number("OPENSKILL_BROWSER_DOWNLOAD_MB", 0, 64) as u64) << 20,
        model: model(reader, "OPENSKILL_BROWSER_MODEL"),
    }
}

fn search(reader: &mut Reader<'_>) -> String {
    let value = reader.raw.value("OPENSKILL_BROWSER_SEARCH_URL").trim().to_owned();
    let parsed = Url::parse(&value.replace(QUERY, "x"));
    let is_web = parsed.is_ok_and(|it| matches!(it.scheme(), "http" | "https") && it.has_host());
    if !is_web || !value.contains(QUERY) {
        let reason = format!("must be an http:// or https:// URL with {QUERY} in it");
        reader.problem("OPENSKILL_BROWSER_SEARCH_URL", reason);
    }
    value
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::raw::RawSettings;

    fn problems(values: &[(&'static str, &str)]) -> String {
        let raw = RawSettings::for_test(values);
        let mut reader = Reader::new(&raw);
        read(&mut reader);
        reader.problems.iter().map(|it| format!("{}: {}\n", it.name, it.reason)).collect()
    }

    #[test]
    fn the_defaults_are_valid_and_those_of_the_worker() {
        assert_eq!(problems(&[]), "");
        let raw = RawSettings::for_test(&[]);
        let read = read(&mut Reader::new(&raw));
        assert_eq!(format!("{read:?}"), format!("{:?}", Browser::default()));
    }

    #[test]
    fn a_search_needs_its_query_and_a_web_address() {
        for url in ["https://a.example/?q=", "file:///{query}", "{query}", ""] {
            let found = problems(&[("OPENSKILL_BROWSER_SEARCH_URL", url)]);
            // An empty value counts as unset.
            assert_eq!(found.is_empty(), url.is_empty(), "{url}: {found}");
        }
        assert_eq!(problems(&[("OPENSKILL_BROWSER_SEARCH_URL", "http://127.0.0.1:8080/find/{query}?a=b")]), "");
    }
}
