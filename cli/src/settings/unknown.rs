//! Finds variables and keys that look like settings but are unknown.

use super::names::{ALL, Setting, is_known};

/// The minimum similarity for a name to count as a misspelling.
const MIN_SIMILARITY: f64 = 0.85;

/// Returns environment variables that have the prefix of settings but are unknown, each with a suggested setting.
/// They are reported rather than rejected, since other programs and Kubernetes set such variables too.
pub(crate) fn unknown_variables() -> Vec<String> {
    unknown(std::env::vars_os().filter_map(|(name, _)| name.into_string().ok()))
}

fn unknown(names: impl IntoIterator<Item = String>) -> Vec<String> {
    let is_ours = |name: &String| name.starts_with("OPENSKILL_") && !is_known(name) && !is_foreign(name);
    let mut found: Vec<_> = names.into_iter().filter(is_ours).collect();
    found.sort();
    let describe = |name: String| match nearest(&name) {
        Some(near) => format!("{name} (did you mean {}?)", near.name),
        None => name,
    };
    found.into_iter().map(describe).collect()
}

/// Variables of skills, of deploy/compose.sh and its images, of builds and tests, and the one that names the file with
/// settings, without the prefix.
const OTHERS: [&str; 24] = [
    "CALL_ID",
    "SESSION_ID",
    "SKILL_ID",
    "PRINCIPAL",
    "TRACE_ID",
    "EVENTS_FD",
    "EVENTS_MARK",
    "TAG",
    "SECRETS",
    "SECURE",
    "OWN_DATA",
    "OWN_SKILLS",
    "OFFLINE",
    "APPARMOR",
    "BINARY",
    "GATEWAY_BINARY",
    "COMMIT",
    "VERSION",
    "BIN",
    "GATEWAY_BIN",
    "COMPLETE",
    "RECORD_INSTRUCTIONS",
    "RELEASE_CONTRACT",
    "CONFIG",
];

/// Whether a variable is not meant as a setting: it is one of [`OTHERS`], or Kubernetes sets it in pods for a service
/// called `openskill`.
pub(super) fn is_foreign(name: &str) -> bool {
    let rest = name.trim_start_matches("OPENSKILL_");
    let is_of_service = rest == "PORT" || rest.starts_with("PORT_") || rest.contains("SERVICE_");
    let is_of_tests = rest.starts_with("TEST_") || rest.starts_with("FUZZ_");
    OTHERS.contains(&rest) || is_of_tests || is_of_service
}

/// Returns the setting that is most similar to this variable, or to this key of `openskill.toml`.
pub(super) fn nearest(name: &str) -> Option<&'static Setting> {
    // Keys lack the common prefix.
    let own = name.strip_prefix("OPENSKILL_").unwrap_or(name).to_ascii_lowercase();
    let scored = ALL.iter().filter_map(|setting| {
        // A name without its unit or with an omitted part, such as TIMEOUT or TRACES_DIR.
        let is_part = own.len() >= 4 && (setting.key.starts_with(&own) || own.starts_with(setting.key));
        let score = strsim::jaro_winkler(&own, setting.key).max(if is_part { MIN_SIMILARITY } else { 0.0 });
        (score >= MIN_SIMILARITY).then_some((score, setting))
    });
    scored.max_by(|one, other| one.0.total_cmp(&other.0)).map(|(_, setting)| setting)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(names: &[&str]) -> Vec<String> {
        unknown(names.iter().map(|it| (*it).to_owned()))
    }

    #[test]
    fn a_misspelled_variable_is_named_with_what_was_meant() {
        for (name, near) in [
            ("OPENSKILL_TIMEOUT", "OPENSKILL_TIMEOUT_MS"),
            ("OPENSKILL_LISTN", "OPENSKILL_LISTEN"),
            ("OPENSKILL_ALLOWD_ROOT", "OPENSKILL_ALLOWED_ROOT"),
            ("OPENSKILL_HTTP_BASEURL", "OPENSKILL_HTTP_BASE_URL"),
        ] {
            assert_eq!(told(&[name]), [format!("{name} (did you mean {near}?)")]);
        }
        assert_eq!(told(&["OPENSKILL_QUUX"]), ["OPENSKILL_QUUX"]);
        assert_eq!(nearest("lisen").map(|it| it.key), Some("listen"));
    }

    #[test]
    fn what_the_pages_and_scripts_of_this_project_tell_people_to_set_is_not_named() {
        let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let mut folders = vec![root.join("docs"), root.join("deploy")];
        let mut files = ["README.md", "CONTRIBUTING.md", "Makefile"].map(|it| root.join(it)).to_vec();
        while let Some(folder) = folders.pop() {
            for path in folder.read_dir().unwrap().map(|it| it.unwrap().path()) {
                if path.is_dir() { folders.push(path) } else { files.push(path) }
            }
        }
        let mut names = std::collections::BTreeSet::new();
        for text in files.iter().filter_map(|file| std::fs::read_to_string(file).ok()) {
            let words = text.split(|it: char| !it.is_ascii_uppercase() && !it.is_ascii_digit() && it != '_');
            // `OPENSKILL_AGENT_*` stands for several.
            names.extend(words.filter(|it| it.starts_with("OPENSKILL_") && !it.ends_with('_')).map(str::to_owned));
        }
        assert!(names.contains("OPENSKILL_TAG") && names.contains("OPENSKILL_LISTEN"), "{names:?}");
        assert_eq!(unknown(names), Vec::<String>::new());
    }

    #[test]
    fn settings_and_what_other_programs_set_are_not_named() {
        let fine = [
            "OPENSKILL_LISTEN",
            "OPENSKILL_TRACE_ID",
            "OPENSKILL_SERVICE_HOST",
            "OPENSKILL_GATEWAY_SERVICE_PORT_HTTP",
            "OPENSKILL_PORT",
            "OPENSKILL_PORT_8000_TCP_ADDR",
            "OPENSKILL_TEST_REQUIRE",
            "PATH",
        ];
        assert_eq!(told(&fine), Vec::<String>::new());
    }
}
