//! A project is a unit: its settings, its state, its variables, its library and the configuration of its clients.

use std::path::Path;

use openskill_tests::alone::beside_others;
use openskill_tests::folder::Folder;
use openskill_tests::system::PATIENCE;
use openskill_tests::wait::until;
use serde_json::{Value, json};
use tokio::process::Command;

use super::newcomer::{Newcomer, Up};

/// A Python skill in a file `skills/ID.py`, with an example that `check` runs.
fn write_skill(newcomer: &Newcomer, id: &str, manifest: &str, data: &Value, script: &str) {
    let example = json!({"name": "it", "input": {}, "data": data});
    let manifest = format!(
        "id: {id}\ndescription: A test.\ntype: cli\nruntime: python\nentry: {id}.py\nparameters: {{}}\n{manifest}\nexamples: [{example}]\n"
    );
    newcomer.write(&format!("skills/{id}.yaml"), &manifest);
    newcomer.write(&format!("skills/{id}.py"), script);
}

async fn new_project() -> Newcomer {
    let newcomer = Newcomer::new();
    let (code, text) = newcomer.run(&["init"]).await;
    assert_eq!(code, 0, "{text}");
    newcomer
}

#[tokio::test]
async fn it_is_found_from_its_folders_and_by_the_name_of_its_file() {
    let (newcomer, elsewhere) = (new_project().await, Folder::new());
    let file = newcomer.path("openskill.toml");
    let file = file.to_str().unwrap();
    let (code, text) = newcomer.run_in(&newcomer.path("skills/tests"), &["check", "shout"]).await;
    assert!(code == 0 && text.contains("ok    example"), "{text}");
    let (code, text) = newcomer.run_in(&newcomer.path("skills"), &["config"]).await;
    assert!(code == 0 && text.starts_with(&format!("settings of the project: {file}\n")), "{text}");
    let (code, text) = newcomer.run_in(elsewhere.path(), &["--config", file, "check", "shout"]).await;
    assert!(code == 0 && text.contains("ok    example"), "{text}");
    let mut by_variable = newcomer.command(&["new", "more"]);
    by_variable.current_dir(elsewhere.path()).env("OPENSKILL_CONFIG", file);
    let (code, text) = Newcomer::finish(by_variable).await;
    assert!(code == 0 && newcomer.path("skills/more.yaml").is_file(), "{text}");
    let (code, text) = newcomer.run(&["config", "--config", "missing.toml"]).await;
    assert!(code == 4 && text.contains("missing.toml"), "{text}");
}

#[tokio::test]
async fn a_second_project_on_the_same_port_sees_nothing_of_the_first() {
    let _turn = beside_others();
    let newcomer = Newcomer::new();
    for project in ["one", "two"] {
        assert_eq!(newcomer.run(&["init", project]).await.0, 0);
    }
    let start = async |project: &str, address: &str| {
        let mut command = newcomer.command(&["up", "--workers", "1", "--listen", address]);
        command.current_dir(newcomer.path(project));
        Up::start_as(command).await
    };
    let traces = async |url: &str| newcomer.run(&["traces", "--url", url]).await.1;
    let up = start("one", "127.0.0.1:0").await;
    let url = up.url.clone();
    assert_eq!(newcomer.run(&["invoke", "shout", "text=a", "--trace-id", "mine", "--url", &url]).await.0, 0);
    until("the call is recorded", PATIENCE, || async { traces(&url).await.contains("mine").then_some(()) }).await;
    up.stop().await;
    let address = url.trim_start_matches("http://");
    let up = start("two", address).await;
    let text = traces(&url).await;
    assert!(!text.contains("mine"), "{text}");
    up.stop().await;
    let up = start("one", address).await;
    until("the call is still there", PATIENCE, || async { traces(&url).await.contains("mine").then_some(()) }).await;
    up.stop().await;
}

#[tokio::test]
async fn variables_of_dot_env_reach_the_skills_that_name_them() {
    let newcomer = new_project().await;
    newcomer.write(".env", "WEATHER_TOKEN=of-the-project\nOTHER_TOKEN=other\n");
    let script = "import json, os\nprint(json.dumps([os.environ.get(n) for n in ('WEATHER_TOKEN', 'OTHER_TOKEN')]))\n";
    write_skill(&newcomer, "named", "env: [WEATHER_TOKEN]", &json!(["of-the-project", null]), script);
    write_skill(&newcomer, "nameless", "", &json!([null, null]), script);
    for skill in ["named", "nameless"] {
        let (code, text) = newcomer.run(&["check", skill]).await;
        assert!(code == 0 && text.contains("ok    example"), "{text}");
    }
    // A variable of the environment comes first, and an error names no value.
    let mut command = newcomer.command(&["check", "named"]);
    command.env("WEATHER_TOKEN", "of-the-shell");
    let (code, text) = Newcomer::finish(command).await;
    assert!(code == 1 && text.contains("of-the-shell") && !text.contains("OTHER_TOKEN"), "{text}");
    newcomer.write(".env", "WEATHER_TOKEN=of the project\n");
    let (code, text) = newcomer.run(&["check", "named"]).await;
    assert!(code == 4 && text.contains("WEATHER_TOKEN") && !text.contains("of the project"), "{text}");
}

