//! What a test needs of its machine. Every skip goes through here.
//!
//! A test whose machine lacks something says so and passes. `OPENSKILL_TEST_REQUIRE` lists, with commas between, what the
//! machine has: a test that misses something on that list fails instead. The unit tests of some crates include this file
//! too, so it uses the standard library only.

/// Lists what must be here: names of [`Need`], with commas between.
pub const VARIABLE: &str = "OPENSKILL_TEST_REQUIRE";

/// What a machine may lack.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Need {
    /// A container engine that answers.
    Docker,
    /// Docker Compose, v2 or v1, and a base image for it.
    Compose,
    /// Chromium, and namespaces for it.
    Browser,
    /// Root, and a kernel with everything that the jail uses.
    Jail,
    /// Python 3.12 or newer, beside the oldest that is supported.
    Python,
    /// The virtual environment that `make test-venv` makes.
    Venv,
    /// Control groups of memory and processes that can be written.
    Cgroups,
    /// The kernel's headers, and its lists of children in `/proc`.
    Kernel,
    /// `promtool` of Prometheus on `PATH`.
    Promtool,
    /// `rg` and `jq` on `PATH`.
    Programs,
    /// nginx.
    Nginx,
    /// A `kubectl` that has kustomize.
    Kubectl,
    /// Prometheus.
    Prometheus,
    /// The program without a worker, which `make gateway` builds.
    Gateway,
    /// Envoy, which `make test-venv` installs.
    Envoy,
    /// Node.js 20 or newer on `PATH`.
    Node,
    /// Java 11 or newer on `PATH`.
    Java,
    /// PostgreSQL 18, which `make test-venv` installs.
    Postgres,
    /// PostgreSQL 15 of Debian 12, which has TLS.
    OldestPostgres,
}

const ALL: [(&str, Need); 19] = [
    ("browser", Need::Browser),
    ("docker", Need::Docker),
    ("compose", Need::Compose),
    ("jail", Need::Jail),
    ("python", Need::Python),
    ("venv", Need::Venv),
    ("cgroups", Need::Cgroups),
    ("kernel", Need::Kernel),
    ("promtool", Need::Promtool),
    ("programs", Need::Programs),
    ("nginx", Need::Nginx),
    ("kubectl", Need::Kubectl),
    ("prometheus", Need::Prometheus),
    ("gateway", Need::Gateway),
    ("envoy", Need::Envoy),
    ("node", Need::Node),
    ("java", Need::Java),
    ("postgres", Need::Postgres),
    ("postgres-15", Need::OldestPostgres),
];

/// Says what the running test skips and why.
///
/// # Panics
/// If `OPENSKILL_TEST_REQUIRE` names this need, or something that is no need.
#[allow(clippy::panic, clippy::print_stderr, reason = "for tests")]
pub fn skip(need: Need, reason: &str) {
    let list = std::env::var(VARIABLE).unwrap_or_default();
    let required = required(&list).unwrap_or_else(|message| panic!("{VARIABLE}: {message}"));
    let thread = std::thread::current();
    let test = thread.name().unwrap_or("a test");
    assert!(!required.contains(&need), "{test} must not be skipped, {VARIABLE} is '{list}': {reason}");
    eprintln!("SKIPPED {test}: {reason}");
}

fn required(list: &str) -> Result<Vec<Need>, String> {
    let words = list.split(',').map(str::trim).filter(|word| !word.is_empty());
    let need = |word: &str| ALL.iter().find(|(name, _)| *name == word).map(|(_, need)| *need);
    words.map(|word| need(word).ok_or_else(|| format!("'{word}' is none of {:?}", ALL.map(|(name, _)| name)))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_names_needs_and_nothing_else() {
        assert_eq!(required("docker, jail"), Ok(vec![Need::Docker, Need::Jail]));
        assert_eq!(required(""), Ok(Vec::new()));
        assert!(required("docker,jial").unwrap_err().contains("'jial'"));
    }
}
