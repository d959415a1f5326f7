//! An interpreter behind a symbolic link, which can be removed while a worker uses it.

use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use openskill_tests::folder::Folder;

#[derive(Debug)]
pub(super) struct Python {
    folder: Folder,
    real: PathBuf,
}

impl Python {
    /// The real interpreter of this machine, even if `python3` is a wrapper.
    pub(super) fn find() -> Self {
        let asked = Command::new("python3").args(["-I", "-c", "import sys; print(sys.executable)"]).output();
        let output = asked.expect("`make chaos` checks that python3 exists");
        let real = PathBuf::from(String::from_utf8_lossy(&output.stdout).trim());
        let python = Self { folder: Folder::new(), real };
        python.put_back();
        python
    }

    pub(super) fn link(&self) -> PathBuf {
        self.folder.path().join("python3")
    }

    pub(super) fn take_away(&self) {
        self.point_to(Path::new("/nonexistent/python3"));
    }

    pub(super) fn put_back(&self) {
        self.point_to(&self.real);
    }

    /// Atomically: the link always exists.
    fn point_to(&self, target: &Path) {
        let new = self.folder.path().join("new");
        symlink(target, &new).expect("a temporary folder can be written to");
        std::fs::rename(new, self.link()).expect("a link can be replaced");
    }
}
