use std::os::unix::fs::symlink;

use super::*;

/// A temporary folder, removed on drop.
struct TempFolder(PathBuf);

impl TempFolder {
    fn new(name: &str) -> Self {
        let top = std::env::temp_dir().join(format!("openskill-walk-{}-{name}", std::process::id()));
        let _ = std::fs::remove_dir_all(&top);
        std::fs::create_dir_all(&top).unwrap();
        Self(top)
    }

    fn write(&self, path: &str, text: &str) {
        let path = self.0.join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    fn walk(&self, folder: &str, patterns: &[&str]) -> Walk {
        let root = rustix::fs::open(&self.0, OFlags::PATH | OFlags::DIRECTORY, rustix::fs::Mode::empty()).unwrap();
        Walk::new(Arc::new(root), Path::new(folder), globs(Path::new(folder), &patterns.join(",")).unwrap()).unwrap()
    }

    fn files(&self, folder: &str, patterns: &[&str]) -> Vec<String> {
        let mut walk = self.walk(folder, patterns);
        let steps = std::iter::from_fn(|| walk.next());
        steps
            .map(|step| match step {
                WalkItem::File(path) => path.display().to_string(),
                WalkItem::Skipped(path, refused) => format!("{}: {}", path.display(), refused.word()),
            })
            .collect()
    }
}

impl Drop for TempFolder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[test]
fn ignore_files_and_dots_are_obeyed_as_rg_does() {
    let top = TempFolder::new("rules");
    for path in
        ["a.rs", "b.log", "keep.log", ".hidden", ".seen", "build/x.rs", "sub/c.rs", "sub/d.tmp", "sub/deep/e.tmp"]
    {
        top.write(path, "");
    }
    top.write(".gitignore", "*.log\n/build/\n!.seen\n");
    top.write(".ignore", "!keep.log\n");
    top.write("sub/.gitignore", "*.tmp\n!e.tmp\n");
    assert_eq!(top.files("", &[]), [".seen", "a.rs", "keep.log", "sub/c.rs", "sub/deep/e.tmp"]);
    assert_eq!(top.files("sub", &[]), ["sub/c.rs", "sub/deep/e.tmp"], "the rules of the folders above count");
    assert_eq!(top.files("build", &[]), ["build/x.rs"], "a folder that is named is walked");
}

#[test]
fn globs_come_before_all_rules() {
    let top = TempFolder::new("globs");
    for path in ["a.rs", "b.py", ".c.py", "d.log", "sub/e.py", "sub/f.min.py"] {
        top.write(path, "");
    }
    top.write(".gitignore", "*.log\n");
    assert_eq!(top.files("", &["*.py", "!*.min.py"]), [".c.py", "b.py", "sub/e.py"]);
    assert_eq!(top.files("sub", &["*.py"]), ["sub/e.py", "sub/f.min.py"]);
    assert_eq!(top.files("", &["*.log"]), ["d.log"]);
    assert_eq!(globs(Path::new(""), "[").unwrap_err().code(), ErrorCode::InvalidArgument);
}

#[test]
fn links_and_pipes_are_no_files_and_another_repository_has_its_own_rules() {
    let top = TempFolder::new("kinds");
    top.write("one/a", "");
    top.write(".gitignore", "skipped\n");
    top.write("other/.git/config", "");
    top.write("other/skipped", "");
    top.write("skipped", "");
    symlink("one", top.0.join("link")).unwrap();
    symlink("one/a", top.0.join("file")).unwrap();
    rustix::fs::mknodat(rustix::fs::CWD, top.0.join("pipe"), FileType::Fifo, rustix::fs::Mode::from_raw_mode(0o644), 0)
        .unwrap();
    assert_eq!(top.files("", &[]), ["one/a", "other/skipped"]);
}

#[test]
fn a_folder_that_becomes_a_link_is_left_out_with_the_reason() {
    let top = TempFolder::new("swapped");
    top.write("a/1", "");
    top.write("b/2", "");
    let mut walk = top.walk("", &[]);
    assert!(matches!(walk.next(), Some(WalkItem::File(path)) if path == Path::new("a/1")));
    std::fs::rename(top.0.join("b"), top.0.join("c")).unwrap();
    symlink("/etc", top.0.join("b")).unwrap();
    assert!(matches!(walk.next(), Some(WalkItem::Skipped(path, PathRefusal::Link)) if path == Path::new("b")));
    assert!(walk.next().is_none() && walk.is_complete);
}

#[test]
fn a_walk_goes_no_deeper_than_its_bound() {
    let top = TempFolder::new("deep");
    let deep: PathBuf = std::iter::repeat_n("d", MAX_DEPTH + 5).collect();
    std::fs::create_dir_all(top.0.join(&deep)).unwrap();
    top.write("top", "");
    let mut walk = top.walk("", &[]);
    assert!(matches!(walk.next(), Some(WalkItem::File(path)) if path == Path::new("top")));
    assert!(walk.next().is_none() && !walk.is_complete);
}

#[test]
fn globs_are_split_at_commas_outside_of_braces() {
    assert_eq!(split("*.{c,h}, !vendor/**"), ["*.{c,h}", "!vendor/**"]);
    assert!(split("").is_empty());
    assert_eq!(split("}a{,b"), ["}a{,b"]);
}
