//! Forks on each installed Python: memory management differs between versions.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use openskill_tests::fixtures;
use openskill_tests::folder::Folder;

use openskill_tests::system::{PATIENCE, Setup, System, code, data, request};
use openskill_tests::wait::until;
use serde_json::{Value, json};

/// The oldest version that is supported.
const OLDEST: (u32, u32) = (3, 9);

/// A kind of Python: its version, and whether its threads run at once.
type Kind = ((u32, u32), bool);

/// The first interpreter of each kind, on the `PATH` or installed by pyenv.
fn interpreters() -> BTreeMap<Kind, PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let names = || std::iter::once("python3".to_owned()).chain((9..30).map(|minor| format!("python3.{minor}")));
    let on_path = std::env::split_paths(&path).flat_map(|folder| names().map(move |name| folder.join(name)));
    let pyenv = std::env::var_os("PYENV_ROOT").map(|root| PathBuf::from(root).join("versions"));
    let versions = pyenv.and_then(|it| std::fs::read_dir(it).ok()).into_iter().flatten().flatten();
    let mut of_pyenv: Vec<_> = versions.map(|version| version.path().join("bin/python3")).collect();
    of_pyenv.sort();
    let mut found = BTreeMap::new();
    for candidate in on_path.chain(of_pyenv).filter(|it| it.is_file()) {
        if let Some(kind) = kind(&candidate).filter(|(version, _)| *version >= OLDEST) {
            found.entry(kind).or_insert(candidate);
        }
    }
    found
}

fn kind(python: &Path) -> Option<Kind> {
    let program =
        "import sys, sysconfig; print(*sys.version_info[:2], int(sysconfig.get_config_var('Py_GIL_DISABLED') or 0))";
    let asked = std::process::Command::new(python).args(["-c", program]).output();
    let output = String::from_utf8(asked.ok()?.stdout).ok()?;
    let numbers: Vec<u32> = output.split_whitespace().filter_map(|it| it.parse().ok()).collect();
    let [major, minor, free_threaded] = numbers[..] else { return None };
    Some(((major, minor), free_threaded == 1))
}

/// Changes, deletes and collects what was loaded before it.
const SCRIPT: &str = r#"
import gc
import json
import os
import sys
import weakref

import ours

call = json.load(sys.stdin)
seen = [ours.state, ours.greet("x"), json.loads.__name__, len(ours.Thing.made)]
gone = []


class Own:
    def __del__(self):
        gone.append("own")


it = Own()
mark = weakref.ref(it, lambda _: gone.append("weak"))
del it
thing = ours.Thing()
ours.state = "changed"
ours.Thing.made.append(1)
json.loads.__name__ = "changed"
del ours.greet, ours.Thing, sys.modules["ours"]
gc.unfreeze()
gc.collect()
for _ in range(3):
    garbage = [[] for _ in range(10_000)]
    garbage.append(garbage)
    del garbage
    gc.collect()
text = "a" * 3
for _ in range(1000):
    text += "b"
many = [None, True, "", (), 0] * 100_000
del many
print(json.dumps({
    "found": {"seen": seen, "gone": sorted(gone), "thing": thing.name(), "text": len(text), "echoed": call["input"]},
    "parent": os.getppid(),
}))
"#;

/// Has a type whose comparison and hash misbehave.
const MODULE: &str = r#"
state = "new"


def greet(name):
    return "hello " + name


class Thing:
    made = []

    def name(self):
        return type(self).__name__


class Odd(type):
    __hash__ = None

    def __eq__(self, other):
        raise TypeError("not to be compared")


class Strange(metaclass=Odd):
    pass


strange = Strange()
"#;

#[tokio::test]
async fn no_state_leaks_between_forks_on_any_installed_python() {
    let interpreters = interpreters();
    assert!(!interpreters.is_empty(), "there is no Python on the PATH");
    let folder = Folder::new();
    folder.write("collects.py", SCRIPT);
    folder.write("ours.py", MODULE);
    folder.write("meddles.py", std::fs::read_to_string(fixtures().join("meddles.py")).unwrap());
    for python in interpreters.values() {
        let system = with_skills(&folder, python).await;
        forks(&system).await;
        let first = value(&system, "meddles", json!({})).await;
        for number in 0..20 {
            assert_eq!(value(&system, "meddles", json!({})).await["found"], first["found"], "{}", python.display());
            let wanted = json!({"seen": ["new", "hello x", "loads", 0], "gone": ["own", "weak"], "thing": "Thing",
                                "text": 1003, "echoed": {"number": number}});
            let found = value(&system, "collects", json!({"number": number})).await;
            assert_eq!(found["found"], wanted, "{}", python.display());
        }
    }
}

/// Waits until calls are forked. Each fresh interpreter has a supervisor of its own as its parent.
async fn forks(system: &System) {
    let parent = async || value(system, "collects", json!({})).await["parent"].clone();
    until("two calls have one parent", PATIENCE, async || (parent().await == parent().await).then_some(())).await;
}

async fn with_skills(folder: &Folder, python: &Path) -> System {
    let skills = folder.path().display().to_string();
    let setup = Setup::command(&["up", "--listen", "127.0.0.1:0", "--workers", "1", "--skills-dir", &skills]);
    setup.with("OPENSKILL_PYTHON", python.display()).start().await
}

async fn value(system: &System, skill: &str, input: Value) -> Value {
    let result = system.invoke(request(skill, input)).await;
    assert_eq!(code(&result), "", "{result:?}");
    data(&result)
}