#[tokio::test]
async fn each_python_skill_has_the_library_unless_the_project_has_its_own() {
    let newcomer = new_project().await;
    let script = "from openskill_sdk import progress, run\n\n\ndef handle(input):\n    progress(1)\n    return 'here'\n\n\nrun(handle)\n";
    for isolation in ["fork", "process", "shared"] {
        write_skill(&newcomer, &format!("in_{isolation}"), &format!("isolation: {isolation}"), &json!("here"), script);
    }
    for skill in ["in_fork", "in_process", "in_shared"] {
        let (code, text) = newcomer.run(&["check", skill]).await;
        assert!(code == 0 && text.contains("ok    example"), "{text}");
    }
    newcomer.write(
        "skills/openskill_sdk/__init__.py",
        "def progress(fraction): pass\ndef run(handle): print('\"of the project\"')\n",
    );
    let (_, text) = newcomer.run(&["check", "in_process"]).await;
    assert!(text.contains("of the project"), "{text}");
}

#[tokio::test]
async fn the_library_is_installed_for_editors() {
    let (newcomer, folder) = (new_project().await, Folder::new());
    let library = folder.path().join("library");
    let (code, text) = newcomer.run(&["sdk", "install", library.to_str().unwrap()]).await;
    assert!(code == 0 && library.join("openskill_sdk/py.typed").is_file(), "{text}");
    let python = |script: &str| {
        std::process::Command::new("python3").args(["-B", "-c", script]).env("PYTHONPATH", &library).status().unwrap()
    };
    assert!(python("from openskill_sdk.testing import run_skill").success());
    let (code, text) = newcomer.run(&["sdk", "install"]).await;
    assert!(code == 2 && text.contains("python3 -m venv"), "{text}");
}

fn configuration(file: &Path) -> Value {
    let text = std::fs::read_to_string(file).unwrap();
    serde_json::from_str::<Value>(&text).unwrap()["mcpServers"]["openskill"].clone()
}

#[tokio::test]
async fn clients_start_it_by_the_name_of_its_file_and_are_told_which_variables_it_needs() {
    let _turn = beside_others();
    let newcomer = new_project().await;
    newcomer.write(".env", "WEATHER_TOKEN=s3cret\n");
    let script = "print(1)\n";
    write_skill(&newcomer, "weather", "env: [WEATHER_TOKEN, MAP_TOKEN]", &json!(1), script);
    let mut command = newcomer.command(&["mcp", "config", "cursor", "--write", "--check"]);
    command.current_dir(newcomer.path("skills")).env("MAP_TOKEN", "also-s3cret");
    let (code, text) = Newcomer::finish(command).await;
    assert!(code == 0 && text.contains("starts and has 2 tools") && text.contains("MAP_TOKEN"), "{text}");
    let written = configuration(&newcomer.path("skills/.cursor/mcp.json"));
    assert_eq!(written["args"], json!(["mcp", "--config", newcomer.path("openskill.toml")]));
    assert_eq!(written["env"], json!({"MAP_TOKEN": "${env:MAP_TOKEN}"}));
    // It replaces no placeholders.
    let (code, text) = newcomer.run(&["mcp", "config", "claude-desktop"]).await;
    assert!(code == 0 && text.contains("skills need MAP_TOKEN") && !text.contains("\"env\": "), "{text}");
    let mut command = newcomer.command(&["mcp", "config", "claude-desktop", "--with-values", "--check"]);
    command.env("MAP_TOKEN", "also-s3cret");
    let (code, text) = Newcomer::finish(command).await;
    assert!(code == 0 && text.contains("\"also-s3cret\"") && !text.contains("\"s3cret\""), "{text}");
    assert!(text.contains("starts and has 2 tools") && !text.contains("skills need"), "{text}");
}

#[tokio::test]
async fn a_configuration_that_could_not_start_is_refused() {
    let newcomer = new_project().await;
    let (code, text) = newcomer.run(&["mcp", "config", "cursor", "--gateway", "127.0.0.1:18010"]).await;
    assert!(code == 4 && text.contains("http://"), "{text}");
    let (code, text) = newcomer.run(&["mcp", "config", "cursor", "--skills-dir", "missing"]).await;
    assert!(code == 4 && text.contains("missing"), "{text}");
    let (code, text) = newcomer.run(&["mcp", "config", "cursor", "--gateway", "http://127.0.0.1:1", "--check"]).await;
    assert!(code == 1 && text.contains("check failed"), "{text}");
    assert!(!newcomer.path(".cursor").exists());
    let mut command = Command::new(openskill_tests::binary());
    command.args(["mcp", "config", "cursor"]).env_clear().current_dir(newcomer.path("data"));
    command.env("OPENSKILL_CONFIG", newcomer.path("missing.toml"));
    let (code, text) = Newcomer::finish(command).await;
    assert!(code == 4 && text.contains("missing.toml"), "{text}");
}
