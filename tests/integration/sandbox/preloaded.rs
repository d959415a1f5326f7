//! `python.preload`: sessions begin with modules that are imported already.

use std::path::Path;
use std::process::Command;

use openskill_tests::folder::Folder;
use openskill_tests::require::{Need, skip};
use openskill_tests::system::{PATIENCE, Setup, System, code, data, request};
use openskill_tests::wait::until;
use serde_json::{Value, json};

/// Skills whose sessions preload a good module, one that leaves a thread behind, and one that does not exist.
fn skills(folder: &Folder) {
    let venv = folder.path().join("sandbox/venv");
    let made = Command::new("python3").args(["-m", "venv", "--without-pip", "--copies"]).arg(&venv).status();
    assert!(made.unwrap().success(), "python3 -m venv works");
    let library = std::fs::read_dir(venv.join("lib")).unwrap().next().unwrap().unwrap().path();
    let write = |name: &str, text: &str| std::fs::write(library.join("site-packages").join(name), text).unwrap();
    write("slow_to_load.py", "import time\nloaded_at = time.monotonic_ns()\n");
    write(
        "starts_a_thread.py",
        "import threading, time\nthreading.Thread(target=time.sleep, args=[60], daemon=True).start()\n",
    );
    for (name, operation, more) in [
        (
            "run_python",
            "execute",
            "parameters: {code: {type: string, required: true}, session_id: {type: string}}\n\
             python: {venv: venv, preload: [slow_to_load, starts_a_thread, no_such_module]}\n",
        ),
        ("health", "health", ""),
    ] {
        let text = format!(
            "id: {name}\ndescription: Sessions.\ntype: session\nruntime: python\nentry: {operation}\n\
             affinity: caller\n{more}"
        );
        folder.write(&format!("sandbox/{name}.yaml"), text);
    }
    folder.write("sandbox/toolset.yaml", "toolset: sandbox\ndescription: Sessions.\n");
}

async fn started(folder: &Path) -> Option<System> {
    let system = Setup::with_skills(&[folder]).flag("--workers", 1).start().await;
    let skill = until("the skill is listed", PATIENCE, async || {
        let skill = system.get("/skills/run_python").await.json();
        (skill["status"] == "available" || skill["status_reason"].as_str().is_some_and(|it| it.contains("jail")))
            .then_some(skill)
    });
    let skill = skill.await;
    if skill["status"] == "available" {
        return Some(system);
    }
    skip(Need::Jail, skill["status_reason"].as_str().unwrap_or_default());
    None
}

async fn run(system: &System, code_: &str) -> Value {
    let result = system.invoke(request("run_python", json!({"code": code_}))).await;
    assert_eq!(code(&result), "", "{result:?}");
    data(&result)
}

#[tokio::test]
async fn sessions_begin_with_preloaded_modules_and_health_names_those_that_are_not() {
    let folder = Folder::new();
    skills(&folder);
    let Some(system) = started(folder.path()).await else { return };
    let loaded = "import os, sys\n[n in sys.modules for n in ('slow_to_load', 'starts_a_thread')]";
    assert_eq!(run(&system, loaded).await["result"], "[True, False]");
    // The fork server loaded it once, for all sessions; a session can still load the other one.
    let when = "import slow_to_load\nslow_to_load.loaded_at";
    assert_eq!(run(&system, when).await["result"], run(&system, when).await["result"]);
    let own = "import starts_a_thread, threading\nthreading.active_count()";
    assert_eq!(run(&system, own).await["result"], "2");
    let health = data(&system.invoke(request("health", json!({}))).await);
    assert_eq!(health["not_preloaded"], json!(["import starts_a_thread (thread)", "import no_such_module (error)"]));
}
