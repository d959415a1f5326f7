//! Python skills with packages of their own: built once, kept apart, and never on a call.

use std::time::Duration;

use openskill_tests::alone::beside_others;
use openskill_tests::folder::Folder;
use openskill_tests::port::Port;
use openskill_tests::require::{Need, skip};
use openskill_tests::system::{Setup, System, code, data, request};
use openskill_tests::wait::until;
use openskill_tests::{binary, wheel};
use serde_json::json;
use tokio::process::Command;

/// Installers take seconds, and some on a loaded machine.
const PATIENCE: Duration = Duration::from_secs(180);

/// Skills, wheels and environments, in a folder of the test's own.
struct Stage {
    folder: Folder,
}

impl Stage {
    /// With two versions of one package, which exclude each other.
    fn new() -> Self {
        let stage = Self { folder: Folder::new() };
        for version in ["1.0", "2.0"] {
            let module = format!("VERSION = '{version}'\ndef main():\n    print('shade', VERSION)\n");
            wheel::write(&stage.folder.path().join("wheels"), "shade", version, &module, &[]);
        }
        stage.folder.write("skills/plain.py", "print(1)\n");
        stage
    }

    /// A skill that says which version it has, from which environment, and what the command of the package prints.
    fn skill(&self, id: &str, rest: &str) {
        let script = "import json, subprocess, sys\nimport shade\n\
                      printed = subprocess.run(['shade'], capture_output=True, text=True).stdout\n\
                      print(json.dumps({'version': shade.VERSION, 'prefix': sys.prefix, 'printed': printed}))\n";
        self.folder.write("skills/parts/shades.py", script);
        self.folder.write("skills/parts/toolset.yaml", "toolset: parts\n");
        let manifest = format!("id: {id}\ntype: cli\nruntime: python\nentry: shades.py\ntimeout_ms: 60000\n{rest}\n");
        self.folder.write(&format!("skills/parts/{id}.yaml"), manifest);
    }

    fn environment(&self) -> Vec<(&'static str, String)> {
        let path = |name: &str| self.folder.path().join(name).display().to_string();
        vec![
            ("OPENSKILL_PYTHON_ENVIRONMENTS", path("store")),
            ("OPENSKILL_PYTHON_INSTALLER", "pip".to_owned()),
            ("OPENSKILL_PYTHON_INDEX_URL", "none".to_owned()),
            ("OPENSKILL_PYTHON_FIND_LINKS", path("wheels")),
        ]
    }

    fn setup(&self) -> Setup {
        let setup = Setup::with_skills(&[&self.folder.path().join("skills")]);
        self.environment().into_iter().fold(setup, |setup, (name, value)| setup.with(name, value))
    }

    /// How many environments are complete.
    fn built(&self) -> usize {
        let entries = std::fs::read_dir(self.folder.path().join("store")).into_iter().flatten().flatten();
        entries.filter(|it| it.path().join("openskill.json").is_file()).count()
    }

    /// `openskill` in the folder: whether it succeeded, stdout and stderr.
    async fn run(&self, arguments: &[&str]) -> (bool, String, String) {
        let _turn = beside_others();
        std::fs::create_dir_all(self.folder.path().join("data")).unwrap();
        let skills = self.folder.path().join("skills").display().to_string();
        let output = Command::new(binary())
            .args(arguments)
            .args(["--skills-dir", &skills])
            .current_dir(self.folder.path())
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .envs(self.environment())
            .output()
            .await
            .unwrap();
        let text = |bytes| String::from_utf8(bytes).unwrap();
        (output.status.success(), text(output.stdout), text(output.stderr))
    }
}

/// Why a skill is unavailable; none once it is available.
async fn reason(system: &System, skill: &str) -> Option<String> {
    let answer = system.get(&format!("/skills/{skill}")).await.json();
    (answer["status"] != "available").then(|| answer["status_reason"].as_str().unwrap_or_default().to_owned())
}

async fn is_available(system: &System, skill: &str) {
    until(&format!("{skill} is available"), PATIENCE, || async { reason(system, skill).await.is_none().then_some(()) })
        .await;
}

async fn is_unavailable_as(system: &System, skill: &str, words: &[&str]) {
    until(&format!("{skill} is unavailable because of {words:?}"), PATIENCE, || async {
        let reason = reason(system, skill).await?;
        words.iter().all(|word| reason.contains(word)).then_some(())
    })
    .await;
}

async fn version(system: &System, skill: &str) -> serde_json::Value {
    let result = system.invoke(request(skill, json!({}))).await;
    assert_eq!(code(&result), "", "{result:?}");
    data(&result)
}

