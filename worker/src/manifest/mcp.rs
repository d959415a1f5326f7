//! The settings of an MCP server: how to connect to it, and which tools become skills.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use openskill_net::egress::allow::Allowed;
use openskill_skill::patterns;
use openskill_text::glob;
use serde::{Deserialize, Deserializer};
use serde_json::Value;
use url::Url;

use super::checks::{ManifestFault, beside, refuse};
use super::python::Needs;
use super::rules::Approval;

/// The maximum length of each list in a manifest: command-line elements, headers, patterns and overrides.
const MAX_ENTRIES: usize = 256;

/// The maximum pool size, and the maximum concurrency limit of a connection.
const MAX_POOL: usize = 16;
const MAX_CALLS: usize = 1024;

/// The maximum start timeout, in seconds.
const MAX_START_S: u64 = 300;

/// An MCP server whose tools become skills.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Mcp {
    /// The parts of `reach` that the manifest's block contains.
    args: Vec<String>,
    headers: BTreeMap<String, String>,
    allow: Vec<String>,
    /// The tools that become skills.
    pub tools: Filter,
    /// Overrides of the server's hints, by tool name.
    pub overrides: BTreeMap<String, Override>,
    /// What happens when a tool's definition changes.
    pub pin: Pinning,
    /// The number of connections (with `mcp:stdio`: processes) that share the calls.
    pub pool: usize,
    /// The concurrency limit of each connection.
    pub calls: usize,
    /// The timeout for the start and the handshake together.
    #[serde(rename = "start_s", deserialize_with = "seconds")]
    pub start: Duration,
    /// Whether the process sees nothing of the worker. It gets no library, and an allowed root only if the
    /// manifest sets one.
    pub isolated: bool,
    /// How to connect to the server.
    #[serde(skip)]
    pub reach: Reach,
    /// The path of the lock file with the pins, which may not exist.
    #[serde(skip)]
    pub lock: PathBuf,
    /// The Python environment that the program requires.
    #[serde(skip)]
    pub needs: Needs,
}

impl Default for Mcp {
    fn default() -> Self {
        Self {
            args: Vec::new(),
            headers: BTreeMap::new(),
            allow: Vec::new(),
            tools: Filter::default(),
            overrides: BTreeMap::new(),
            pin: Pinning::Warn,
            pool: 1,
            calls: 32,
            start: Duration::from_secs(10),
            isolated: false,
            reach: Reach::Stdio { program: Program::Name(String::new()), args: Vec::new() },
            lock: PathBuf::new(),
            needs: Needs::default(),
        }
    }
}

fn seconds<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
    u64::deserialize(deserializer).map(Duration::from_secs)
}

/// How to connect to a server.
#[derive(Debug, Clone, PartialEq)]
pub enum Reach {
    /// A child process that communicates over stdin and stdout.
    Stdio {
        /// The program to start.
        program: Program,
        /// The literal command-line arguments.
        args: Vec<String>,
    },
    /// A server that is reached over streamable HTTP.
    Http {
        /// The URL of the server's MCP endpoint.
        url: String,
        /// The headers of each request: names and values. `${NAME}` in a value is a variable of the worker.
        headers: Vec<(String, String)>,
        /// The hosts and networks outside the public internet that it may reach.
        allowed: Allowed,
    },
}

/// The program that runs a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Program {
    /// The file at this absolute path.
    File(PathBuf),
    /// The first program with this name on the worker's `PATH`.
    Name(String),
    /// The program with this name in the server's Python environment.
    Installed(String),
    /// The script at this absolute path, run by the interpreter of that environment.
    Script(PathBuf),
}

/// Selects tools by name. `*` matches any text.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Filter {
    /// Selects only tools that match one of these patterns. Empty selects all.
    pub include: Vec<String>,
    /// Excludes tools that match one of these patterns.
    pub exclude: Vec<String>,
}

/// Overrides the server's hints about one tool.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Override {
    /// Whether repeating an identical call has no additional effect.
    pub idempotent: Option<bool>,
    /// Whether the tool may delete or overwrite things.
    pub destructive: Option<bool>,
    /// Whether the tool changes nothing and sends nothing to others.
    pub read_only: Option<bool>,
    /// Whether each call needs the user's approval.
    pub approval: Option<Approval>,
    /// Whether an identical call right after the first one is intended.
    pub repeatable: Option<bool>,
    /// Whether its results contain text from untrusted sources.
    pub untrusted: Option<bool>,
    /// The deadline of its calls.
    pub timeout_ms: Option<u32>,
}

