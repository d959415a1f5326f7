//! Wheels of small MCP servers, so that no test needs a package index.

use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};

use crate::wheel;

/// A server in a wheel: a package of this name whose program has the same name.
#[derive(Debug, Clone)]
pub struct Server {
    pub name: &'static str,
    pub version: &'static str,
    /// Definitions, as the server lists them.
    pub tools: Vec<Value>,
}

/// A tool without arguments.
pub fn tool(name: &str, description: &str) -> Value {
    json!({"name": name, "description": description, "inputSchema": {"type": "object", "properties": {}}})
}

/// Plain Python: the wheel has no requirements. A call answers with what its process sees.
const PROGRAM: &str = r#"
import json, os, sys

def send(id, result):
    print(json.dumps({"jsonrpc": "2.0", "id": id, "result": result}), flush=True)

def called(params):
    seen = {"tool": params["name"], "version": VERSION, "environment": sorted(os.environ),
            "data": os.path.isdir("/data") or os.path.isdir(os.environ.get("OPENSKILL_ALLOWED_ROOT", "/nonexistent"))}
    return {"content": [{"type": "text", "text": json.dumps(seen)}], "structuredContent": seen}

def main():
    for line in sys.stdin:
        message = json.loads(line)
        method, params = message.get("method"), message.get("params") or {}
        if method == "initialize":
            send(message["id"], {"protocolVersion": params["protocolVersion"], "capabilities": {"tools": {}},
                                 "serverInfo": {"name": "small", "version": VERSION}})
        elif method == "tools/list":
            send(message["id"], {"tools": TOOLS})
        elif method == "tools/call":
            send(message["id"], called(params))
        elif method == "ping":
            send(message["id"], {})
"#;

impl Server {
    /// Writes the wheel into a folder. Gives its SHA-256.
    pub fn write(&self, folder: &Path) -> String {
        let Self { name, version, tools } = self;
        let tools = json!(Value::Array(tools.clone()).to_string()).to_string();
        let head = format!("import json\nVERSION = '{version}'\nTOOLS = json.loads({tools})\n");
        wheel::write(folder, name, version, &(head + PROGRAM), &[]);
        python(
            "import hashlib, sys\nprint(hashlib.sha256(open(sys.argv[1], 'rb').read()).hexdigest())",
            &[&folder.join(format!("{name}-{version}-py3-none-any.whl")).display().to_string()],
        )
    }

    /// The part of an index entry that pins the tools.
    pub fn pins(&self) -> String {
        let program = r#"
import hashlib, json, sys
for tool in json.loads(sys.argv[1]):
    print(f"[server.tools.{tool['name']}]")
    for part in sorted(tool.keys() - {"name"}):
        text = json.dumps(tool[part], sort_keys=True, separators=(",", ":"), ensure_ascii=False)
        print(f'{part} = "{hashlib.sha256(text.encode()).hexdigest()}"')
"#;
        python(program, &[&Value::Array(self.tools.clone()).to_string()])
    }
}

fn python(program: &str, arguments: &[&str]) -> String {
    let output = Command::new("python3").args(["-I", "-c", program]).args(arguments).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap().trim_end().to_owned()
}