#[tokio::test]
async fn skills_with_packages_that_exclude_each_other_are_served_side_by_side() {
    let stage = Stage::new();
    for isolation in ["fork", "process", "shared"] {
        stage.skill(
            &format!("old_{isolation}"),
            &format!("isolation: {isolation}\npython: {{requirements: [shade==1.0]}}"),
        );
        stage.skill(
            &format!("new_{isolation}"),
            &format!("isolation: {isolation}\npython: {{requirements: [\"shade>=2\"]}}"),
        );
    }
    let system = stage.setup().flag("--workers", 2).start().await;
    let while_building = system.invoke(request("plain", json!({}))).await;
    assert_eq!(code(&while_building), "", "other skills are served meanwhile: {while_building:?}");
    let mut prefixes = std::collections::BTreeSet::new();
    for isolation in ["fork", "process", "shared"] {
        for (skill, expected) in [("old", "1.0"), ("new", "2.0")] {
            let skill = format!("{skill}_{isolation}");
            is_available(&system, &skill).await;
            for _ in 0..3 {
                let found = version(&system, &skill).await;
                assert_eq!(found["version"], expected, "{skill}");
                assert_eq!(found["printed"], format!("shade {expected}\n"), "{skill}");
                prefixes.insert(found["prefix"].to_string());
            }
        }
    }
    assert_eq!((prefixes.len(), stage.built()), (2, 2), "skills that ask for the same share it: {prefixes:?}");
}

#[tokio::test]
async fn a_skill_is_unavailable_while_its_environment_is_built_and_a_change_builds_another() {
    let stage = Stage::new();
    stage.skill("shades", "python: {requirements: requirements.txt}");
    stage.folder.write("skills/parts/requirements.txt", "shade==9\n");
    let system = stage.setup().flag("--workers", 1).start().await;
    is_unavailable_as(&system, "shades", &["pip could not install its packages", "shade==9"]).await;
    let refused = system.invoke(request("shades", json!({}))).await;
    assert_eq!(code(&refused), "UNAVAILABLE", "{refused:?}");
    stage.folder.write("skills/parts/requirements.txt", "# the first\nshade == 1.0\n");
    is_unavailable_as(&system, "shades", &["its environment is being built"]).await;
    is_available(&system, "shades").await;
    assert_eq!(version(&system, "shades").await["version"], "1.0");
    stage.folder.write("skills/parts/requirements.txt", "shade==2.0\n");
    until("the changed requirement takes effect", PATIENCE, || async {
        if reason(&system, "shades").await.is_some() {
            return None;
        }
        let result = system.invoke(request("shades", json!({}))).await;
        (code(&result).is_empty() && data(&result)["version"] == "2.0").then_some(())
    })
    .await;
    // The first one is still there: going back takes no build.
    assert_eq!(stage.built(), 2);
}

#[tokio::test]
async fn each_fault_of_an_environment_is_a_reason_and_other_skills_are_served() {
    let stage = Stage::new();
    wheel::write(&stage.folder.path().join("wheels"), "clash", "1.0", "", &["shade==1.0"]);
    stage.skill("broken", "python: {requirements: [\"shade=>1\"]}");
    stage.skill("missing", "python: {requirements: [nowhere-to-be-found]}");
    stage.skill("clashing", "python: {requirements: [clash, \"shade==2.0\"]}");
    stage.skill("elsewhere", "python: {requirements: [\"shade @ https://elsewhere/shade.whl\"]}");
    stage.skill("fileless", "python: {requirements: none.txt}");
    stage.skill("venvless", "python: {venv: /nonexistent/venv}");
    stage.skill("future", "python: {version: \"3.99\", requirements: [shade]}");
    stage.skill("good", "python: {requirements: [shade]}");
    let system = stage.setup().flag("--workers", 1).start().await;
    is_available(&system, "good").await;
    for (skill, words) in [
        ("broken", &["shade=>1"][..]),
        ("missing", &["nowhere-to-be-found"]),
        ("clashing", &["conflicting dependencies"]),
        ("elsewhere", &["path or URL"]),
        ("fileless", &["'none.txt' does not exist"]),
        ("venvless", &["'venv' does not exist"]),
        ("future", &["Python 3.99", "python3.99"]),
    ] {
        is_unavailable_as(&system, skill, words).await;
    }
    assert_eq!(version(&system, "good").await["version"], "2.0");
    assert_eq!(code(&system.invoke(request("plain", json!({}))).await), "");
}

#[tokio::test]
async fn an_index_that_is_not_there_is_the_reason() {
    let stage = Stage::new();
    stage.skill("shades", "python: {requirements: [shade]}");
    let nobody = "http://127.0.0.1:9/simple";
    let setup = stage.setup().with("OPENSKILL_PYTHON_INDEX_URL", nobody).with("OPENSKILL_PYTHON_FIND_LINKS", "");
    let system = setup.with("PIP_RETRIES", 1).flag("--workers", 1).start().await;
    is_unavailable_as(&system, "shades", &["package index was not reached", "OPENSKILL_PYTHON_INDEX_URL"]).await;
    assert_eq!(code(&system.invoke(request("plain", json!({}))).await), "");
}