/// What happens when a tool's definition changes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Pinning {
    /// Log the change, and use the new definition.
    #[default]
    Warn,
    /// Make the tool unavailable until it is pinned again.
    Strict,
}

/// A tool that an MCP server offers.
#[derive(Debug, Clone, PartialEq)]
pub struct McpTool {
    /// The id of the server's manifest.
    pub server: String,
    /// The name that the server gives the tool.
    pub tool: String,
    /// The digests of the parts of its definition, by part name.
    pub pin: BTreeMap<String, String>,
}

impl Mcp {
    /// Returns the files of a server's process: its program, and the scripts among its arguments. Excludes
    /// relative paths, which are not relative to the manifest's folder.
    pub(crate) fn own_files(&self) -> Vec<PathBuf> {
        let Reach::Stdio { program, args } = &self.reach else { return Vec::new() };
        let program = match program {
            Program::File(file) | Program::Script(file) => Some(file.clone()),
            Program::Name(_) | Program::Installed(_) => None,
        };
        let scripts = args.iter().filter(|arg| arg.starts_with('/') && arg.ends_with(".py")).map(PathBuf::from);
        program.into_iter().chain(scripts).collect()
    }
}

impl Filter {
    /// Returns whether a tool with this name becomes a skill.
    pub(crate) fn takes(&self, name: &str) -> bool {
        let any = |patterns: &[String]| patterns.iter().any(|pattern| glob::matches(pattern, name, true));
        (self.include.is_empty() || any(&self.include)) && !any(&self.exclude)
    }
}

/// Checks a server's schema against the rules for manifests. Drops unusable regular expressions, because the
/// server checks arguments itself.
pub(crate) fn usable_schema(mut schema: Value, of_arguments: bool) -> Result<Value, String> {
    let field = if of_arguments { "input schema" } else { "output schema" };
    let mut checked = super::schema::check(field, &schema, of_arguments);
    if checked.is_err() && patterns::drop_unusable(&mut schema) {
        checked = super::schema::check(field, &schema, of_arguments);
    }
    checked.map_err(|fault| format!("its {field} can't be used: {}", fault.reason))
}

/// The settings outside the `mcp` block that concern the server.
pub(super) struct Declared<'a> {
    pub(super) id: &'a str,
    pub(super) entry: &'a str,
    /// The variables that headers may contain.
    pub(super) env: &'a [String],
    /// Whether the runner is `mcp:http` rather than `mcp:stdio`.
    pub(super) over_http: bool,
}

impl Mcp {
    /// Validates the block of the server that `declared` describes. `file`: the manifest's path.
    pub(super) fn resolve(mut self, needs: Needs, declared: &Declared<'_>, file: &Path) -> Result<Self, ManifestFault> {
        self.check(declared.over_http).map_err(|reason| ManifestFault::new("mcp", reason))?;
        self.reach = if declared.over_http {
            http(declared.entry, std::mem::take(&mut self.headers), &self.allow, declared.env)?
        } else {
            stdio(declared.entry, std::mem::take(&mut self.args), !needs.is_nothing(), file)?
        };
        self.lock = file.with_file_name(format!("{}{LOCK_SUFFIX}", declared.id));
        self.needs = needs;
        Ok(self)
    }

    fn check(&self, over_http: bool) -> Result<(), String> {
        let counts = [
            self.args.len(),
            self.headers.len(),
            self.overrides.len(),
            self.tools.include.len(),
            self.tools.exclude.len(),
        ];
        if counts.into_iter().any(|count| count > MAX_ENTRIES) {
            let what = "args, headers, overrides, include and exclude";
            return Err(format!("{what} must have at most {MAX_ENTRIES} entries each"));
        }
        if !(1..=MAX_START_S).contains(&self.start.as_secs()) {
            return Err(format!("start_s must be 1 to {MAX_START_S}"));
        }
        if !(1..=MAX_POOL).contains(&self.pool) || !(1..=MAX_CALLS).contains(&self.calls) {
            return Err(format!("pool must be 1 to {MAX_POOL}; calls must be 1 to {MAX_CALLS}"));
        }
        let is_both = |it: &Override| it.read_only == Some(true) && it.destructive == Some(true);
        if let Some((tool, _)) = self.overrides.iter().find(|(_, it)| is_both(it)) {
            let tool = tool.escape_debug();
            return Err(format!("overrides: '{tool}' cannot be both read_only and destructive: remove one of them"));
        }
        let of_stdio = !self.args.is_empty() || self.isolated;
        let of_http = !(self.headers.is_empty() && self.allow.is_empty());
        if (over_http && of_stdio) || (!over_http && of_http) {
            let reason = "args and isolated apply only to mcp:stdio; headers and allow apply only to mcp:http";
            return Err(reason.to_owned());
        }
        Ok(())
    }
}

