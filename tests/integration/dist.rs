//! The tarball of a release: what is in it, and that it runs on a bare Debian.

use std::path::{Path, PathBuf};
use std::process::Command;

use openskill_tests::alone::beside_others;
use openskill_tests::containers::{DEBIAN, debian_or_skip, docker};
use openskill_tests::folder::Folder;
use openskill_tests::require::{Need, skip};
use openskill_tests::{binary, repository};
use serde_json::Value;

/// Makes the tarball without a network. None after the test was skipped.
fn dist(folder: &Path) -> Option<PathBuf> {
    let python = repository().join("target/test-venv/bin/python");
    if !python.exists() {
        skip(Need::Venv, "target/test-venv is not there; run `make test-venv`");
        return None;
    }
    let mut script = Command::new(repository().join("deploy/dist.sh"));
    script.arg(binary()).env("DIST_DIR", folder).env("PYTHON", python).env("OFFLINE", "1");
    let made = script.env("CARGO_NET_OFFLINE", "true").output().unwrap();
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    Some(file(folder, ".tar.gz"))
}

fn file(folder: &Path, end: &str) -> PathBuf {
    let mut files = std::fs::read_dir(folder).unwrap().map(|it| it.unwrap().path());
    files.find(|it| it.to_string_lossy().ends_with(end)).unwrap_or_else(|| panic!("no {end}"))
}

