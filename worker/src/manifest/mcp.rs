//! The settings of an MCP server: how it is reached, and which of its tools become skills.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use openskill_skill::patterns;
use serde::Deserialize;
use serde_json::Value;
use url::Url;

use super::conduct::Approval;
use super::error::Fault;
use super::http::Allowed;
use super::path::beside;
use super::python::Needs;

/// How many command line elements, headers, patterns or overrides a manifest may have.
const MAX_ENTRIES: usize = 256;

/// The largest pool, and the highest concurrency limit of a connection.
const MAX_POOL: usize = 16;
const MAX_CALLS: usize = 1024;

/// The longest start timeout, in seconds.
const MAX_START_S: u64 = 300;

/// As written.
#[derive(Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct Raw {
    args: Vec<String>,
    headers: BTreeMap<String, String>,
    allow: Vec<String>,
    tools: Filter,
    overrides: BTreeMap<String, Override>,
    pin: Pinning,
    pool: usize,
    calls: usize,
    start_s: u64,
    isolated: bool,
}

impl Default for Raw {
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
            start_s: 10,
            isolated: false,
        }
    }
}

/// A server.
#[derive(Debug, Clone, PartialEq)]
pub struct Mcp {
    /// How it is reached.
    pub reach: Reach,
    /// Which of its tools become skills.
    pub tools: Filter,
    /// The manifest's overrides, by the tool's name.
    pub overrides: BTreeMap<String, Override>,
    /// What happens when a tool changes.
    pub pin: Pinning,
    /// Connections (and with `mcp:stdio`, processes) that share the calls.
    pub pool: usize,
    /// The concurrency limit of each.
    pub calls: usize,
    /// The timeout of the start and the handshake.
    pub start: Duration,
    /// Its process sees nothing of the worker: no library, and no allowed root unless the manifest names one.
    pub isolated: bool,
    /// The file of pins, if it exists.
    pub lock: PathBuf,
    /// The environment that its program is in, if it asks for one.
    pub needs: Needs,
}

/// How a server is reached.
#[derive(Debug, Clone, PartialEq)]
pub enum Reach {
    /// A process of the worker that speaks on its standard input and output.
    Stdio {
        /// The program.
        program: Program,
        /// Its literal command line.
        args: Vec<String>,
    },
    /// Streamable HTTP.
    Http {
        /// The URL.
        url: String,
        /// Headers of every request: names, and values in which `${NAME}` stands for a variable of the worker.
        headers: Vec<(String, String)>,
        /// Hosts and networks outside the public internet.
        allowed: Allowed,
    },
}

/// The program of a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Program {
    /// This file: absolute.
    File(PathBuf),
    /// The first of this name on the worker's `PATH`.
    Name(String),
    /// The one of this name in the server's Python environment.
    Installed(String),
    /// This script, by the interpreter of that environment: absolute.
    Script(PathBuf),
}

/// Tools by name; `*` stands for any text.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Filter {
    /// Only these, unless empty.
    pub include: Vec<String>,
    /// Not these.
    pub exclude: Vec<String>,
}

/// A manifest's override of the server's hints about one tool.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Override {
    /// A second identical call does no harm.
    pub idempotent: Option<bool>,
    /// It may delete or overwrite things.
    pub destructive: Option<bool>,
    /// It changes nothing, and sends nothing to others.
    pub read_only: Option<bool>,
    /// Whether each call needs the user's approval.
    pub approval: Option<Approval>,
    /// An identical call right after the first one is meant.
    pub repeatable: Option<bool>,
    /// Its results hold text of strangers.
    pub untrusted: Option<bool>,
    /// Its own deadline.
    pub timeout_ms: Option<u32>,
}

/// What happens when a tool changes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Pinning {
    /// It is logged, and the new definition is used.
    #[default]
    Warn,
    /// The tool is unavailable until it is pinned again.
    Strict,
}

/// One tool of a server.
#[derive(Debug, Clone, PartialEq)]
pub struct McpTool {
    /// The id of the server's manifest.
    pub server: String,
    /// The server's name of the tool.
    pub tool: String,
    /// A digest of each part of its definition.
    pub pin: BTreeMap<String, String>,
}

impl Mcp {
    /// The files of a server's process: its program, and the scripts among its arguments. Relative ones are not in the folder
    /// of the manifest.
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
    /// Whether a tool of this name becomes a skill.
    pub(crate) fn takes(&self, name: &str) -> bool {
        let any = |patterns: &[String]| patterns.iter().any(|pattern| fits(pattern, name));
        (self.include.is_empty() || any(&self.include)) && !any(&self.exclude)
    }
}