/// The suffix of lock files, which contain pins. They are next to manifests but are not manifests.
pub(crate) const LOCK_SUFFIX: &str = ".mcp-lock.json";

fn stdio(entry: &str, args: Vec<String>, has_environment: bool, file: &Path) -> Result<Reach, ManifestFault> {
    if entry.contains('\0') || args.iter().any(|arg| arg.contains('\0')) {
        return refuse("mcp", "a command line cannot contain NUL");
    }
    let program = match entry {
        _ if has_environment && entry.ends_with(".py") => Program::Script(beside(entry, file)?),
        _ if has_environment && entry.contains('/') => {
            let reason = "a server with its own packages must be a program that they install, such as mcp-server-time, or a .py script";
            return refuse("entry", reason);
        }
        _ if has_environment => Program::Installed(entry.to_owned()),
        _ if entry.starts_with('/') => Program::File(PathBuf::from(entry)),
        _ if entry.contains('/') => Program::File(beside(entry, file)?),
        _ => Program::Name(entry.to_owned()),
    };
    Ok(Reach::Stdio { program, args })
}

fn http(
    entry: &str,
    headers: BTreeMap<String, String>,
    allow: &[String],
    env: &[String],
) -> Result<Reach, ManifestFault> {
    let url = Url::parse(entry).map_err(|error| ManifestFault::new("entry", format!("must be a URL: {error}")))?;
    let has_user = !url.username().is_empty() || url.password().is_some();
    if !["http", "https"].contains(&url.scheme()) || !url.has_host() || has_user {
        return refuse("entry", "must be an http or https URL without user and password");
    }
    for (name, value) in &headers {
        let token = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
        if name.is_empty() || !name.bytes().all(token) || value.chars().any(char::is_control) {
            return refuse("mcp", format!("'{}' is not a usable header", name.escape_debug()));
        }
        if let Some(missing) = variables(value).find(|variable| !env.iter().any(|it| it == variable)) {
            return refuse("mcp", format!("the header {name} names ${{{missing}}}, which is not in env"));
        }
    }
    let allowed = Allowed::parse(allow).map_err(|reason| ManifestFault::new("mcp", format!("allow: {reason}")))?;
    Ok(Reach::Http { url: url.to_string(), headers: headers.into_iter().collect(), allowed })
}

/// Returns the names of the variables in a header's value.
pub(crate) fn variables(value: &str) -> impl Iterator<Item = &str> {
    value.split("${").skip(1).map(|rest| rest.split_once('}').map_or(rest, |(name, _)| name))
}

