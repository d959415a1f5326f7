//! `openskill new` writes skills that work.

use std::path::Path;
use std::process::Output;

use openskill_tests::binary;
use openskill_tests::folder::Folder;

fn openskill(folder: &Path, arguments: &[&str]) -> Output {
    std::fs::create_dir_all(folder.join("data")).unwrap();
    std::process::Command::new(binary())
        .args(arguments)
        .args(["--skills-dir", "skills"])
        .current_dir(folder)
        .output()
        .unwrap()
}

fn text(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

#[test]
fn a_new_skill_passes_its_check_and_its_test() {
    for (kind, id) in [("cli:python", "shout"), ("cli:exec", "count_words"), ("inproc", "same")] {
        let folder = Folder::new();
        let made = openskill(folder.path(), &["new", id, "--type", kind]);
        assert!(made.status.success(), "{}", text(&made));
        let checked = openskill(folder.path(), &["check", id]);
        assert!(checked.status.success(), "{kind}: {}", text(&checked));
        assert!(text(&checked).contains("ok    example"), "{}", text(&checked));
        let test = folder.path().join(format!("skills/tests/test_{id}.py"));
        if kind.starts_with("cli:") {
            let ran = std::process::Command::new("python3").arg(&test).output().unwrap();
            assert!(ran.status.success(), "{}", text(&ran));
        }
    }
}

#[test]
fn a_new_function_passes_its_check_and_its_test() {
    let (folder, library) = (Folder::new(), openskill_tests::repository().join("worker/skills"));
    std::fs::create_dir_all(folder.path().join("data")).unwrap();
    let skills = format!("skills:{}", library.display());
    let openskill = |arguments: &[&str]| {
        let mut command = std::process::Command::new(binary());
        command.args(arguments).args(["--skills-dir", &skills]).current_dir(folder.path()).output().unwrap()
    };
    let made = openskill(&["new", "shout", "--type", "python"]);
    assert!(made.status.success(), "{}", text(&made));
    let checked = openskill(&["check", "shout"]);
    assert!(checked.status.success() && text(&checked).contains("ok    example: an empty text"), "{}", text(&checked));
    let test = folder.path().join("skills/tests/test_shout.py");
    let ran = std::process::Command::new("python3").arg(&test).env("PYTHONPATH", &library).output().unwrap();
    assert!(ran.status.success(), "{}", text(&ran));
}

#[test]
fn every_type_writes_a_valid_manifest() {
    for kind in ["http", "docker", "mcp:stdio", "mcp:http", "session:python"] {
        let folder = Folder::new();
        assert!(openskill(folder.path(), &["new", "thing", "--type", kind]).status.success());
        let checked = text(&openskill(folder.path(), &["check", "thing"]));
        assert!(checked.contains("ok    manifest"), "{kind}: {checked}");
    }
}

#[test]
fn a_file_that_cannot_be_written_whole_is_not_left_behind() {
    let folder = Folder::new();
    // Files may have no content at all, and the signal that says so is ignored.
    let command = format!("trap '' 25; ulimit -f 0; exec {} new shout --skills-dir skills", binary().display());
    let made = std::process::Command::new("sh").args(["-c", &command]).current_dir(folder.path()).output().unwrap();
    assert!(made.status.code() == Some(5) && text(&made).contains("writing skills/shout.yaml"), "{}", text(&made));
    assert_eq!(std::fs::read_dir(folder.path().join("skills")).unwrap().count(), 0);
    assert!(openskill(folder.path(), &["new", "shout"]).status.success());
}

#[test]
fn existing_files_are_not_overwritten() {
    let folder = Folder::new();
    folder.write("skills/shout.py", "mine");
    let made = openskill(folder.path(), &["new", "shout"]);
    assert_eq!(made.status.code(), Some(2), "{}", text(&made));
    assert!(text(&made).contains("already exists"), "{}", text(&made));
    assert_eq!(std::fs::read_to_string(folder.path().join("skills/shout.py")).unwrap(), "mine");
    assert!(!folder.path().join("skills/shout.yaml").exists());
    let odd = openskill(folder.path(), &["new", "../up"]);
    assert!(text(&odd).contains("is not a valid skill id"), "{}", text(&odd));
}
