//! `openskill mcp`: MCP over stdin and stdout, and the configuration of MCP clients: the program that they start. Their
//! files are JSON and also contain other settings.

use std::path::{Path, PathBuf};

use http::header::AUTHORIZATION;
use serde_json::{Map, Value, json};

use crate::args::{McpArgs, McpClient, McpCommand, McpConfig, McpTargetArgs};
use crate::exit::Failure;
use crate::runtime::block_on;
#[cfg(feature = "worker")]
use crate::serve::up;
use crate::settings::{RawSettings, Settings};
use crate::stdio;
use crate::terminal::{print_out, print_value};

pub(super) fn run(args: McpArgs, settings: &Settings, raw: &RawSettings) -> Result<(), Failure> {
    let McpArgs { served, command } = args;
    if let Some(McpCommand::Config(config)) = command {
        return configure(&config);
    }
    if served.gateway.is_none() {
        return run_with_own_gateway(served, settings, raw);
    }
    let view = served.view;
    let mut headers = settings.access.headers.clone();
    headers.extend(settings.access.authorization()?.map(|it| (AUTHORIZATION, it)));
    let is_encrypted = settings.base_url.starts_with("https://");
    let tls = if is_encrypted { Some(settings.tls.connector()?.client_config()) } else { None };
    block_on(async {
        stdio::run(&endpoint(&settings.base_url, view.as_deref()), headers, tls).await?;
        Ok(())
    })
}

/// Builds the URL at which a gateway serves MCP.
fn endpoint(base_url: &str, view: Option<&str>) -> String {
    view.map_or_else(|| format!("{base_url}/mcp"), |view| format!("{base_url}/mcp/{view}"))
}

/// Serves the client with a gateway in this process, for this client only. The settings already include the flags
/// of `served`.
#[cfg(feature = "worker")]
fn run_with_own_gateway(served: McpTargetArgs, settings: &Settings, raw: &RawSettings) -> Result<(), Failure> {
    up::run_for(settings, raw, async move |address| {
        let url = endpoint(&format!("http://{address}"), served.view.as_deref());
        stdio::run(&url, http::HeaderMap::new(), None).await
    })
}

#[cfg(not(feature = "worker"))]
fn run_with_own_gateway(_: McpTargetArgs, _: &Settings, _: &RawSettings) -> Result<(), Failure> {
    Err(Failure::NoWorker { command: "mcp` without `--gateway".to_owned() })
}

/// The maximum size of a configuration file, in bytes.
const MAX_FILE_BYTES: u64 = 4 * 1024 * 1024;

fn configure(args: &McpConfig) -> Result<(), Failure> {
    let program = std::env::current_exe().map_err(Failure::system("finding this program"))?;
    let here = std::env::current_dir().map_err(Failure::system("finding the current directory"))?;
    let server = server(args.client, &program, &arguments(&args.served, &here));
    if !args.write {
        print_value(&json!({ servers_key(args.client): { args.name.as_str(): server } }));
        return Ok(());
    }
    let file = match &args.file {
        Some(file) => file.clone(),
        None => default_file(args.client)?,
    };
    merge_into_file(&file, servers_key(args.client), &args.name, server)?;
    print_out(&format!("{} now starts openskill: restart the client\n", file.display()));
    Ok(())
}

/// Returns the key of the server list in a client's file.
fn servers_key(client: McpClient) -> &'static str {
    if client == McpClient::Vscode { "servers" } else { "mcpServers" }
}

/// Returns the arguments of `openskill`. Paths are absolute, since a client may start it in any directory. Keys
/// are never included.
fn arguments(served: &McpTargetArgs, here: &Path) -> Vec<String> {
    let mut arguments = vec!["mcp".to_owned()];
    // Without `.` components, for readability.
    let absolute = |path: &str| here.join(path).components().collect::<PathBuf>().to_string_lossy().into_owned();
    let mut add = |flag: &str, value: String| arguments.extend([flag.to_owned(), value]);
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
    let folders = served.skills.skills_dir.as_deref().unwrap_or("./worker/skills");
    add("--skills-dir", folders.split(':').map(absolute).collect::<Vec<_>>().join(":"));
    let root = served.skills.allowed_root.as_deref().unwrap_or(Path::new("./data"));
    add("--allowed-root", absolute(&root.to_string_lossy()));
    arguments
}

fn server(client: McpClient, program: &Path, arguments: &[String]) -> Value {
    let mut server = json!({ "command": program.to_string_lossy(), "args": arguments });
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
            let folder = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|it| it.is_absolute());
            let config = folder("XDG_CONFIG_HOME").or_else(|| Some(folder("HOME")?.join(".config")));
            let config =
                config.ok_or_else(|| Failure::Usage("HOME is not set: set the file with --file".to_owned()))?;
            config.join("Claude/claude_desktop_config.json")
        }
    })
}

/// Adds the server to the file, and leaves everything else in the file unchanged.
fn merge_into_file(file: &Path, key: &str, name: &str, server: Value) -> Result<(), Failure> {
    let failed = |what: &str| Failure::system(format!("{what} {}", file.display()));
    let text = match std::fs::metadata(file) {
        Ok(metadata) if metadata.len() > MAX_FILE_BYTES => {
            return Err(Failure::Usage(format!("{} is too large for a configuration file", file.display())));
        }
        Ok(_) => std::fs::read_to_string(file).map_err(failed("reading"))?,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => "{}".to_owned(),
        Err(error) => return Err(failed("reading")(error)),
    };
    let text = merge_into_text(&text, key, name, server).map_err(|reason| {
        Failure::Usage(format!("{} {reason}: add the server by hand, or set another file with --file", file.display()))
    })?;
    if let Some(folder) = file.parent().filter(|it| !it.as_os_str().is_empty()) {
        std::fs::create_dir_all(folder).map_err(failed("creating the directory of"))?;
    }
    // Write a temporary file and rename it, so that a client never reads a half-written file.
    let mut temporary = file.as_os_str().to_owned();
    temporary.push(format!(".{}.new", std::process::id()));
    let temporary = PathBuf::from(temporary);
    std::fs::write(&temporary, text).map_err(failed("writing"))?;
    if let Ok(metadata) = std::fs::metadata(file) {
        // Keep the permissions of the old file.
        let _ = std::fs::set_permissions(&temporary, metadata.permissions());
    }
    std::fs::rename(&temporary, file).map_err(failed("writing"))
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
            skills: Default::default(),
        };
        let arguments = |gateway| super::arguments(&served(gateway), Path::new("/home/me"));
        let at_gateway = arguments(Some("https://a:1")).join(" ");
        assert_eq!(at_gateway, "mcp --gateway https://a:1 --token-file /home/me/key --ca /home/me/ca.pem");
        let in_view = McpTargetArgs { view: Some("research".to_owned()), ..served(Some("http://a:1")) };
        let in_view = super::arguments(&in_view, Path::new("/home/me"));
        assert_eq!(in_view[1..3], ["--view", "research"]);
        let own = arguments(None);
        assert_eq!((own[1].as_str(), own[2].as_str()), ("--skills-dir", "/home/me/worker/skills"));
        assert!(!own.concat().contains("s3cret"));
    }
}
