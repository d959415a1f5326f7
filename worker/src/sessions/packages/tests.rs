use std::os::unix::fs::MetadataExt as _;

use super::*;

/// A store with packages and a place, which is removed when the test ends.
struct TempFolder(PathBuf);

impl TempFolder {
    fn new(name: &str) -> Self {
        let top = std::env::temp_dir().join(format!("openskill-shelf-{}-{name}", std::process::id()));
        let _ = fs::remove_dir_all(&top);
        fs::create_dir_all(&top).unwrap();
        Self(top)
    }

    fn package(&self, name: &str, version: &str, files: &[&str]) -> Package {
        let folder = self.0.join(format!("{name}-{version}"));
        for file in files {
            let file = folder.join(file);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(file, name).unwrap();
        }
        let sha256 = format!("{name}{version}");
        Package { name: name.to_owned(), version: version.to_owned(), sha256, bytes: 1, files: folder }
    }

    fn place(&self) -> Arc<PackageRoot> {
        let lock = File::create(self.0.join("lock")).unwrap();
        PackageRoot::make(&self.0, Arc::new(lock)).unwrap()
    }
}

impl Drop for TempFolder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[test]
fn packages_are_links_that_stay_when_the_store_lets_go() {
    let top = TempFolder::new("links");
    let place = top.place();
    let (mut one, mut two) = (place.make_dir().unwrap(), place.make_dir().unwrap());
    let package = top.package("a", "1", &["a/__init__.py", "a/b/c.py"]);
    assert_eq!(one.add(std::slice::from_ref(&package)).unwrap(), 1);
    assert_eq!(one.add(std::slice::from_ref(&package)).unwrap(), 0, "it is there");
    assert!(!two.path().join("a").exists());
    two.add(std::slice::from_ref(&package)).unwrap();
    let number = |path: PathBuf| fs::metadata(path).unwrap().ino();
    assert_eq!(number(one.path().join("a/b/c.py")), number(two.path().join("a/b/c.py")));
    fs::remove_dir_all(&package.files).unwrap();
    assert_eq!(fs::read_to_string(one.path().join("a/b/c.py")).unwrap(), "a");
    let folder = one.path().to_owned();
    drop(one);
    assert!(!folder.exists() && two.path().join("a/b/c.py").exists());
}

#[test]
fn packages_share_folders_and_the_first_file_stays() {
    let top = TempFolder::new("shared");
    let mut dir = top.place().make_dir().unwrap();
    let all = [top.package("a", "1", &["space/a.py", "LICENSE"]), top.package("b", "1", &["space/b.py", "LICENSE"])];
    assert_eq!(dir.add(&all).unwrap(), 2);
    assert!(dir.path().join("space/a.py").exists() && dir.path().join("space/b.py").exists());
    assert_eq!(fs::read_to_string(dir.path().join("LICENSE")).unwrap(), "a");
}

#[test]
fn what_is_refused_leaves_the_session_as_it_was() {
    let top = TempFolder::new("refused");
    let mut dir = top.place().make_dir().unwrap();
    dir.add(&[top.package("a", "1", &["a.py"])]).unwrap();
    let refused = dir.add(&[top.package("b", "1", &["b.py"]), top.package("a", "2", &["a.py"])]);
    assert!(matches!(refused, Err(PackageRefusal::OtherVersion { version, .. }) if version == "1"));
    let vast = Package { bytes: MOST_BYTES, ..top.package("c", "1", &["c.py"]) };
    assert!(matches!(dir.add(&[vast]), Err(PackageRefusal::TooLarge)));
    let many: Vec<_> = (0..MOST_PACKAGES).map(|it| top.package(&format!("p{it}"), "1", &[])).collect();
    assert!(matches!(dir.add(&many), Err(PackageRefusal::TooMany)));
    // A folder has the path of another package's file. This is only found while linking.
    let clash = top.package("d", "1", &["d.py", "a.py/inner.py"]);
    assert!(matches!(dir.add(&[clash]), Err(PackageRefusal::Disk(_))));
    let left: Vec<_> = fs::read_dir(dir.path()).unwrap().map(|it| it.unwrap().file_name()).collect();
    assert_eq!(left, ["a.py"]);
}