/// Substitutes the variables in a header's value. Returns `None` if one of them is not set.
pub(crate) fn fill(value: &str, variable: impl Fn(&str) -> Option<String>) -> Option<String> {
    let mut parts = value.split("${");
    let mut filled = parts.next()?.to_owned();
    for part in parts {
        let (name, rest) = part.split_once('}')?;
        filled.push_str(&variable(name)?);
        filled.push_str(rest);
    }
    Some(filled)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn excluded_tools_are_not_taken() {
        let filter = Filter { include: vec!["git_*".to_owned()], exclude: vec!["git_push".to_owned()] };
        assert!(filter.takes("git_log") && !filter.takes("git_push") && !filter.takes("rm"));
    }

    fn parsed(runtime: &str, entry: &str, more: &str) -> Result<Mcp, String> {
        let text = format!("id: s\ntype: mcp\nruntime: {runtime}\nentry: {entry}\n{more}");
        let rules = super::super::Rules { allowed_root: Path::new("/"), toolset: None };
        match super::super::Manifest::parse(Path::new("/skills/s.yaml"), &text, rules).map(|it| it.how) {
            Ok(super::super::RunnerSpec::Mcp(mcp)) => Ok(*mcp),
            Ok(other) => Err(format!("{other:?}")),
            Err(error) => Err(error.reason),
        }
    }

    #[test]
    fn a_program_is_a_path_or_a_name() {
        let program = |entry| match parsed("stdio", entry, "").unwrap().reach {
            Reach::Stdio { program, .. } => program,
            other => panic!("{other:?}"),
        };
        assert_eq!(program("/bin/server"), Program::File("/bin/server".into()));
        assert_eq!(program("./server.py"), Program::File("/skills/./server.py".into()));
        assert_eq!(program("server"), Program::Name("server".to_owned()));
        let in_environment = |entry| match parsed("stdio", entry, "python: {requirements: [server]}").unwrap().reach {
            Reach::Stdio { program, .. } => program,
            other => panic!("{other:?}"),
        };
        assert_eq!(in_environment("server"), Program::Installed("server".to_owned()));
        assert_eq!(in_environment("./server.py"), Program::Script("/skills/./server.py".into()));
        assert_eq!(parsed("stdio", "server", "").unwrap().lock, Path::new("/skills/s.mcp-lock.json"));
    }

    #[test]
    fn the_script_of_a_server_belongs_to_it() {
        for (entry, more, file) in [
            ("./server.py", "", "/skills/server.py"),
            ("/skills/server.py", "", "/skills/server.py"),
            ("./server.py", "python: {requirements: [server]}", "/skills/server.py"),
            ("python3", "mcp: {args: [/skills/server.py, --port, '1']}", "/skills/server.py"),
            ("./bin/server", "", "/skills/bin/server"),
        ] {
            let files = super::super::RunnerSpec::Mcp(Box::new(parsed("stdio", entry, more).unwrap())).files();
            assert!(files.contains(&PathBuf::from(file)), "{entry} {more}: {files:?}");
        }
        assert!(parsed("stdio", "server", "").unwrap().own_files().is_empty());
        assert!(parsed("http", "http://host/server.py", "").unwrap().own_files().is_empty());
    }

    #[test]
    fn a_mistake_is_refused_with_what_to_do() {
        for (runtime, entry, more, reason) in [
            ("stdio", "../server", "", "without '..'"),
            ("stdio", "server", "mcp: {headers: {A: b}}", "headers and allow apply only to mcp:http"),
            ("stdio", "server", "mcp: {pool: 0}", "pool must be"),
            ("stdio", "server", "mcp: {calls: 100000}", "calls must be 1 to"),
            ("stdio", "server", "examples: [{name: x}]", "no examples"),
            ("stdio", "server", "read_only: true", "for each tool in mcp.overrides"),
            ("stdio", "server", "mcp: {overrides: {t: {read_only: true, destructive: true}}}", "'t' cannot be both"),
            ("stdio", "server", "mcp: {overrides: {t: {approval: maybe}}}", "maybe"),
            ("stdio", "server", "mcp: {pins: strict}", "pins"),
            ("stdio", "/bin/server", "python: {requirements: [server]}", "a program that they install"),
            ("stdio", "server", "python: {version: '3.12'}", "needs requirements"),
            ("stdio", "server", "python: {requirements: [server], preload: [x]}", "applies only to session:python"),
            (
                "http",
                "http://host/mcp",
                "python: {requirements: [server]}",
                "or mcp:stdio skills; this skill is mcp:http",
            ),
            ("http", "server", "", "must be a URL"),
            ("http", "http://me:pw@host/", "", "without user and password"),
            ("http", "file:///etc/passwd", "", "http or https"),
            ("http", "http://host/mcp", "mcp: {headers: {A: 'Bearer ${TOKEN}'}}", "not in env"),
            ("http", "http://host/mcp", "mcp: {headers: {'a b': c}}", "not a usable header"),
            ("http", "http://host/mcp", "mcp: {args: [a]}", "args and isolated apply only to mcp:stdio"),
        ] {
            let error = parsed(runtime, entry, more).unwrap_err();
            assert!(error.contains(reason), "{entry} {more}: {error}");
        }
        assert!(parsed("http", "http://host/mcp", "env: [TOKEN]\nmcp: {headers: {A: '${TOKEN}'}}").is_ok());
    }

    #[test]
    fn a_header_takes_its_secret_from_the_environment_or_is_not_sent() {
        let known = |name: &str| (name == "TOKEN").then(|| "s3".to_owned());
        assert_eq!(fill("Bearer ${TOKEN}!", known).as_deref(), Some("Bearer s3!"));
        assert_eq!(fill("plain", known).as_deref(), Some("plain"));
        assert_eq!(fill("${OTHER}", known), None);
        assert_eq!(fill("${TOKEN", known), None);
    }
}
