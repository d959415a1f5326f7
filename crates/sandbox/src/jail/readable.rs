//! Resolves the paths that a process may read to paths without links, which a plan requires.
//!
//! Above the worker's allowed root, links are followed once, when the plan is made. Below the root, skills can
//! create links at any time, so a checked path could lead elsewhere when it is resolved. Therefore nothing is
//! resolved there. The code that later opens such a path (`open_place`) refuses links.

use std::path::PathBuf;

use crate::allowed_root::AllowedRoot;

/// The resolved paths, and other names that lead to them.
#[derive(Debug, Default)]
pub(super) struct ReadablePaths {
    /// The paths, without duplicates and links.
    pub(super) readable: Vec<PathBuf>,
    /// Additional names that the process may use for these paths. They may lead through links.
    pub(super) names: Vec<PathBuf>,
}

/// Returns the paths that exist. Omits a path with a link below the worker's allowed root.
pub(super) fn resolve_readable(root: &AllowedRoot, paths: impl Iterator<Item = PathBuf>) -> ReadablePaths {
    let mut found = ReadablePaths::default();
    for path in paths {
        let place = match root.place_below(&path) {
            Some(Ok(place)) => place,
            Some(Err(_)) => continue,
            // Landlock treats the target of a link as another path.
            None => match path.canonicalize() {
                Ok(place) => place,
                Err(_) => continue,
            },
        };
        // "/" would allow everything. An interpreter directly below it is one of the system's programs anyway.
        if place.parent().is_some() && !found.readable.contains(&place) {
            found.readable.push(place);
        }
        found.names.push(path);
    }
    let ReadablePaths { readable, names } = &mut found;
    names.retain(|name| !readable.contains(name));
    found
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;
    use std::path::Path;
    use std::sync::atomic::{AtomicBool, Ordering};

    use rustix::fs::{CWD, RenameFlags, renameat_with};

    use super::*;

    /// A folder that contains the allowed root `data`. It is removed when the test ends.
    struct TempFolder(PathBuf);

    impl TempFolder {
        fn new(name: &str) -> Self {
            let top = std::env::temp_dir().join(format!("openskill-named-{}-{name}", std::process::id()));
            std::fs::create_dir_all(top.join("data/models")).unwrap();
            std::fs::create_dir_all(top.join("secret")).unwrap();
            Self(top.canonicalize().unwrap())
        }

        fn resolve(&self, root: &AllowedRoot, path: &Path) -> ReadablePaths {
            resolve_readable(root, [path.to_owned()].into_iter())
        }

        fn root(&self) -> AllowedRoot {
            AllowedRoot::open(&self.0.join("data")).unwrap()
        }
    }

    impl Drop for TempFolder {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn links_are_followed_above_the_root_and_not_below_it() {
        let top = TempFolder::new("links");
        let (data, root) = (top.0.join("data"), top.root());
        symlink("data", top.0.join("alias")).unwrap();
        symlink("secret", top.0.join("shown")).unwrap();
        symlink("../secret", data.join("link")).unwrap();
        let of = |name: &str| {
            let ReadablePaths { readable, names } = top.resolve(&root, &top.0.join(name));
            (readable, names.len())
        };
        assert_eq!(of("data/models"), (vec![data.join("models")], 0));
        assert_eq!(of("alias/models"), (vec![data.join("models")], 1));
        assert_eq!(of("shown"), (vec![top.0.join("secret")], 1));
        for left_out in ["data/link", "alias/link", "data/missing", "missing"] {
            assert_eq!(of(left_out), (vec![], 0), "{left_out}");
        }
    }

    #[test]
    fn a_link_that_takes_the_place_of_a_folder_meanwhile_leads_nowhere() {
        let top = TempFolder::new("exchanged");
        let (models, link) = (top.0.join("data/models"), top.0.join("data/link"));
        symlink("../secret", &link).unwrap();
        let root = top.root();
        let stop = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    renameat_with(CWD, &models, CWD, &link, RenameFlags::EXCHANGE).unwrap();
                }
            });
            let led = (0..20_000).flat_map(|_| top.resolve(&root, &models).readable).find(|it| *it != models);
            stop.store(true, Ordering::Relaxed);
            assert_eq!(led, None);
        });
    }
}
