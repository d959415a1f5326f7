use std::io::{BufRead as _, BufReader};
use std::os::unix::fs::symlink;
use std::os::unix::net::UnixListener;
use std::process::{Child, Command, Stdio};

use super::*;
use crate::beneath::walk;

/// A skill folder, with one of the host's files next to it.
struct Place(PathBuf);

impl Place {
    fn new(name: &str) -> Self {
        let top = std::env::temp_dir().join(format!("openskill-plain-{name}-{}", std::process::id()));
        std::fs::create_dir_all(top.join("skills/tools")).unwrap();
        std::fs::write(top.join("secret"), "root:$6$hash").unwrap();
        Self(top)
    }

    fn at(&self, name: &str) -> PathBuf {
        self.0.join("skills").join(name)
    }

    fn link(&self, target: impl AsRef<Path>, name: &str) {
        symlink(target, self.at(name)).unwrap();
    }

    fn pipe(&self, name: &str) {
        rustix::fs::mkfifoat(CWD, self.at(name), Mode::RWXU).unwrap();
    }

    fn folder(&self) -> PlainFolder {
        PlainFolder::open(&self.0.join("skills")).unwrap()
    }

    fn read(&self, name: &str) -> Result<String, NotPlain> {
        self.folder().read(Path::new(name), 100)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A process that has a write lease on a file until it is dropped.
struct Lease(Child);

impl Lease {
    fn take(file: &Path) -> Self {
        let program = "import fcntl, os, signal, sys\n\
            signal.signal(signal.SIGIO, signal.SIG_IGN)\n\
            fcntl.fcntl(os.open(sys.argv[1], os.O_RDONLY), fcntl.F_SETLEASE, fcntl.F_WRLCK)\n\
            print('held', flush=True)\n\
            sys.stdin.read()";
        let mut python = Command::new("python3");
        let python = python.args(["-c", program]).arg(file).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = python.spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        assert_eq!(line, "held\n");
        Self(child)
    }

    fn end(mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

#[test]
fn a_link_that_stays_in_the_folder_is_followed() {
    let place = Place::new("inside");
    // Like the files of a ConfigMap that Kubernetes mounts.
    std::fs::create_dir(place.at("..2026_01")).unwrap();
    std::fs::write(place.at("..2026_01/one.yaml"), "id: one").unwrap();
    place.link("..2026_01", "..data");
    place.link("..data/one.yaml", "one.yaml");
    place.link("../one.yaml", "tools/one.yaml");
    for name in ["one.yaml", "..data/one.yaml", "tools/one.yaml", "tools/../one.yaml", "./one.yaml"] {
        assert_eq!(place.read(name).as_deref(), Ok("id: one"), "{name}");
        assert!(kind(&place.folder().describe(Path::new(name)).unwrap()).is_file(), "{name}");
    }
    assert_eq!(read_in_folder(&place.at("one.yaml"), 100).as_deref(), Ok("id: one"));
}

#[test]
fn what_is_not_a_plain_file_in_the_folder_is_refused_and_said_by_name() {
    let place = Place::new("refused");
    place.pipe("pipe");
    place.link("pipe", "to-pipe");
    let _socket = UnixListener::bind(place.at("socket")).unwrap();
    place.link(place.0.join("secret"), "absolute");
    place.link("../secret", "upwards");
    place.link("..", "out");
    place.link("/dev/zero", "zero");
    place.link("/proc/kmsg", "kmsg");
    place.link("circle", "circle");
    for (name, reason) in [
        ("pipe", NotPlain::Kind("a named pipe")),
        ("to-pipe", NotPlain::Kind("a named pipe")),
        ("socket", NotPlain::Kind("a socket")),
        ("tools", NotPlain::Kind("a folder")),
        ("absolute", NotPlain::LeadsOut),
        ("upwards", NotPlain::LeadsOut),
        ("out/secret", NotPlain::LeadsOut),
        ("tools/../../secret", NotPlain::LeadsOut),
        ("zero", NotPlain::LeadsOut),
        ("kmsg", NotPlain::LeadsOut),
        ("circle", NotPlain::System(Errno::LOOP)),
        ("none", NotPlain::System(Errno::NOENT)),
    ] {
        assert_eq!(place.read(name), Err(reason), "{name}");
    }
    assert!(place.folder().names(Path::new("out")).is_err());
    assert_eq!(check(Path::new("/dev/zero")), Err(NotPlain::Kind("a device")));
    assert_eq!(check_start(&place.at("pipe")), Err(NotPlain::Kind("a named pipe")));
}

#[test]
fn without_openat2_the_same_is_opened() {
    let place = Place::new("walk");
    std::fs::write(place.at("tools/one.yaml"), "id: one").unwrap();
    place.link("tools", "linked");
    place.link("linked/../linked/one.yaml", "inside");
    place.link("../secret", "upwards");
    place.link(place.0.join("secret"), "absolute");
    place.link("circle", "circle");
    place.pipe("pipe");
    let folder = openat(CWD, place.at(""), PLACE, Mode::empty()).unwrap();
    for name in [
        ".",
        "tools",
        "tools/one.yaml",
        "linked",
        "linked/one.yaml",
        "inside",
        "upwards",
        "absolute",
        "circle",
        "pipe",
        "none",
        "tools/one.yaml/x",
        "..",
        "tools/../..",
        "/etc/passwd",
        "tools/../inside",
    ] {
        let found = |opened: Result<OwnedFd, Errno>| opened.map(|it| fstat(it).unwrap().st_ino);
        for wanted in [PLACE, READ] {
            let (one, other) = (
                beneath(folder.as_fd(), Path::new(name), wanted, 40),
                walk(folder.as_fd(), Path::new(name), wanted, 40),
            );
            assert_eq!(found(one), found(other), "{name}");
        }
    }
}

#[test]
fn reading_is_bounded_and_takes_text_only() {
    let place = Place::new("bounded");
    for (text, read) in [
        ("x".repeat(100).into_bytes(), Ok("x".repeat(100))),
        ("x".repeat(101).into_bytes(), Err(NotPlain::TooLarge(100))),
        (b"\xff\xfe".to_vec(), Err(NotPlain::NotText)),
    ] {
        std::fs::write(place.at("file"), text).unwrap();
        assert_eq!(place.read("file"), read);
    }
}

#[test]
fn a_file_that_a_lease_holds_is_not_waited_for() {
    let place = Place::new("lease");
    let file = place.at("one.py");
    std::fs::write(&file, "print(1)").unwrap();
    let lease = Lease::take(&file);
    assert_eq!(place.read("one.py"), Err(NotPlain::Held));
    assert_eq!(check_start(&file), Err(NotPlain::Held));
    assert_eq!(check(&file), Ok(()));
    assert!(NotPlain::Held.to_string().contains("lease"));
    lease.end();
    assert_eq!(place.read("one.py").as_deref(), Ok("print(1)"));
    assert_eq!(check_start(&file), Ok(()));
}

#[test]
fn a_file_is_replaced_without_opening_what_has_its_place() {
    let place = Place::new("replace");
    let secret = place.0.join("secret");
    place.link(&secret, "a.mcp-lock.json");
    place.link(&secret, "a.mcp-lock.tmp");
    place.pipe("b.mcp-lock.tmp");
    for name in ["a", "b"] {
        replace(&place.at(&format!("{name}.mcp-lock.json")), b"{}").unwrap();
        assert_eq!(place.read(&format!("{name}.mcp-lock.json")).as_deref(), Ok("{}"));
    }
    assert_eq!(std::fs::read_to_string(secret).unwrap(), "root:$6$hash");
    assert!(!place.at("a.mcp-lock.tmp").exists() && !place.at("b.mcp-lock.tmp").exists());
}
