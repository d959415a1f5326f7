//! An index with a server of the test's own, whose wheel lies in a folder.

use std::path::PathBuf;
use std::time::Duration;

use openskill_proto::v1::{InvokeRequest, SkillResult, skill_error::More};
use openskill_tests::alone::beside_others;
use openskill_tests::binary;
use openskill_tests::folder::Folder;
use openskill_tests::mcp_wheel::{Server, tool};
use openskill_tests::repository;
use openskill_tests::require::{Need, skip};
use openskill_tests::system::{Setup, System, request};
use serde_json::{Value, json};
use tokio::process::Command;

/// Installers take seconds, and some on a loaded machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(180);

/// What a call asks for.
pub(crate) const TASK: &str = "How late is it on the station clock?";

/// Whether there is a strict jail. Says that the test is skipped if there is none.
pub(crate) fn has_jail() -> bool {
    let root = rustix::process::geteuid().is_root();
    if !root {
        skip(Need::Jail, "servers of an index run in a strict jail, and this test needs root for it");
    }
    root
}

pub(crate) struct Stage {
    pub(crate) folder: Folder,
    pub(crate) server: Server,
}

impl Stage {
    /// With the server `clock`, which has two tools and is in the index.
    pub(crate) fn new() -> Self {
        let tools = vec![tool("now", "Tells how late it is."), tool("ring", "Rings the bell. 敲钟。")];
        let stage = Self { folder: Folder::new(), server: Server { name: "clockserver", version: "1.0", tools } };
        for file in ["search_and_install_tools.yaml", "toolset.yaml"] {
            let text = std::fs::read(repository().join("worker/skills/mcp-search-tool").join(file)).unwrap();
            stage.folder.write(&format!("skills/mcp-search-tool/{file}"), text);
        }
        let entry = stage.entry();
        stage.index(&entry);
        stage
    }

    /// The entry of the server, whose wheel is written.
    pub(crate) fn entry(&self) -> String {
        let hash = self.server.write(&self.folder.path().join("wheels"));
        let Server { name, version, .. } = self.server;
        format!(
            "[[server]]\nid = 'clock'\ntitle = 'Station clock'\nversion = '{version}'\n\
             description = 'A clock that tells how late it is.'\nkeywords = ['clock', '时钟', '几点']\n\
             entry = '{name}'\nrequirements = ['{name}=={version} --hash=sha256:{hash}']\n{}\n",
            self.server.pins()
        )
    }

    /// Writes the index.
    pub(crate) fn index(&self, text: &str) {
        self.folder.write("index.toml", text);
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn environment(&self) -> Vec<(&'static str, String)> {
        let path = |name: &str| self.path(name).display().to_string();
        vec![
            ("OPENSKILL_PYTHON_ENVIRONMENTS", path("store")),
            ("OPENSKILL_PYTHON_INSTALLER", "pip".to_owned()),
            ("OPENSKILL_PYTHON_INDEX_URL", "none".to_owned()),
            ("OPENSKILL_PYTHON_FIND_LINKS", path("wheels")),
            ("OPENSKILL_TOOL_INDEX", path("index.toml")),
            ("OPENSKILL_TOOLS_DIR", path("tools")),
        ]
    }

    /// One worker with a policy.
    pub(crate) fn setup(&self, policy: &str) -> Setup {
        self.workers(1, policy)
    }

    /// Workers with a policy.
    pub(crate) fn workers(&self, count: usize, policy: &str) -> Setup {
        let setup = Setup::with_skills(&[&self.path("skills")]).flag("--workers", count);
        let setup = setup.with("OPENSKILL_TOOL_INSTALL", policy);
        self.environment().into_iter().fold(setup, |setup, (name, value)| setup.with(name, value))
    }

    /// `openskill tools` in the folder: whether it succeeded, stdout and stderr.
    pub(crate) async fn tools(&self, arguments: &[&str]) -> (bool, String, String) {
        let _turn = beside_others();
        std::fs::create_dir_all(self.path("data")).unwrap();
        let output = Command::new(binary())
            .arg("tools")
            .args(arguments)
            .current_dir(self.folder.path())
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("OPENSKILL_CLI_DIR", self.path("skills"))
            .envs(self.environment())
            .output()
            .await
            .unwrap();
        let text = |bytes| String::from_utf8(bytes).unwrap();
        (output.status.success(), text(output.stdout), text(output.stderr))
    }

    /// What is in the folder of installed tools, beside the lock.
    pub(crate) fn installed(&self) -> Vec<String> {
        let entries = std::fs::read_dir(self.path("tools")).into_iter().flatten().flatten();
        let mut names: Vec<_> = entries.map(|it| it.file_name().into_string().unwrap()).collect();
        names.retain(|name| name != ".lock");
        names.sort();
        names
    }
}

/// Calls the skill with further arguments.
pub(crate) async fn search(system: &System, task: &str, more: Value) -> SkillResult {
    system.invoke(call(task, more)).await
}

/// The same while there may be no worker: none if the call was not taken.
pub(crate) async fn try_search(system: &System, task: &str) -> Option<SkillResult> {
    let answer = system.skills().await.invoke(call(task, json!({}))).await;
    answer.ok().map(tonic::Response::into_inner)
}

fn call(task: &str, more: Value) -> InvokeRequest {
    let mut input = json!({"task_description": task});
    input.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    InvokeRequest { timeout_ms: 170_000, ..request("search_and_install_tools", input) }
}

/// The details of a failure.
pub(crate) fn details(result: &SkillResult) -> Value {
    match result.error.as_ref().and_then(|error| error.more.as_ref()) {
        Some(More::DetailsJson(text)) => serde_json::from_str(text).unwrap(),
        _ => panic!("no details: {result:?}"),
    }
}
