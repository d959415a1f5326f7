//! The files of a release: what is in them, that the tarball runs on a bare Debian, and the wheel in an environment.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use openskill_tests::alone::beside_others;
use openskill_tests::containers::{DEBIAN, debian_or_skip, docker};
use openskill_tests::folder::Folder;
use openskill_tests::require::{Need, skip};
use openskill_tests::system::{Setup, data, request};
use openskill_tests::{binary, repository};
use serde_json::{Value, json};

use crate::compose::images::{Images, lock_builds};

const VERSION: &str = env!("CARGO_PKG_VERSION");

/// The interpreter that builds wheels. None after the test was skipped.
fn python() -> Option<PathBuf> {
    let python = repository().join("target/test-venv/bin/python");
    if python.exists() {
        return Some(python);
    }
    skip(Need::Venv, "target/test-venv is not there; run `make test-venv`");
    None
}

/// Makes the files of a release without a network, and returns the tarball. With images: those that other tests use.
fn dist(folder: &Path, python: &Path, images: Option<&Images>) -> PathBuf {
    let mut script = Command::new(repository().join("deploy/dist.sh"));
    script.arg(binary()).env("DIST_DIR", folder).env("PYTHON", python).env("OFFLINE", "1").env("IMAGES", "0");
    let _building = images.map(|it| {
        it.configure(script.env("IMAGES", "1"));
        lock_builds()
    });
    output(script.env("CARGO_NET_OFFLINE", "true"));
    folder.join(format!("openskill-{VERSION}-linux-{}.tar.gz", std::env::consts::ARCH))
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

/// One test for all of it: with the large binary of a debug build, each release takes some twenty seconds.
#[tokio::test]
async fn a_release_is_reproducible_and_whole_and_runs_on_a_bare_debian_and_from_its_wheel() {
    let _turn = beside_others();
    let Some(python) = python() else { return };
    let (one, other) = (Folder::new(), Folder::new());
    let images = Images::built();
    let tarball = dist(one.path(), &python, None);
    dist(other.path(), &python, images.as_ref());
    is_reproducible_and_listed(&one, &other, images.as_ref());
    is_whole(&one, &tarball);
    runs_from_its_wheel(&one, &python).await;
    if debian_or_skip() {
        runs_on_a_bare_debian(&one);
    }
}

/// The lines of `SHA256SUMS`, after they were checked. They and the notes name every file.
fn sums(folder: &Folder) -> BTreeSet<String> {
    output(Command::new("sha256sum").args(["--check", "--strict", "SHA256SUMS"]).current_dir(folder.path()));
    let read = |name: &str| std::fs::read_to_string(folder.path().join(name)).unwrap();
    let (sums, notes) = (read("SHA256SUMS"), read("RELEASE.md"));
    for file in std::fs::read_dir(folder.path()).unwrap() {
        let name = file.unwrap().file_name().into_string().unwrap();
        assert!(name == "SHA256SUMS" || sums.contains(&format!("  {name}\n")), "{name}: {sums}");
        assert!(name == "RELEASE.md" || notes.contains(&format!("`{name}`")), "{name}: {notes}");
    }
    assert!(notes.contains("## Files") && !notes.contains("](docs/"), "{notes}");
    sums.lines().map(str::to_owned).collect()
}

fn is_reproducible_and_listed(one: &Folder, other: &Folder, images: Option<&Images>) {
    let differing: Vec<_> = sums(one).symmetric_difference(&sums(other)).cloned().collect();
    let Some(images) = images else { return assert!(differing.is_empty(), "{differing:?}") };
    // Notes that name two archives more.
    assert_eq!(differing.len(), 2 + 2, "{differing:?}");
    for name in ["gateway", "worker"] {
        let archive =
            file(other.path(), &format!("openskill-{name}-{VERSION}-linux-{}.tar.gz", std::env::consts::ARCH));
        let manifest = output(Command::new("tar").arg("xzOf").arg(archive).arg("manifest.json"));
        assert!(manifest.contains(&format!("openskill-{name}:{}", images.tag())), "{manifest}");
    }
}

/// In an environment that has nothing else, and from a directory instead of an index.
async fn runs_from_its_wheel(release: &Folder, python: &Path) {
    let folder = Folder::new();
    output(Command::new(python).args(["-m", "venv", "--without-pip", "venv"]).current_dir(folder.path()));
    let environment = folder.path().join("venv");
    let pip = ["-m", "pip", "--quiet", "--disable-pip-version-check", "--python", "venv/bin/python", "install"];
    let mut install = Command::new(python);
    install.args(pip).args(["--no-index", "openskill-cli", "--find-links"]).arg(release.path());
    output(install.current_dir(folder.path()));
    let program = environment.join("bin/openskill");
    let version = output(Command::new(&program).arg("--version"));
    assert_eq!(version, output(Command::new(binary()).arg("--version")));

    let root = folder.path().join("data");
    std::fs::create_dir(&root).unwrap();
    std::fs::copy(repository().join("data/logs/app.log"), root.join("app.log")).unwrap();
    std::fs::write(root.join("found.py"), "def found(): pass").unwrap();
    let setup = Setup::command(&["up", "--listen", "127.0.0.1:0", "--with", "core,files"]);
    // Where the program unpacks its skills.
    let setup = setup.with("XDG_CACHE_HOME", folder.path().display()).binary(&program).data(&root);
    let system = setup.start().await;
    let log = system.invoke(request("log_transform", json!({"input_path": "data/app.log", "limit": 1}))).await;
    assert_eq!(data(&log)["records"][0]["line_no"], 1);
    // The second program of the wheel reads it.
    let definitions = system.invoke(request("list_code_definitions", json!({"file_path": "data/found.py"}))).await;
    assert_eq!(data(&definitions)["definitions"][0]["name"], "found");
}

fn is_whole(one: &Folder, tarball: &Path) {
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
        "share/openskill/compose/docker-compose.yml",
        "share/openskill/compose/seccomp.json",
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
fn packages_images_and_pages_have_the_version_of_the_workspace() {
    let is_version = |it: &&str| it.matches('.').count() == 2 && it.split('.').all(|part| part.parse::<u32>().is_ok());
    for (file, start) in [
        ("crates/readers/Cargo.toml", "version = "),
        ("deploy/Dockerfile", "ARG OPENSKILL_VERSION="),
        ("docs/releases.md", ""),
        ("proto/python/pyproject.toml", "version = "),
        ("worker/skills/pyproject.toml", "version = "),
    ] {
        let text = std::fs::read_to_string(repository().join(file)).unwrap();
        let lines = text.lines().filter_map(|line| line.strip_prefix(start));
        let words = lines.flat_map(|line| line.split(|it: char| !it.is_ascii_digit() && it != '.'));
        let versions: BTreeSet<_> = words.filter(is_version).collect();
        assert_eq!(versions, BTreeSet::from([VERSION]), "{file}");
    }
    let changelog = std::fs::read_to_string(repository().join("CHANGELOG.md")).unwrap();
    let mut releases = changelog.lines().filter(|it| it.starts_with("## ["));
    assert_eq!(releases.next(), Some("## [Unreleased]"));
    assert!(releases.next().unwrap().starts_with(&format!("## [{VERSION}] - 20")));
}

#[test]
fn the_version_names_the_commit_of_the_checkout() {
    let commit =
        Command::new("git").args(["log", "-1", "--format=%h", "--abbrev=12"]).current_dir(repository()).output();
    let commit = commit.ok().filter(|it| it.status.success()).map(|it| String::from_utf8(it.stdout).unwrap());
    let version = output(Command::new(binary()).arg("--version"));
    let mut words = version.split_whitespace();
    assert_eq!((words.next(), words.next()), (Some("openskill"), Some(VERSION)));
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
