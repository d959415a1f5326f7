//! The paths that a process is to read, as the plan has them: without links.
//!
//! Above the worker's allowed root, links are followed once, when the plan is made. Below it skills put links, at any moment:
//! what is checked and then resolved could lead elsewhere by then. So nothing is resolved there. Whoever opens such a path
//! later (`open_place`) follows no link either, and refuses one that has come since.

use std::path::PathBuf;

use crate::environment::Surroundings;

/// Paths to read, and the names that lead to them.
#[derive(Debug, Default)]
pub(super) struct Named {
    /// Each once, without links.
    pub(super) readable: Vec<PathBuf>,
    /// Further names by which the process knows some of them, which may lead through links.
    pub(super) names: Vec<PathBuf>,
}

/// Of these paths, those that exist. One with a link below the worker's allowed root is left out.
pub(super) fn named(surroundings: &Surroundings, paths: impl Iterator<Item = PathBuf>) -> Named {
    let mut found = Named::default();
    for path in paths {
        let place = match surroundings.below_root(&path) {
            Some(Ok(place)) => place,
            Some(Err(_)) => continue,
            // What a link leads to is another path to Landlock.
            None => match path.canonicalize() {
                Ok(place) => place,
                Err(_) => continue,
            },
        };
        // "/" would be everything; an interpreter beneath it is among the system's programs.
        if place.parent().is_some() && !found.readable.contains(&place) {
            found.readable.push(place);
        }
        found.names.push(path);
    }
    let Named { readable, names } = &mut found;
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

    /// A folder with the allowed root `data` in it, which goes with the test.
    struct Top(PathBuf);

    impl Top {
        fn new(name: &str) -> Self {
            let top = std::env::temp_dir().join(format!("openskill-named-{}-{name}", std::process::id()));
            std::fs::create_dir_all(top.join("data/models")).unwrap();
            std::fs::create_dir_all(top.join("secret")).unwrap();
            Self(top.canonicalize().unwrap())
        }

        fn named(&self, surroundings: &Surroundings, path: &Path) -> Named {
            named(surroundings, [path.to_owned()].into_iter())
        }

        fn surroundings(&self) -> Surroundings {
            Surroundings::with_root(&self.0.join("data")).unwrap()
        }
    }

    impl Drop for Top {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn links_are_followed_above_the_root_and_not_below_it() {
        let top = Top::new("links");
        let (data, surroundings) = (top.0.join("data"), top.surroundings());
        symlink("data", top.0.join("alias")).unwrap();
        symlink("secret", top.0.join("shown")).unwrap();
        symlink("../secret", data.join("link")).unwrap();
        let of = |name: &str| {
            let Named { readable, names } = top.named(&surroundings, &top.0.join(name));
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
        let top = Top::new("exchanged");
        let (models, link) = (top.0.join("data/models"), top.0.join("data/link"));
        symlink("../secret", &link).unwrap();
        let surroundings = top.surroundings();
        let stop = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    renameat_with(CWD, &models, CWD, &link, RenameFlags::EXCHANGE).unwrap();
                }
            });
            let led = (0..20_000).flat_map(|_| top.named(&surroundings, &models).readable).find(|it| *it != models);
            stop.store(true, Ordering::Relaxed);
            assert_eq!(led, None);
        });
    }
}
