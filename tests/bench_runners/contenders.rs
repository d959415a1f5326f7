//! The skills that are measured: each gives back what it was given.

use std::os::unix::fs::PermissionsExt as _;
use std::sync::Arc;

use openskill_tests::backend::{Backend, Reply};
use openskill_tests::containers::Image;
use openskill_tests::folder::Folder;
use serde_json::{Value, json};

/// A skill, and how it stands in the table.
#[derive(Debug, Clone)]
pub(crate) struct Contender {
    pub(crate) name: String,
    pub(crate) jail: &'static str,
    pub(crate) skill: String,
    pub(crate) input: Value,
}

impl Contender {
    /// Whether it is a script that the worker's Python runs.
    pub(crate) fn is_script(&self) -> bool {
        WAYS.iter().any(|(way, _)| self.skill == *way || self.skill == bare(way))
    }
}

/// How a script runs: the skill's id is its `isolation:`.
pub(crate) const WAYS: [(&str, &str); 3] =
    [("process", "fresh interpreter"), ("fork", "warm fork"), ("shared", "shared interpreter")];

/// The id of the same skill without a jail.
pub(crate) fn bare(skill: &str) -> String {
    format!("{skill}_bare")
}

/// The script, the same for each way of running it.
const SCRIPT: &str = "import json\nimport sys\n\ncall = json.load(sys.stdin)\nprint(json.dumps({\"echoed\": call[\"input\"][\"text\"]}))\n";

/// A server of one tool, as small as one can be.
const SERVER: &str = r#"#!/usr/bin/env python3
import json
import sys

TOOL = {"name": "echo", "inputSchema": {"type": "object", "properties": {"text": {"type": "string"}}}}
for line in sys.stdin:
    call = json.loads(line)
    if "id" not in call:
        continue
    method, params = call["method"], call.get("params", {})
    if method == "initialize":
        result = {"protocolVersion": params["protocolVersion"], "capabilities": {"tools": {}},
                  "serverInfo": {"name": "echo", "version": "1.0.0"}}
    elif method == "tools/list":
        result = {"tools": [TOOL]}
    else:
        result = {"content": [], "structuredContent": {"echoed": params.get("arguments", {}).get("text")}}
    print(json.dumps({"jsonrpc": "2.0", "id": call["id"], "result": result}), flush=True)
"#;

/// All of them, and what they need while they are measured.
pub(crate) struct Field {
    pub(crate) contenders: Vec<Contender>,
    _server: Backend,
    _image: Option<Arc<Image>>,
}

impl Field {
    /// Writes their manifests.
    pub(crate) async fn write(folder: &Folder) -> Self {
        let mut contenders = processes(folder);
        let server = Backend::start(|seen| Reply::json(200, &seen.json())).await;
        let (url, host) = (server.url("/"), server.address);
        let http = format!("type: http\nentry: {url}\nhttp: {{allow: ['{host}']}}\n");
        add(&mut contenders, folder, "http", "`http`, a server on this machine", "", &http);
        let image = Image::or_skip();
        if let Some(image) = &image {
            let settings = "command: [/bin/cat]";
            folder.write("docker.yaml", image.with_settings("docker", settings, ""));
            contenders.push(contender("docker", "`docker` (`cat`), a fresh container", ""));
        }
        Self { contenders, _server: server, _image: image }
    }
}

fn processes(folder: &Folder) -> Vec<Contender> {
    folder.write("script.py", SCRIPT);
    let mut all = Vec::new();
    for (isolation, name) in WAYS {
        let more = format!("runtime: python\nentry: script.py\nisolation: {isolation}\n");
        add_both(&mut all, folder, isolation, &format!("`cli:python`, {name}"), &format!("type: cli\n{more}"));
    }
    add_both(&mut all, folder, "exec", "`cli:exec` (`cat`)", "type: cli\nruntime: exec\nentry: /bin/cat\n");
    add(&mut all, folder, "inproc", "`inproc`", "", "type: inproc\nentry: echo\n");
    let server = folder.write("servers/echo.py", SERVER);
    std::fs::set_permissions(&server, std::fs::Permissions::from_mode(0o755)).unwrap();
    for (id, jail) in [("tools", "on"), ("tools_bare", "off")] {
        let off = if jail == "off" { "jail: \"off\"\n" } else { "" };
        folder.write(
            &format!("{id}.yaml"),
            format!("id: {id}\ntype: mcp\nruntime: stdio\nentry: servers/echo.py\nmcp: {{start_s: 60}}\n{off}"),
        );
        all.push(contender(&format!("{id}__echo"), "`mcp:stdio`, a small server in Python", jail));
    }
    all
}

/// With the jail and without.
fn add_both(all: &mut Vec<Contender>, folder: &Folder, skill: &str, name: &str, how: &str) {
    add(all, folder, skill, name, "on", how);
    add(all, folder, &bare(skill), name, "off", &format!("{how}jail: \"off\"\n"));
}

fn add(all: &mut Vec<Contender>, folder: &Folder, skill: &str, name: &str, jail: &'static str, how: &str) {
    let schema = "parameters:\n  text: {type: string, required: true}\n";
    folder.write(&format!("{skill}.yaml"), format!("id: {skill}\n{how}{schema}"));
    all.push(contender(skill, name, jail));
}

fn contender(skill: &str, name: &str, jail: &'static str) -> Contender {
    Contender { name: name.to_owned(), jail, skill: skill.to_owned(), input: json!({"text": "hello"}) }
}
