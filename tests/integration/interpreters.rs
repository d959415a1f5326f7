//! Forks on each Python that is here: how an interpreter keeps its memory is its own affair, and differs between versions.

use std::collections::BTreeMap;
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
        let system = with_skills(&folder, python).await;
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
