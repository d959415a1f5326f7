//! `openskill mcp config`: the configuration of MCP clients, with which they start this program. Their files are JSON and
//! also contain other settings.

use std::fs::File;
use std::path::{Path, PathBuf};

use openskill_identity::file::replace;
use serde_json::{Map, Value, json};

use super::trial;
use crate::args::{McpClient, McpConfig, McpTargetArgs};
use crate::exit::Failure;
#[cfg(feature = "worker")]
use crate::serve;
#[cfg(feature = "worker")]
use crate::settings::McpFiles;
use crate::settings::{Origin, RawSettings, Settings, paths};
use crate::terminal::{pluralize, print_err, print_out, print_value};

/// The maximum size of a configuration file, in bytes.
const MAX_FILE_BYTES: u64 = 4 * 1024 * 1024;

pub(super) fn run(args: &McpConfig, settings: &Settings, raw: &RawSettings) -> Result<(), Failure> {
    check_target(args, settings, raw)?;
    let program = std::env::current_exe().map_err(Failure::system("finding this program"))?;
    let here = std::env::current_dir().map_err(Failure::system("finding the current directory"))?;
    let names = needed_variables(&args.served, settings, raw)?;
    let (mut env, mut unset, mut has_secrets) = (Map::new(), Vec::new(), false);
    for name in names {
        let value = std::env::var(&name).ok().filter(|it| args.with_values && !it.is_empty());
        has_secrets |= value.is_some();
        if value.is_none() {
            unset.push(name.clone());
        }
        if let Some(text) = value.or_else(|| trial::placeholder(args.client, &name)) {
            env.insert(name, Value::String(text));
        }
    }
    let server = server(args.client, &program, &arguments(&args.served, raw, &here), env);
    if args.check {
        let count = trial::count_tools(&server, args.client)?;
        print_err(&format!("checked: it starts and has {}\n", pluralize(count, "tool")));
    }
    if !unset.is_empty() {
        print_err(&advice(args, &unset, raw));
    }
    if !args.write {
        print_value(&json!({ servers_key(args.client): { args.name.as_str(): server } }));
        return Ok(());
    }
    let file = match &args.file {
        Some(file) => file.clone(),
        None => default_file(args.client)?,
    };
    merge_into_file(&file, has_secrets, |text| merge_into_text(text, servers_key(args.client), &args.name, server))?;
    print_out(&format!("{} now starts openskill: restart the client\n", file.display()));
    Ok(())
}

/// Refuses what could not start: a configuration that fails in the client only shows that it failed. The settings were
/// already resolved.
#[cfg_attr(not(feature = "worker"), expect(unused_variables, reason = "only a worker has files"))]
fn check_target(args: &McpConfig, settings: &Settings, raw: &RawSettings) -> Result<(), Failure> {
    if args.served.gateway.is_some() {
        settings.access.authorization()?;
        if settings.base_url.starts_with("https://") {
            settings.tls.connector()?;
        }
        return Ok(());
    }
    #[cfg(not(feature = "worker"))]
    return Err(Failure::NoWorker { command: "mcp config` without `--gateway".to_owned() });
    #[cfg(feature = "worker")]
    {
        McpFiles::read(raw)?;
        serve::worker::config(settings, raw).map(drop)
    }
}

/// Returns the variables that the command needs from the client: those that manifests name and `.env` does not have.
#[cfg_attr(not(feature = "worker"), expect(unused_variables, reason = "only a worker has skills"))]
fn needed_variables(served: &McpTargetArgs, settings: &Settings, raw: &RawSettings) -> Result<Vec<String>, Failure> {
    if served.gateway.is_some() {
        let is_from_environment = raw.origin("OPENSKILL_TOKEN") == Origin::Environment;
        return Ok(is_from_environment.then(|| "OPENSKILL_TOKEN".to_owned()).into_iter().collect());
    }
    #[cfg(not(feature = "worker"))]
    return Ok(Vec::new());
    #[cfg(feature = "worker")]
    {
        let config = serve::worker::config(settings, raw)?;
        let is_missing = |name: &String| {
            let is_in_dot_env = raw.variables().get(name).is_some_and(|it| !it.is_empty());
            !is_in_dot_env && !trial::INHERITED.contains(&name.as_str())
        };
        Ok(openskill_worker::check::named_variables(&config).into_iter().filter(is_missing).collect())
    }
}

