//! Which settings are paths, and where relative ones begin.

use std::path::{Path, PathBuf};

/// Settings that name a file or a directory.
const PATHS: [&str; 32] = [
    "OPENSKILL_KEYS",
    "OPENSKILL_JWT",
    "OPENSKILL_TOKEN_FILE",
    "OPENSKILL_TLS_CERT",
    "OPENSKILL_TLS_KEY",
    "OPENSKILL_TLS_CLIENT_CA",
    "OPENSKILL_MESH_CA",
    "OPENSKILL_MESH_CERT",
    "OPENSKILL_MESH_KEY",
    "OPENSKILL_CA",
    "OPENSKILL_CLIENT_CERT",
    "OPENSKILL_CLIENT_KEY",
    "OPENSKILL_MCP_KEY_FILE",
    "OPENSKILL_TRAFFIC_FILE",
    "OPENSKILL_MCP_VIEWS_FILE",
    "OPENSKILL_CLI_DIR",
    "OPENSKILL_ALLOWED_ROOT",
    "OPENSKILL_PYTHON",
    "OPENSKILL_PYTHON_ENVIRONMENTS",
    "OPENSKILL_PYTHON_FIND_LINKS",
    "OPENSKILL_TOOL_INDEX",
    "OPENSKILL_TOOLS_DIR",
    "OPENSKILL_BROWSER",
    "OPENSKILL_BROWSER_MODEL_API_KEY_FILE",
    "OPENSKILL_RESEARCH_API_KEY_FILE",
    "OPENSKILL_RESEARCH_FOLDER",
    "OPENSKILL_RESEARCH_MODEL_API_KEY_FILE",
    "OPENSKILL_TRACE_DIR",
    "OPENSKILL_REDACT_RULES",
    "OPENSKILL_BLOBS",
    "OPENSKILL_AGENT_STORE",
    "OPENSKILL_AGENT_INSTRUCTIONS",
];

fn is_path(name: &str) -> bool {
    let is_certificate = || name.starts_with("OTEL_") && (name.ends_with("_CERTIFICATE") || name.ends_with("_KEY"));
    PATHS.contains(&name) || is_certificate()
}

/// Returns a setting's value with its relative paths below `folder`. Values that are not paths stay.
pub(super) fn below(folder: &Path, name: &str, value: &str) -> String {
    let join = |path: &str| folder.join(path).components().collect::<PathBuf>().to_string_lossy().into_owned();
    let socket = |address: &str| address.trim().strip_prefix("unix:").map(|path| format!("unix:{}", join(path)));
    let each = |separator: char, part: &dyn Fn(&str) -> String| {
        value.split(separator).map(part).collect::<Vec<_>>().join(&separator.to_string())
    };
    match (name, value) {
        ("OPENSKILL_CLI_DIR", _) => each(':', &join),
        ("OPENSKILL_WORKERS" | "OPENSKILL_WORKER_LISTEN", _) => {
            each(',', &|it| socket(it).unwrap_or_else(|| it.to_owned()))
        }
        // A program on PATH, a URL, and words that are not paths.
        ("OPENSKILL_PYTHON", _) if !value.contains('/') => value.to_owned(),
        ("OPENSKILL_PYTHON_FIND_LINKS", _) if value.contains("://") => value.to_owned(),
        ("OPENSKILL_TRACE_DIR" | "OPENSKILL_AGENT_STORE" | "OPENSKILL_TRAFFIC_FILE", "memory" | "off") => {
            value.to_owned()
        }
        ("OPENSKILL_STORE", "memory" | "off") => value.to_owned(),
        ("OPENSKILL_STORE", _) if value.contains("://") => value.to_owned(),
        ("OPENSKILL_STORE", _) => match value.strip_prefix("sqlite:") {
            Some(path) => format!("sqlite:{}", join(path)),
            None => join(value),
        },
        _ if is_path(name) => join(value),
        _ => value.to_owned(),
    }
}

/// Returns the user's directory that a variable such as `XDG_CONFIG_HOME` sets, or else the one in the home directory.
pub(crate) fn user_folder(variable: &str, in_home: &str) -> Option<PathBuf> {
    user_folder_from(variable, in_home, |name| std::env::var_os(name).map(PathBuf::from))
}

pub(super) fn user_folder_from(
    variable: &str,
    in_home: &str,
    get: impl Fn(&str) -> Option<PathBuf>,
) -> Option<PathBuf> {
    let absolute = |name: &str| get(name).filter(|it| it.is_absolute());
    absolute(variable).or_else(|| Some(absolute("HOME")?.join(in_home)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::names::REFERENCE;

    #[test]
    fn every_setting_that_is_described_as_a_path_is_one() {
        let beginnings = ["File", "TOML file", "Directory", "Directories", "Path"];
        let mut count = 0;
        for row in REFERENCE.lines().skip(2) {
            let cells: Vec<_> = row.trim_matches('|').split(" | ").collect();
            let (name, meaning) = (cells[0].trim().trim_matches('`'), cells[4].trim());
            if beginnings.iter().any(|it| meaning.starts_with(it)) {
                assert!(is_path(name), "{name}: {meaning}");
                count += 1;
            }
        }
        assert!(count > 25, "{count}");
    }

    #[test]
    fn relative_paths_begin_in_the_folder_and_other_values_stay() {
        for (name, value, wanted) in [
            ("OPENSKILL_CLI_DIR", "skills:/opt/skills:./more", "/p/skills:/opt/skills:/p/more"),
            ("OPENSKILL_ALLOWED_ROOT", "./data", "/p/data"),
            ("OPENSKILL_PYTHON", "python3", "python3"),
            ("OPENSKILL_PYTHON", ".venv/bin/python", "/p/.venv/bin/python"),
            ("OPENSKILL_WORKERS", "dns://w:1,unix:run/w.sock", "dns://w:1,unix:/p/run/w.sock"),
            ("OPENSKILL_TRACE_DIR", "off", "off"),
            ("OPENSKILL_AGENT_STORE", "state/conversations.sqlite", "/p/state/conversations.sqlite"),
            ("OPENSKILL_PYTHON_FIND_LINKS", "https://example.com/x", "https://example.com/x"),
            ("OPENSKILL_STORE", "state/operations.sqlite", "/p/state/operations.sqlite"),
            ("OPENSKILL_STORE", "sqlite:operations.sqlite", "sqlite:/p/operations.sqlite"),
            ("OPENSKILL_STORE", "postgres://h/d", "postgres://h/d"),
            ("OPENSKILL_LISTEN", "127.0.0.1:1", "127.0.0.1:1"),
        ] {
            assert_eq!(below(Path::new("/p"), name, value), wanted, "{name}");
        }
    }
}
