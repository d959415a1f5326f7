//! A worker to attack: one of four kinds, with skills that start in one of three ways.

use std::net::SocketAddr;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown};
use std::path::{Path, PathBuf};

use openskill_proto::v1::skill_service_client::SkillServiceClient;
use openskill_proto::v1::{InvokeRequest, SkillResult};
use openskill_tests::folder::Folder;
use openskill_tests::require::{Need, skip};
use openskill_tests::system::{Setup, System, code, data, request};
use openskill_tests::{binary, repository};
use serde_json::Value;
use tonic::transport::{Channel, Endpoint};

use crate::jail::{new_user, whole_jail};

/// What a manifest asks for: `jail: ...`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Level {
    /// Files, system calls and signals are bounded.
    Standard,
    /// The same, and namespaces of its own.
    Strict,
}

/// The levels that manifests know, and the word for each.
pub(super) const LEVELS: &[(Level, &str)] = &[(Level::Standard, "standard"), (Level::Strict, "strict")];

/// Names the level that attacks are made against, on a machine that gives no more.
const ATTACKED: &str = "OPENSKILL_TEST_LEVEL";

/// The level that attacks are made against: the highest, unless the environment names another one.
fn attacked() -> (Level, &'static str) {
    let named = std::env::var(ATTACKED).ok();
    let mut levels = LEVELS.iter().copied().rev();
    let level = levels.find(|(_, word)| named.as_deref().is_none_or(|it| it == *word));
    level.unwrap_or_else(|| panic!("{ATTACKED} is {named:?}, none of {LEVELS:?}"))
}

/// Who a worker is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Worker {
    /// Root. The skills' user reaches everything it needs.
    Root,
    /// The same as it is by default: each run has a user of its own, where it has namespaces.
    Own,
    /// Root. The skills' user reaches neither the allowed root nor, below `/root`, the interpreter, so that skills pass file
    /// permissions (`CAP_DAC_OVERRIDE`).
    Overriding,
    /// Another user, who is the skills' user too.
    Unprivileged,
}

impl Worker {
    /// As the table names it. What it says of root holds for runs with users of their own, too.
    pub(super) fn words(self) -> &'static [&'static str] {
        match self {
            Self::Root => &["root"],
            Self::Own => &["root", "own"],
            Self::Overriding => &["overriding"],
            Self::Unprivileged => &["unprivileged"],
        }
    }
}

/// How a skill's process starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Kind {
    Process,
    Fork,
    Exec,
}

impl Kind {
    pub(super) const ALL: [Self; 3] = [Self::Process, Self::Fork, Self::Exec];

    /// As the table and the ids of skills name it.
    pub(super) fn word(self) -> &'static str {
        match self {
            Self::Process => "process",
            Self::Fork => "fork",
            Self::Exec => "exec",
        }
    }

    fn settings(self) -> &'static str {
        match self {
            Self::Process => "runtime: python\nisolation: process",
            Self::Fork => "runtime: python\nisolation: fork",
            Self::Exec => "runtime: exec\nexec: {stdin: true}",
        }
    }
}

/// The python that programs name in their first line.
const PYTHON: &str = "/usr/bin/python3";

