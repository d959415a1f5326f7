use std::os::unix::fs::symlink;

use super::*;

fn walk(from: BorrowedFd<'_>, relative: &Path, wanted: OFlags) -> Result<OwnedFd, Errno> {
    beneath::walk(from, relative, wanted, 0)
}

/// A root that contains the folder `docs`, and a folder outside it.
struct Stage(PathBuf);

impl Stage {
    fn new(name: &str) -> Self {
        let top = std::env::temp_dir().join(format!("openskill-root-{}-{name}", std::process::id()));
        std::fs::create_dir_all(top.join("data/docs/deep")).unwrap();
        let top = top.canonicalize().unwrap();
        std::fs::create_dir_all(top.join("outside/deep")).unwrap();
        Self(top)
    }

    fn root(&self) -> AllowedRoot {
        AllowedRoot::open(&self.0.join("data")).unwrap()
    }

    fn replace_docs(&self, target: &str) {
        std::fs::rename(self.0.join("data/docs"), self.0.join("data/before")).unwrap();
        symlink(target, self.0.join("data/docs")).unwrap();
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn reason(root: &RunRoot) -> String {
    root.open().unwrap_err().to_string()
}

#[test]
fn a_run_gets_the_folder_its_manifest_names() {
    let stage = Stage::new("plain");
    let (root, docs) = (stage.root(), stage.0.join("data/docs"));
    let opened = root.run_root("x", Some(&docs)).open().unwrap();
    assert!(is_same(&fstat(&opened).unwrap(), &stat(&docs).unwrap()));
    let whole = root.run_root("x", None).open().unwrap();
    assert!(is_same(&fstat(&whole).unwrap(), &stat(root.path()).unwrap()));
}

#[test]
fn a_link_in_place_of_the_folder_or_above_it_is_refused() {
    for target in ["../outside", "before", "."] {
        let stage = Stage::new("link");
        let root = stage.root();
        let narrowed = ["docs", "docs/deep"].map(|it| root.run_root("x", Some(&stage.0.join("data").join(it))));
        stage.replace_docs(target);
        let reasons = narrowed.map(|it| reason(&it));
        assert!(reasons[0].starts_with("allowed_root data/docs of skill x is not a plain folder"), "{reasons:?}");
        assert!(reasons.iter().all(|it| it.contains("a component is a symbolic link")), "{reasons:?}");
    }
}

#[test]
fn what_is_gone_or_no_folder_is_named() {
    let stage = Stage::new("gone");
    let root = stage.root();
    let docs = root.run_root("x", Some(&stage.0.join("data/docs")));
    std::fs::remove_dir_all(stage.0.join("data/docs")).unwrap();
    assert!(reason(&docs).contains("it does not exist"));
    std::fs::write(stage.0.join("data/docs"), "x").unwrap();
    assert!(reason(&docs).contains("not a folder"));
    assert!(reason(&root.run_root("x", Some(&stage.0.join("outside")))).contains("it leads outside the allowed root"));
    assert!(
        reason(&root.run_root("x", Some(&stage.0.join("data/../outside"))))
            .contains("it leads outside the allowed root")
    );
}

#[test]
fn the_worker_keeps_its_own_root_and_notices_another_in_its_place() {
    let stage = Stage::new("moved");
    let root = stage.root();
    std::fs::rename(stage.0.join("data"), stage.0.join("moved")).unwrap();
    symlink("outside", stage.0.join("data")).unwrap();
    assert_eq!(root.run_root("x", None).open().unwrap_err(), RootError::Replaced);
    assert!(AllowedRoot::open(&stage.0.join("data")).unwrap_err().to_string().contains("symbolic link"));
    std::fs::remove_file(stage.0.join("data")).unwrap();
    std::fs::rename(stage.0.join("moved"), stage.0.join("data")).unwrap();
    assert!(root.run_root("x", None).open().is_ok());
}

#[test]
fn without_openat2_the_same_is_opened_and_refused() {
    let stage = Stage::new("walk");
    let root = stage.root();
    let opened = walk(root.folder.as_fd(), Path::new("docs/deep"), FOLDER).unwrap();
    assert!(is_same(&fstat(&opened).unwrap(), &stat(stage.0.join("data/docs/deep")).unwrap()));
    assert!(walk(root.folder.as_fd(), Path::new("."), FOLDER).is_ok());
    std::fs::write(stage.0.join("data/file"), "x").unwrap();
    stage.replace_docs("../outside");
    for (path, errno) in
        [("docs", Errno::LOOP), ("docs/deep", Errno::LOOP), ("file", Errno::NOTDIR), ("missing", Errno::NOENT)]
    {
        assert_eq!(walk(root.folder.as_fd(), Path::new(path), FOLDER).unwrap_err(), errno, "{path}");
        assert_eq!(beneath(root.folder.as_fd(), Path::new(path), FOLDER).unwrap_err(), errno, "{path}");
    }
    for open in [walk, beneath] {
        assert!(open(root.folder.as_fd(), Path::new("file"), PLACE).is_ok());
        assert_eq!(open(root.folder.as_fd(), Path::new("docs"), PLACE).unwrap_err(), Errno::LOOP);
    }
}
