//! Resolves a manifest's `allowed_root`, which is a folder below the worker's allowed root.
//!
//! Links above the worker's root are followed, as in a shell. Links below it are not, because skills can create
//! them there.

use std::path::{Path, PathBuf};

use openskill_sandbox::allowed_root::{below, open_folder, why};

use super::error::ManifestFault;

/// Resolves `written`, which is absolute or relative to the folder that contains the worker's root, as in
/// `./data/docs`. `worker`: the worker's root, absolute and without links.
pub(super) fn resolve(written: &str, worker: &Path) -> Result<PathBuf, ManifestFault> {
    let base = worker.parent().unwrap_or(worker);
    let Some(folder) = below(worker, &base.join(written)) else {
        return Err(("allowed_root", format!("'{written}' is outside the worker's allowed root")).into());
    };
    let fail = |errno| {
        let reason = why(errno);
        ("allowed_root", format!("'{written}' is not a plain folder below the worker's allowed root: {reason}")).into()
    };
    open_folder(&folder).map(|_| folder.clone()).map_err(fail)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn links_are_followed_down_to_the_root_and_no_further() {
        let top = std::env::temp_dir().join(format!("openskill-manifest-root-{}", std::process::id()));
        std::fs::create_dir_all(top.join("data/docs")).unwrap();
        std::fs::create_dir_all(top.join("elsewhere/docs")).unwrap();
        let top = top.canonicalize().unwrap();
        let data = top.join("data");
        for (target, link) in [("data", "alias"), ("alias/docs", "deep"), ("loop", "loop"), ("elsewhere", "other")] {
            symlink(target, top.join(link)).unwrap();
        }
        symlink("docs", data.join("current")).unwrap();
        symlink(top.join("elsewhere"), data.join("out")).unwrap();
        for (written, expected) in [
            ("./data", ""),
            ("data/docs", "docs"),
            ("./alias/docs", "docs"),
            ("deep", "docs"),
            ("data/../data/docs/", "docs"),
            (top.join("alias/docs").to_str().unwrap(), "docs"),
        ] {
            assert_eq!(resolve(written, &data).ok(), Some(data.join(expected).components().collect()), "{written}");
        }
        for (written, reason) in [
            ("other/docs", "outside"),
            ("loop", "outside"),
            ("/", "outside"),
            ("..", "outside"),
            ("data/..", "outside"),
            ("data/current", "symbolic link"),
            ("data/out/docs", "symbolic link"),
            ("data/missing", "does not exist"),
            ("data/docs/../../elsewhere", "leads out"),
        ] {
            let fault = resolve(written, &data).err().unwrap();
            assert!(fault.reason.contains(reason), "{written}: {}", fault.reason);
        }
        std::fs::remove_dir_all(top).unwrap();
    }
}