/// Whether a name matches a pattern, in time proportional to the product of both lengths.
fn fits(pattern: &str, name: &str) -> bool {
    let Some((start, rest)) = pattern.split_once('*') else { return pattern == name };
    let Some(mut name) = name.strip_prefix(start) else { return false };
    let mut parts: Vec<&str> = rest.split('*').collect();
    let end = parts.pop().unwrap_or_default();
    for part in parts {
        match name.find(part) {
            Some(at) => name = &name[at + part.len()..],
            None => return false,
        }
    }
    name.ends_with(end)
}

/// Checks a schema from a server, by the rules for manifests. Regular expressions that can't be used are dropped: the server
/// checks arguments itself.
pub(crate) fn usable_schema(mut schema: Value, of_arguments: bool) -> Result<Value, String> {
    let field = if of_arguments { "input schema" } else { "output schema" };
    super::schema::check(field, schema.clone(), of_arguments)
        .or_else(|fault| match patterns::drop_unusable(&mut schema) {
            true => super::schema::check(field, schema, of_arguments),
            false => Err(fault),
        })
        .map_err(|(field, reason)| format!("its {field} can't be used: {reason}"))
}

/// What the manifest says of a server outside its `mcp` block.
pub(super) struct Declared<'a> {
    pub(super) id: &'a str,
    pub(super) entry: &'a str,
    /// The variables that headers may name.
    pub(super) env: &'a [String],
    /// `mcp:http`, not `mcp:stdio`.
    pub(super) over_http: bool,
}

/// Checks the settings.
pub(super) fn resolve(raw: Raw, needs: Needs, declared: &Declared<'_>, file: &Path) -> Result<Mcp, Fault> {
    let fail = |reason: String| Fault::from(("mcp", reason));
    let counts =
        [raw.args.len(), raw.headers.len(), raw.overrides.len(), raw.tools.include.len(), raw.tools.exclude.len()];
    if counts.into_iter().any(|count| count > MAX_ENTRIES) {
        return Err(fail(format!("at most {MAX_ENTRIES} of args, headers, overrides, include and exclude each")));
    }
    if !(1..=MAX_START_S).contains(&raw.start_s) {
        return Err(fail(format!("start_s must be 1 to {MAX_START_S}")));
    }
    if !(1..=MAX_POOL).contains(&raw.pool) || !(1..=MAX_CALLS).contains(&raw.calls) {
        return Err(fail(format!("pool must be 1 to {MAX_POOL}, calls 1 to {MAX_CALLS}")));
    }
    let is_both = |it: &Override| it.read_only == Some(true) && it.destructive == Some(true);
    if let Some((tool, _)) = raw.overrides.iter().find(|(_, it)| is_both(it)) {
        let tool = tool.escape_debug();
        return Err(fail(format!("overrides: '{tool}' cannot be both read_only and destructive: remove one of them")));
    }
    let over_http = declared.over_http;
    let of_stdio = !raw.args.is_empty() || raw.isolated;
    let of_http = !(raw.headers.is_empty() && raw.allow.is_empty());
    let of_the_other = if over_http { of_stdio } else { of_http };
    if of_the_other {
        return Err(fail("args and isolated are for mcp:stdio, headers and allow for mcp:http".to_owned()));
    }
    let reach = if over_http {
        http(declared.entry, raw.headers, &raw.allow, declared.env)?
    } else {
        stdio(declared.entry, raw.args, !needs.is_nothing(), file)?
    };
    Ok(Mcp {
        reach,
        tools: raw.tools,
        overrides: raw.overrides,
        pin: raw.pin,
        pool: raw.pool,
        calls: raw.calls,
        start: Duration::from_secs(raw.start_s),
        isolated: raw.isolated,
        lock: file.with_file_name(format!("{}{LOCK_SUFFIX}", declared.id)),
        needs,
    })
}

/// The suffix of files of pins, which are not manifests but lie beside them.
pub(crate) const LOCK_SUFFIX: &str = ".mcp-lock.json";

fn stdio(entry: &str, args: Vec<String>, has_environment: bool, file: &Path) -> Result<Reach, Fault> {
    if entry.contains('\0') || args.iter().any(|arg| arg.contains('\0')) {
        return Err(("mcp", "a command line cannot contain NUL".to_owned()).into());
    }
    let program = match entry {
        _ if has_environment && entry.ends_with(".py") => Program::Script(beside(entry, file)?),
        _ if has_environment && entry.contains('/') => {
            let reason =
                "a server with packages of its own is a program of theirs, such as mcp-server-time, or a .py script";
            return Err(("entry", reason.to_owned()).into());
        }
        _ if has_environment => Program::Installed(entry.to_owned()),
        _ if entry.starts_with('/') => Program::File(PathBuf::from(entry)),
        _ if entry.contains('/') => Program::File(beside(entry, file)?),
        _ => Program::Name(entry.to_owned()),
    };
    Ok(Reach::Stdio { program, args })
}