#[tokio::test]
async fn a_full_disk_is_the_reason_and_nothing_half_built_stays() {
    if !rustix::process::geteuid().is_root() {
        return skip(Need::Jail, "only root mounts a small disk");
    }
    let stage = Stage::new();
    stage.skill("shades", "python: {requirements: [shade]}");
    let store = stage.folder.path().join("store");
    std::fs::create_dir_all(&store).unwrap();
    let script = format!("mount -t tmpfs -o size=48k,mode=755 tmpfs {} && exec \"$@\"", store.display());
    let setup = stage.setup().flag("--workers", 1).through(&["unshare", "--mount", "sh", "-c", &script, "sh"]);
    let system = setup.start().await;
    is_unavailable_as(&system, "shades", &["disk", "full", "OPENSKILL_PYTHON_ENVIRONMENTS"]).await;
    assert_eq!(code(&system.invoke(request("plain", json!({}))).await), "");
    let seen = std::path::PathBuf::from(format!("/proc/{}/root{}", system.process.pid(), store.display()));
    until("what was half built is gone", PATIENCE, || async {
        let left = std::fs::read_dir(&seen).unwrap().flatten();
        (left.filter(|it| it.file_name().as_encoded_bytes().starts_with(b".new-")).count() == 0).then_some(())
    })
    .await;
}

#[tokio::test]
async fn a_venv_of_ones_own_is_used_as_it_is() {
    let stage = Stage::new();
    let venv = stage.folder.path().join("skills/venv");
    let made = Command::new("python3").args(["-m", "venv", "--without-pip"]).arg(&venv).output().await.unwrap();
    assert!(made.status.success(), "{made:?}");
    let library = std::fs::read_dir(venv.join("lib")).unwrap().flatten().next().unwrap().path().join("site-packages");
    std::fs::write(library.join("shade.py"), "VERSION = 'mine'\n").unwrap();
    let script = "import json, shade, sys\nprint(json.dumps({'version': shade.VERSION, 'prefix': sys.prefix}))\n";
    stage.folder.write("skills/own.py", script);
    stage.folder.write("skills/own.yaml", "id: own\ntype: cli\nruntime: python\nentry: own.py\npython: {venv: venv}\n");
    let system = stage.setup().flag("--workers", 1).start().await;
    for _ in 0..3 {
        let found = version(&system, "own").await;
        assert_eq!((&found["version"], &found["prefix"]), (&json!("mine"), &json!(venv)));
    }
    assert_eq!(stage.built(), 0, "nothing was built");
}

#[tokio::test]
async fn check_builds_the_environment_of_its_skill_and_doctor_builds_none() {
    let stage = Stage::new();
    stage.skill("old", "python: {requirements: [shade==1.0]}\nexamples: [{name: runs}]");
    stage.skill("new", "python: {requirements: [shade==2.0]}\nexamples: [{name: runs}]");
    let (_, out, _) = stage.run(&["doctor"]).await;
    let line = out.lines().find(|line| line.contains("old ")).unwrap_or_else(|| panic!("{out}"));
    assert!(line.contains("part") && line.contains("not built yet"), "{out}");
    assert!(out.lines().any(|line| line.contains("packages") && line.contains("installed with pip")), "{out}");
    assert_eq!(stage.built(), 0);
    let (good, out, err) = stage.run(&["check", "old"]).await;
    assert!(good && out.contains("ok    environment\n  ok    example: runs"), "{out}{err}");
    assert!(err.contains("old: building its environment with pip: shade==1.0"), "{err}");
    assert!(err.contains("old: its environment is ready after"), "{err}");
    assert_eq!(stage.built(), 1, "the other skill was not asked for");
    let (good, out, err) = stage.run(&["check", "old"]).await;
    assert!(good && !err.contains("building"), "it is there already: {out}{err}");
    stage.skill("broken", "python: {requirements: [nowhere-to-be-found]}");
    let (good, out, _) = stage.run(&["check", "broken"]).await;
    assert!(!good && out.contains("cannot run on this machine: pip could not install its packages"), "{out}");
}

#[tokio::test]
async fn an_import_that_is_not_warm_is_explained_by_check_and_counted() {
    let stage = Stage::new();
    stage.folder.write(
        "skills/threads/__init__.py",
        "import threading\nthreading.Thread(target=threading.Event().wait, daemon=True).start()\n",
    );
    stage.folder.write("skills/slow.py", "import threads\nprint(1)\n");
    let manifest = "id: slow\ntype: cli\nruntime: python\nentry: slow.py\nexamples: [{name: runs, data: 1}]\n";
    stage.folder.write("skills/slow.yaml", manifest);
    let (good, out, err) = stage.run(&["check", "slow"]).await;
    assert!(good, "{out}{err}");
    assert!(out.contains("not warm: each call runs `import threads` again: it leaves a thread behind"), "{out}");
    let (_, out, _) = stage.run(&["doctor"]).await;
    assert!(
        out.lines().any(|line| line.contains("slow") && line.contains("part") && line.contains("not warm")),
        "{out}"
    );
    let port = Port::reserve();
    let setup = stage.setup().flag("--workers", 1).with("OPENSKILL_WORKER_METRICS_LISTEN", port.address());
    let system = setup.start().await;
    assert_eq!(version(&system, "slow").await, 1);
    until("the import is counted", PATIENCE, || async {
        let text = openskill_tests::rest::metrics(port.address()).await;
        text.contains("openskill_worker_cold_imports{leaves=\"thread\"} 1").then_some(())
    })
    .await;
}