/// What is to be started.
pub(super) struct Scene {
    worker: Worker,
    folder: Folder,
    uid: u32,
    environment: Vec<(&'static str, String)>,
    /// What the machine gives and no more, and the word of the manifests for it.
    level: (Level, &'static str),
    /// What the machine forbids: a word of `without.py`.
    forbidden: Option<&'static str>,
}

/// A worker with skills, and the folder of all of it.
pub(super) struct Stage {
    pub(super) system: System,
    pub(super) folder: Folder,
    pub(super) uid: u32,
}

impl Scene {
    /// None: this machine has no jail, and the test is skipped.
    pub(super) async fn new(worker: Worker) -> Option<Self> {
        Self::at(worker, attacked()).await
    }

    /// The same at another level than the one that is attacked.
    pub(super) async fn at(worker: Worker, level: (Level, &'static str)) -> Option<Self> {
        if (worker, level.0) == (Worker::Own, Level::Standard) || !whole_jail().await {
            return None;
        }
        if !Path::new(PYTHON).exists() {
            skip(Need::Jail, &format!("attacks need {PYTHON}"));
            return None;
        }
        let forbidden = (level.0 == Level::Standard).then_some("namespaces");
        let (folder, uid) = (Folder::beneath(&place()), new_user());
        let scene = Self { worker, folder, uid, environment: Vec::new(), level, forbidden };
        copy_programs(&scene.path("skills"));
        for name in ["data", "tmp"] {
            std::fs::create_dir(scene.path(name)).unwrap();
        }
        if worker != Worker::Overriding {
            scene.give("data");
        }
        std::fs::set_permissions(scene.path("tmp"), std::fs::Permissions::from_mode(0o1777)).unwrap();
        Some(scene)
    }

    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Makes a file or folder the skills' user's.
    pub(super) fn give(&self, name: &str) {
        chown(self.path(name), Some(self.uid), Some(self.uid)).unwrap();
    }

    pub(super) fn write(&self, name: &str, text: &str) -> PathBuf {
        self.folder.write(name, text)
    }

    /// A skill `NAME_KIND` for each kind of start, that runs a fixture.
    #[must_use]
    pub(super) fn skills(self, name: &str, script: &str, more: &str) -> Self {
        for kind in Kind::ALL {
            self.skill(&format!("{name}_{}", kind.word()), kind, script, more);
        }
        self
    }

    pub(super) fn skill(&self, id: &str, kind: Kind, script: &str, more: &str) {
        write_skill(&self.folder, id, kind, script, &format!("jail: {}\n{more}", self.level.1));
    }

    /// On a machine where system calls can't be filtered, and which gives all else.
    #[must_use]
    pub(super) fn without_filters(self) -> Self {
        Self { forbidden: Some("filters"), ..self }
    }

    #[must_use]
    pub(super) fn with(mut self, name: &'static str, value: impl ToString) -> Self {
        self.environment.push((name, value.to_string()));
        self
    }

    /// The worker's temporary folder is one that only this test has.
    #[must_use]
    pub(super) fn own_temp(self) -> Self {
        let path = self.path("tmp").display().to_string();
        self.with("TMPDIR", path)
    }

    /// None: this machine lacks something, and the test is skipped.
    pub(super) async fn start(self) -> Option<Stage> {
        let (user, filter) = (self.uid.to_string(), self.path("skills/without.py").display().to_string());
        let mut through = Vec::new();
        if let Some(forbidden) = self.forbidden {
            through.extend([PYTHON, &filter, forbidden]);
        }
        if self.worker == Worker::Unprivileged {
            let as_user = ["setpriv", "--reuid", &user, "--regid", &user, "--clear-groups"];
            let mut reached = std::process::Command::new(as_user[0]);
            let reached = reached.args(&as_user[1..]).arg(binary()).arg("--version").output();
            if !reached.is_ok_and(|it| it.status.success()) {
                skip(Need::Jail, &format!("another user cannot start {}", binary().display()));
                return None;
            }
            through.extend(as_user);
        }
        let system = self.setup().through(&through).start().await;
        let Self { folder, uid, .. } = self;
        Some(Stage { system, folder, uid })
    }

    fn setup(&self) -> Setup {
        let skills = self.path("skills").display().to_string();
        let mut setup = Setup::command(&["up", "--workers", "1", "--listen", "127.0.0.1:0", "--skills-dir", &skills])
            .data(&self.path("data"))
            .with("OPENSKILL_WORKER_CONCURRENCY", 64)
            // Attacks fail: that is not to keep the next one from being made.
            .with("CIRCUIT_FAILURE_THRESHOLD", 0)
            .with("OPENSKILL_CIRCUIT_MINIMUM_CALLS", 0)
            .with("SECRET_OF_THE_WORKER", "hunter2");
        if self.worker != Worker::Own {
            setup = setup.with("OPENSKILL_SKILL_USER", self.uid);
        }
        // The python that is found on the path may be below /root.
        if self.worker != Worker::Overriding {
            setup = setup.with("OPENSKILL_PYTHON", PYTHON);
        }
        self.environment.iter().fold(setup, |setup, (name, value)| setup.with(name, value))
    }
}

impl Stage {
    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// The one worker.
    pub(super) fn worker(&self) -> i32 {
        let [worker] = self.system.worker_pids()[..] else { panic!("one worker") };
        worker
    }

    pub(super) fn gateway(&self) -> Gateway {
        Gateway(self.system.address)
    }

    pub(super) async fn call(&self, skill: &str, input: Value, timeout_ms: u32) -> SkillResult {
        self.gateway().call(skill, input, timeout_ms).await
    }

    /// A call that must succeed.
    pub(super) async fn value(&self, skill: &str, input: Value) -> Value {
        let result = self.call(skill, input, LONG_MS).await;
        assert_eq!(code(&result), "", "{skill}: {result:?}\n{}", self.system.process.log.text());
        data(&result)
    }
}

/// Hundreds of attempts, beside other tests.
const LONG_MS: u32 = 240_000;

/// Where attackers call: the gateway of a stage, or one in a container.
#[derive(Debug, Clone, Copy)]
pub(super) struct Gateway(pub(super) SocketAddr);

impl Gateway {
    pub(super) async fn skills(self) -> SkillServiceClient<Channel> {
        let gateway = Endpoint::from_shared(format!("http://{}", self.0)).unwrap();
        SkillServiceClient::new(gateway.connect().await.unwrap())
    }

    pub(super) async fn call(self, skill: &str, input: Value, timeout_ms: u32) -> SkillResult {
        let call = InvokeRequest { timeout_ms, ..request(skill, input) };
        self.skills().await.invoke(call).await.unwrap().into_inner()
    }

    /// A call that must succeed.
    pub(super) async fn value(self, skill: &str, input: Value) -> Value {
        let result = self.call(skill, input, LONG_MS).await;
        assert_eq!(code(&result), "", "{skill}: {result:?}");
        data(&result)
    }
}

/// Where everybody may look around, and not in `/tmp` if that is possible: a jail may have one of its own.
pub(super) fn place() -> PathBuf {
    let target = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let is_open = |folder: &Path| folder.metadata().is_ok_and(|it| it.mode() & 0o5 == 0o5);
    if target.ancestors().all(is_open) { target.to_owned() } else { std::env::temp_dir() }
}

/// Writes the attackers' programs into a folder of skills.
pub(super) fn copy_programs(skills: &Path) {
    copy(&repository().join("tests/fixtures/walls"), skills);
}

/// Writes the manifest of a skill beside the programs.
pub(super) fn write_skill(folder: &Folder, id: &str, kind: Kind, script: &str, more: &str) {
    // The default of 15 s would cut the deadlines that calls ask for, and is too short on a loaded machine.
    let settings = format!("{}\nentry: {script}\ntimeout_ms: 120000", kind.settings());
    folder.write(&format!("skills/{id}.yaml"), format!("id: {id}\ntype: cli\n{settings}\n{more}\n"));
}

fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap().flatten() {
        let (path, target) = (entry.path(), to.join(entry.file_name()));
        if path.is_dir() {
            copy(&path, &target);
        } else {
            std::fs::copy(&path, &target).unwrap();
            std::fs::set_permissions(&target, std::fs::Permissions::from_mode(0o755)).unwrap();
        }
    }
}