fn output(command: &mut Command) -> String {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// What somebody does who has the tarball and nothing else.
const USE: &str = r#"
set -e
cd /tmp
tar xzf /dist/openskill-*.tar.gz
cd openskill-*
./install.sh
# Again, as an update does: settings stay.
echo OPENSKILL_LOG=warn > /etc/openskill/gateway.env
./install.sh > /dev/null
grep -q warn /etc/openskill/gateway.env
export PYTHONPATH="$(echo wheels/openskill_sdk-*.whl)"
python3 -B -c 'import openskill_sdk'
unset PYTHONPATH
cd /var/lib/openskill
openskill --version
. /usr/local/share/bash-completion/completions/openskill
complete -p openskill > /dev/null
openskill up --listen 127.0.0.1:8000 --skills-dir /usr/local/share/openskill/skills > /tmp/log 2>&1 &
for _ in $(seq 300); do
    openskill health > /dev/null 2>&1 && break
    sleep 0.1
done
openskill invoke echo text=hello || { cat /tmp/log; exit 1; }
openskill invoke log_transform input_path=data/logs/app.log limit=1 > /dev/null
echo 'def found(): pass' > data/found.py
openskill invoke list_code_definitions file_path=data/found.py | grep -q found
kill $!
wait $!
"#;

/// One test for all of it: with the large binary of a debug build, each tarball takes some twenty seconds.
#[test]
fn the_tarball_of_a_release_is_reproducible_and_whole_and_runs_on_a_bare_debian() {
    let _turn = beside_others();
    let (one, other) = (Folder::new(), Folder::new());
    let Some(tarball) = dist(one.path()) else { return };
    dist(other.path());
    is_reproducible_and_whole(&one, &other, &tarball);
    if debian_or_skip() {
        runs_on_a_bare_debian(&one);
    }
}

fn is_reproducible_and_whole(one: &Folder, other: &Folder, tarball: &Path) {
    let sums = |folder: &Folder| std::fs::read_to_string(folder.path().join("SHA256SUMS")).unwrap();
    assert_eq!(sums(one), sums(other));
    assert_eq!(sums(one).lines().count(), 3);
    output(Command::new("sha256sum").args(["--check", "SHA256SUMS"]).current_dir(one.path()));
    output(Command::new("tar").arg("xzf").arg(tarball).current_dir(one.path()));
    let name = tarball.file_name().unwrap().to_str().unwrap().strip_suffix(".tar.gz").unwrap().to_owned();
    let tree = one.path().join(&name);
    output(Command::new("sha256sum").args(["--check", "SHA256SUMS"]).current_dir(&tree));
    for path in [
        "LICENSE",
        "README.md",
        "completions/openskill.bash",
        "completions/openskill.fish",
        "completions/openskill.zsh",
        "share/openskill/skills/echo.yaml",
        "share/openskill/data/logs/app.log",
        "systemd/openskill-gateway.service",
        "systemd/openskill-worker@.service",
    ] {
        assert!(tree.join(path).metadata().unwrap().len() > 100, "{path}");
    }
    assert!(!tree.join("share/openskill/skills/tests").exists());
    let readme = std::fs::read_to_string(tree.join("README.md")).unwrap();
    let links = readme.split("](").skip(1).map(|it| it.split([')', '#']).next().unwrap());
    let dead: Vec<_> = links.filter(|it| !it.contains("://") && !tree.join(it).exists()).collect();
    assert!(dead.is_empty(), "{dead:?} {readme}");
    // The program finds the skills and their data as the page says.
    let command = readme.lines().find_map(|line| line.strip_prefix("bin/openskill up ")).unwrap();
    let check = format!("bin/openskill check log_transform {command}");
    output(Command::new("sh").args(["-c", &check]).current_dir(&tree));
    for wheel in ["openskill_sdk", "openskill_client"] {
        assert!(output(Command::new("ls").arg(tree.join("wheels"))).contains(wheel), "{wheel}");
    }
    let sections = |path: &Path| output(Command::new("readelf").args(["--sections", "--wide"]).arg(path));
    let stripped = sections(&tree.join("bin/openskill"));
    assert!(!stripped.contains(".debug_line") && !stripped.contains(".symtab"), "{stripped}");
    assert!(stripped.contains(".gnu_debuglink"), "{stripped}");
    let symbols = sections(&one.path().join(format!("{name}.debug")));
    assert!(symbols.contains(".debug_line") && symbols.contains(".symtab"), "{symbols}");

    let bill: Value = serde_json::from_slice(&std::fs::read(file(one.path(), ".cdx.json")).unwrap()).unwrap();
    let components = bill["components"].as_array().unwrap();
    let find = |name: &str| components.iter().find(|it| it["name"] == name).unwrap_or_else(|| panic!("{name}"));
    assert_eq!(bill["specVersion"], "1.6");
    assert_eq!(find("tokio")["scope"], "required");
    assert_eq!(find("tokio")["hashes"][0]["content"].as_str().unwrap().len(), 64);
    assert_eq!(find("cc")["scope"], "excluded", "only a build script uses it");
    assert_eq!(find("openskill-readers")["type"], "application");
    assert_eq!(find("tree-sitter-python")["scope"], "required");
    assert!(!components.iter().any(|it| it["name"] == "proptest"), "only tests use it");
    let unlicensed: Vec<_> = components.iter().filter(|it| it["licenses"].is_null()).collect();
    assert!(unlicensed.is_empty(), "{unlicensed:?}");
}

fn runs_on_a_bare_debian(folder: &Folder) {
    let volume = format!("{}:/dist:ro", folder.path().display());
    let run = ["run", "--rm", "--network", "none", "--volume", &volume, DEBIAN, "bash", "-c", USE];
    let said = docker(&run).unwrap_or_else(|error| panic!("{error}"));
    assert!(said.contains("installed.") && said.contains("\"echoed\": \"hello\""), "{said}");
    let version = output(Command::new(binary()).arg("--version"));
    assert!(said.contains(version.trim()), "{said} is another program than {version}");
}

#[test]
fn the_version_names_the_commit_of_the_checkout() {
    let commit =
        Command::new("git").args(["log", "-1", "--format=%h", "--abbrev=12"]).current_dir(repository()).output();
    let commit = commit.ok().filter(|it| it.status.success()).map(|it| String::from_utf8(it.stdout).unwrap());
    let version = output(Command::new(binary()).arg("--version"));
    let mut words = version.split_whitespace();
    assert_eq!((words.next(), words.next()), (Some("openskill"), Some(env!("CARGO_PKG_VERSION"))));
    // A tree without git, or a binary of another commit than this, has another one, or none.
    let named = words.next().map(|it| it.trim_matches(|it| it == '(' || it == ')'));
    assert!(commit.is_none() || named.is_some_and(|it| it.len() == 12), "{version} at {commit:?}");
}

#[test]
fn a_tarball_of_git_carries_its_commit() {
    let archived = Command::new("git").args(["archive", "HEAD", "cli/commit.txt"]).current_dir(repository()).output();
    // A source tree without git has nothing to archive.
    let Some(archived) = archived.ok().filter(|it| it.status.success()) else { return };
    let text = String::from_utf8_lossy(&archived.stdout).into_owned();
    let commit = output(Command::new("git").args(["log", "-1", "--format=%H %cs"]).current_dir(repository()));
    assert!(text.contains(commit.trim()), "{text}");
}
