//! Forks on each Python that is here: how an interpreter keeps its memory is its own affair, and differs between versions.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use openskill_tests::fixtures;
use openskill_tests::folder::Folder;
use openskill_tests::system::{Setup, System, code, data, request};
use serde_json::{Value, json};

/// By version: of each the first that is on the `PATH`, or that pyenv has.
fn interpreters() -> BTreeMap<(u32, u32), PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let on_path = std::env::split_paths(&path)
        .flat_map(|folder| (9..30).map(move |minor| folder.join(format!("python3.{minor}"))));
    let pyenv = std::env::var_os("PYENV_ROOT").map(|root| PathBuf::from(root).join("versions"));
    let versions = pyenv.and_then(|it| std::fs::read_dir(it).ok()).into_iter().flatten().flatten();
    let of_pyenv = versions.map(|version| version.path().join("bin/python3"));
    let mut found = BTreeMap::new();
    for candidate in on_path.chain(of_pyenv).filter(|it| it.is_file()) {
        if let Some(version) = version(&candidate).filter(|version| *version >= (3, 9)) {
            found.entry(version).or_insert(candidate);
        }
    }
    found
}

fn version(python: &Path) -> Option<(u32, u32)> {
    let asked = std::process::Command::new(python).args(["-c", "import sys; print(*sys.version_info[:2])"]).output();
    let said = String::from_utf8(asked.ok()?.stdout).ok()?;
    let (major, minor) = said.trim().split_once(' ')?;
    Some((major.parse().ok()?, minor.parse().ok()?))
}

/// Does to what was loaded before it whatever a count of references, or its absence, could be noticed by.
const SCRIPT: &str = r#"
import gc
import json
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
print(json.dumps({"seen": seen, "gone": sorted(gone), "thing": thing.name(), "text": len(text), "echoed": call["input"]}))
"#;

const MODULE: &str = "state = 'new'\n\n\ndef greet(name):\n    return 'hello ' + name\n\n\nclass Thing:\n    made = []\n\n    \
                      def name(self):\n        return type(self).__name__\n";

#[tokio::test]
async fn on_each_python_that_is_here_no_state_crosses_from_fork_to_fork() {
    let interpreters = interpreters();
    let with_lasting_objects = interpreters.keys().any(|version| *version >= (3, 12));
    eprintln!("found: {:?}", interpreters.values().collect::<Vec<_>>());
    if !with_lasting_objects {
        eprintln!("no Python of 3.12 or later was found: objects that are never counted were not seen");
    }
    let folder = Folder::new();
    folder.write("collects.py", SCRIPT);
    folder.write("ours.py", MODULE);
    folder.write("meddles.py", std::fs::read_to_string(fixtures().join("meddles.py")).unwrap());
    for python in interpreters.values() {
        let system = with_skills(&folder, Some(python)).await;
        let first = value(&system, "meddles", json!({})).await;
        for number in 0..20 {
            assert_eq!(value(&system, "meddles", json!({})).await["found"], first["found"], "{}", python.display());
            let wanted = json!({"seen": ["new", "hello x", "loads", 0], "gone": ["own", "weak"], "thing": "Thing",
                                "text": 1003, "echoed": {"number": number}});
            let found = value(&system, "collects", json!({"number": number})).await;
            assert_eq!(found, wanted, "{}", python.display());
        }
    }
}

/// Says where its temporary files go, and then does what it is told to that folder.
const FOLDER_SCRIPT: &str = r#"
import json
import os
import sys

folder = os.environ["TMPDIR"]
call = json.load(sys.stdin)
status = os.stat(folder)
listed = os.listdir(folder) if call["input"].get("look") else []
deed = call["input"].get("deed")
if deed == "file":
    open(os.path.join(folder, "file"), "w").close()
elif deed == "file that is gone":
    # The clock for files may stand still for some milliseconds.
    while os.stat(folder).st_mtime_ns == status.st_mtime_ns:
        open(os.path.join(folder, "file"), "w").close()
        os.remove(os.path.join(folder, "file"))
elif deed == "mode":
    os.chmod(folder, 0o755)
elif deed == "times":
    os.utime(folder, (1, 1))
changed = os.stat(folder).st_ctime_ns != status.st_ctime_ns
print(json.dumps({"folder": folder, "mode": oct(status.st_mode), "listed": listed, "changed": changed}))
"#;

#[tokio::test]
async fn a_folder_that_a_call_did_not_touch_serves_again_and_one_that_it_touched_does_not() {
    let folder = Folder::new();
    if folder.path().metadata().unwrap().created().is_err() {
        eprintln!("skipped: this file system does not say when a folder was made, so none serves twice");
        return;
    }
    folder.write("folders.py", FOLDER_SCRIPT);
    let system = with_skills(&folder, None).await;
    const CALLS: usize = 30;
    let mut touched = BTreeSet::new();
    for deed in ["file", "file that is gone", "mode", "times"] {
        for _ in 0..5 {
            let found = value(&system, "folders", json!({"deed": deed})).await;
            assert_eq!(found["mode"], "0o40700");
            assert!(!touched.contains(&found["folder"].to_string()), "{deed}: {found} was touched");
            // In some jails a change of modes or times is said to be done, and is not.
            if found["changed"] == true {
                touched.insert(found["folder"].to_string());
            } else {
                assert!(["mode", "times"].contains(&deed), "{deed}: {found}");
            }
        }
    }
    let mut untouched = BTreeSet::new();
    for _ in 0..CALLS {
        let found = value(&system, "folders", json!({})).await;
        assert!(!touched.contains(&found["folder"].to_string()), "{found} was touched");
        untouched.insert(found["folder"].to_string());
    }
    assert!(untouched.len() < CALLS, "none of {CALLS} served twice");
    let found = value(&system, "folders", json!({"look": true})).await;
    assert_eq!(found["listed"], json!([]));
}

async fn with_skills(folder: &Folder, python: Option<&Path>) -> System {
    let skills = folder.path().display().to_string();
    let setup = Setup::command(&["up", "--listen", "127.0.0.1:0", "--workers", "1", "--skills-dir", &skills]);
    match python {
        Some(python) => setup.with("OPENSKILL_PYTHON", python.display()).start().await,
        None => setup.start().await,
    }
}

async fn value(system: &System, skill: &str, input: Value) -> Value {
    let result = system.invoke(request(skill, input)).await;
    assert_eq!(code(&result), "", "{result:?}");
    data(&result)
}