fn http(entry: &str, headers: BTreeMap<String, String>, allow: &[String], env: &[String]) -> Result<Reach, Fault> {
    let url = Url::parse(entry).map_err(|error| Fault::from(("entry", format!("must be a URL: {error}"))))?;
    if !["http", "https"].contains(&url.scheme())
        || !url.has_host()
        || !url.username().is_empty()
        || url.password().is_some()
    {
        return Err(("entry", "must be an http or https URL without user and password".to_owned()).into());
    }
    for (name, value) in &headers {
        let token = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
        if name.is_empty() || !name.bytes().all(token) || value.chars().any(char::is_control) {
            return Err(("mcp", format!("'{}' is not a usable header", name.escape_debug())).into());
        }
        if let Some(missing) = variables(value).find(|variable| !env.iter().any(|it| it == variable)) {
            return Err(("mcp", format!("the header {name} names ${{{missing}}}, which is not in env")).into());
        }
    }
    let allowed = Allowed::parse(allow).map_err(|reason| Fault::from(("mcp", format!("allow: {reason}"))))?;
    Ok(Reach::Http { url: url.to_string(), headers: headers.into_iter().collect(), allowed })
}

/// The variables in a header's value.
pub(crate) fn variables(value: &str) -> impl Iterator<Item = &str> {
    value.split("${").skip(1).map(|rest| rest.split_once('}').map_or(rest, |(name, _)| name))
}

/// A header's value with its variables filled in; none if one is not set.
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
    fn a_pattern_is_a_name_with_stars() {
        for (pattern, name, expected) in [
            ("git_log", "git_log", true),
            ("git_log", "git_logs", false),
            ("git_*", "git_log", true),
            ("*_log", "git_log", true),
            ("*", "", true),
            ("a*b*c", "a1b2c", true),
            ("a*b*c", "acb", false),
            ("ab*ba", "aba", false),
        ] {
            assert_eq!(fits(pattern, name), expected, "{pattern} {name}");
        }
        let filter = Filter { include: vec!["git_*".to_owned()], exclude: vec!["git_push".to_owned()] };
        assert!(filter.takes("git_log") && !filter.takes("git_push") && !filter.takes("rm"));
    }

    fn parsed(runtime: &str, entry: &str, more: &str) -> Result<Mcp, String> {
        let text = format!("id: s\ntype: mcp\nruntime: {runtime}\nentry: {entry}\n{more}");
        let rules = super::super::Rules { allowed_root: Path::new("/"), toolset: None };
        match super::super::Manifest::parse(Path::new("/skills/s.yaml"), &text, rules).map(|it| it.how) {
            Ok(super::super::How::Mcp(mcp)) => Ok(*mcp),
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
            let files = super::super::How::Mcp(Box::new(parsed("stdio", entry, more).unwrap())).files();
            assert!(files.contains(&PathBuf::from(file)), "{entry} {more}: {files:?}");
        }
        assert!(parsed("stdio", "server", "").unwrap().own_files().is_empty());
        assert!(parsed("http", "http://host/server.py", "").unwrap().own_files().is_empty());
    }

    #[test]
    fn a_mistake_is_refused_with_what_to_do() {
        for (runtime, entry, more, reason) in [
            ("stdio", "../server", "", "without '..'"),
            ("stdio", "server", "mcp: {headers: {A: b}}", "headers and allow for mcp:http"),
            ("stdio", "server", "mcp: {pool: 0}", "pool must be"),
            ("stdio", "server", "mcp: {calls: 100000}", "calls 1 to"),
            ("stdio", "server", "examples: [{name: x}]", "no examples"),
            ("stdio", "server", "read_only: true", "by tool in mcp.overrides"),
            ("stdio", "server", "mcp: {overrides: {t: {read_only: true, destructive: true}}}", "'t' cannot be both"),
            ("stdio", "server", "mcp: {overrides: {t: {approval: maybe}}}", "maybe"),
            ("stdio", "server", "mcp: {pins: strict}", "pins"),
            ("stdio", "/bin/server", "python: {requirements: [server]}", "a program of theirs"),
            ("stdio", "server", "python: {version: '3.12'}", "goes with requirements"),
            ("stdio", "server", "python: {requirements: [server], preload: [x]}", "is for session:python"),
            ("http", "http://host/mcp", "python: {requirements: [server]}", "or mcp:stdio; this one is mcp:http"),
            ("http", "server", "", "must be a URL"),
            ("http", "http://me:pw@host/", "", "without user and password"),
            ("http", "file:///etc/passwd", "", "http or https"),
            ("http", "http://host/mcp", "mcp: {headers: {A: 'Bearer ${TOKEN}'}}", "not in env"),
            ("http", "http://host/mcp", "mcp: {headers: {'a b': c}}", "not a usable header"),
            ("http", "http://host/mcp", "mcp: {args: [a]}", "args and isolated are for mcp:stdio"),
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