/// Says where to set the variables whose values are not in the configuration.
fn advice(args: &McpConfig, names: &[String], raw: &RawSettings) -> String {
    let names = names.join(", ");
    let place = match trial::placeholder(args.client, "") {
        Some(_) => "for the client",
        None => "under \"env\" in its file",
    };
    if args.served.gateway.is_some() {
        return format!("the gateway needs {names}: set it {place}\n");
    }
    let dot_env = raw.project().map_or_else(|| PathBuf::from(".env"), |it| it.folder().join(".env"));
    format!("skills need {names}: set them {place}, or in {}\n", dot_env.display())
}

/// Returns the key of the server list in a client's file.
fn servers_key(client: McpClient) -> &'static str {
    if client == McpClient::Vscode { "servers" } else { "mcpServers" }
}

/// Returns the arguments of `openskill`. Paths are absolute, since a client may start it in any directory. Keys
/// are never included.
fn arguments(served: &McpTargetArgs, raw: &RawSettings, here: &Path) -> Vec<String> {
    let mut arguments = vec!["mcp".to_owned()];
    // Without `.` components, for readability.
    let absolute = |path: &str| here.join(path).components().collect::<PathBuf>().to_string_lossy().into_owned();
    let mut add = |flag: &str, value: String| arguments.extend([flag.to_owned(), value]);
    if let Some(project) = raw.project() {
        add("--config", project.file.to_string_lossy().into_owned());
    }
    if let Some(view) = &served.view {
        add("--view", view.clone());
    }
    if let Some(url) = &served.gateway {
        add("--gateway", url.clone());
        let files = [
            ("--token-file", &served.token_file),
            ("--ca", &served.ca),
            ("--cert", &served.cert),
            ("--key", &served.key),
        ];
        for (flag, file) in files {
            file.iter().for_each(|it| add(flag, absolute(it)));
        }
        return arguments;
    }
    // The project has its own values.
    let is_elsewhere = |name| raw.project().is_none() || matches!(raw.origin(name), Origin::Flag | Origin::Environment);
    if let Some(sets) = raw.given("OPENSKILL_WITH").filter(|_| is_elsewhere("OPENSKILL_WITH")) {
        add("--with", sets.to_owned());
    }
    for (flag, name) in [("--skills-dir", "OPENSKILL_CLI_DIR"), ("--allowed-root", "OPENSKILL_ALLOWED_ROOT")] {
        if is_elsewhere(name) {
            add(flag, raw.value(name).split(':').map(absolute).collect::<Vec<_>>().join(":"));
        }
    }
    arguments
}

fn server(client: McpClient, program: &Path, arguments: &[String], env: Map<String, Value>) -> Value {
    let mut server = json!({ "command": program.to_string_lossy(), "args": arguments });
    if !env.is_empty() {
        server["env"] = Value::Object(env);
    }
    if matches!(client, McpClient::Vscode | McpClient::Claude) {
        server["type"] = "stdio".into();
    }
    server
}

/// Returns the configuration file that a client reads by default.
fn default_file(client: McpClient) -> Result<PathBuf, Failure> {
    Ok(match client {
        McpClient::Claude => PathBuf::from(".mcp.json"),
        McpClient::Cursor => PathBuf::from(".cursor/mcp.json"),
        McpClient::Vscode => PathBuf::from(".vscode/mcp.json"),
        McpClient::ClaudeDesktop => {
            let config = paths::user_folder("XDG_CONFIG_HOME", ".config")
                .ok_or_else(|| Failure::Usage("HOME is not set: set the file with --file".to_owned()))?;
            config.join("Claude/claude_desktop_config.json")
        }
    })
}

/// Adds the server to the file with `merge`, and leaves everything else in the file unchanged. A new file that
/// `has_secrets` is only for its owner.
fn merge_into_file(
    file: &Path,
    has_secrets: bool,
    merge: impl FnOnce(&str) -> Result<String, String>,
) -> Result<(), Failure> {
    let failed = |what: &str| Failure::system(format!("{what} {}", file.display()));
    let (text, permissions) = match std::fs::metadata(file) {
        Ok(metadata) if metadata.len() > MAX_FILE_BYTES => {
            return Err(Failure::Usage(format!("{} is too large for a configuration file", file.display())));
        }
        Ok(metadata) => (std::fs::read_to_string(file).map_err(failed("reading"))?, Some(metadata.permissions())),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => ("{}".to_owned(), None),
        Err(error) => return Err(failed("reading")(error)),
    };
    let text = merge(&text).map_err(|reason| {
        Failure::Usage(format!("{} {reason}: add the server by hand, or set another file with --file", file.display()))
    })?;
    if let Some(folder) = file.parent().filter(|it| !it.as_os_str().is_empty()) {
        std::fs::create_dir_all(folder).map_err(failed("creating the directory of"))?;
    }
    // Nobody else reads it until it has the permissions of the old file.
    let mode = if has_secrets || permissions.is_some() { 0o600 } else { 0o666 };
    let keep = |new: &File| permissions.map_or(Ok(()), |it| new.set_permissions(it));
    replace(file, text.as_bytes(), mode, keep).map_err(failed("writing"))
}

/// Adds the server to the text of a file.
fn merge_into_text(text: &str, key: &str, name: &str, server: Value) -> Result<String, String> {
    let text = if text.trim().is_empty() { "{}" } else { text };
    let mut whole: Value = serde_json::from_str(text).map_err(|error| format!("is not JSON ({error})"))?;
    let object = whole.as_object_mut().ok_or_else(|| "is not a JSON object".to_owned())?;
    let servers = object.entry(key).or_insert_with(|| Value::Object(Map::new()));
    let servers = servers.as_object_mut().ok_or_else(|| format!("has no object named \"{key}\""))?;
    servers.insert(name.to_owned(), server);
    serde_json::to_string_pretty(&whole).map(|it| it + "\n").map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use std::fs::Permissions;
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn everything_else_in_a_file_stays() {
        let before = r#"{"theme": "dark", "mcpServers": {"other": {"command": "x"}, "openskill": {"command": "old"}}}"#;
        let after = merge_into_text(before, "mcpServers", "openskill", json!({"command": "new"})).unwrap();
        let after: Value = serde_json::from_str(&after).unwrap();
        let expected =
            json!({"theme": "dark", "mcpServers": {"other": {"command": "x"}, "openskill": {"command": "new"}}});
        assert_eq!(after, expected);
        assert!(merge_into_text("", "servers", "a", json!({})).unwrap().contains("servers"));
    }

    #[test]
    fn a_file_that_is_no_configuration_is_left_alone() {
        for text in ["{", "[]", r#"{"mcpServers": []}"#, "// comment\n{}"] {
            assert!(merge_into_text(text, "mcpServers", "a", json!({})).is_err(), "{text}");
        }
    }

    #[test]
    fn paths_are_absolute_and_a_key_is_never_written() {
        let served = |gateway: Option<&str>| McpTargetArgs {
            gateway: gateway.map(str::to_owned),
            token: Some("osk_s3cret".to_owned()),
            token_file: Some("key".to_owned()),
            ca: Some("ca.pem".to_owned()),
            cert: None,
            key: None,
            view: None,
            shipped: Default::default(),
            skills: Default::default(),
        };
        let flag = RawSettings::for_test(&[("OPENSKILL_CLI_DIR", "skills:/opt/skills")]);
        let none = RawSettings::defaults();
        let arguments = |served: &McpTargetArgs, raw| super::arguments(served, raw, Path::new("/home/me"));
        let at_gateway = arguments(&served(Some("https://a:1")), &none).join(" ");
        assert_eq!(at_gateway, "mcp --gateway https://a:1 --token-file /home/me/key --ca /home/me/ca.pem");
        let in_view = McpTargetArgs { view: Some("research".to_owned()), ..served(Some("http://a:1")) };
        assert_eq!(arguments(&in_view, &none)[1..3], ["--view", "research"]);
        let own = arguments(&served(None), &none);
        assert_eq!((own[1].as_str(), own[2].as_str()), ("--skills-dir", "/home/me/worker/skills"));
        assert!(!own.concat().contains("s3cret"));
        assert_eq!(arguments(&served(None), &flag)[2], "/home/me/skills:/opt/skills");
    }

    #[test]
    fn a_file_with_secrets_is_only_for_its_owner_and_an_old_one_keeps_its_mode() {
        let folder = std::env::temp_dir().join(format!("openskill-mcp-config-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let (new, old) = (folder.join("new.json"), folder.join("old.json"));
        std::fs::write(&old, "{}").unwrap();
        std::fs::set_permissions(&old, Permissions::from_mode(0o640)).unwrap();
        for (file, mode) in [(&new, 0o600), (&old, 0o640)] {
            merge_into_file(file, true, |_| Ok("{\"a\": 1}".to_owned())).unwrap();
            assert_eq!(file.metadata().unwrap().permissions().mode() & 0o777, mode, "{}", file.display());
        }
        assert_eq!(folder.read_dir().unwrap().count(), 2);
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
