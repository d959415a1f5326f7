use super::*;

const DIGEST: &str = "sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

fn read(entry: &str, text: &str) -> Result<Docker, String> {
    let docker: Docker = crate::manifest::raw::read(text).map_err(|(_, reason)| reason)?;
    docker.resolve(entry, &Limits::default()).map_err(|fault| fault.reason)
}

#[test]
fn the_defaults_grant_nothing() {
    let docker = read(&format!("registry.example.com:5000/team/pdf@{DIGEST}"), "{}").unwrap();
    assert!(matches!(docker.image, Image::Digest(_)));
    assert_eq!((docker.network, docker.mount_root), (Network::None, MountRoot::None));
    assert_eq!((docker.user.as_str(), docker.pull), ("65534:65534", Pull::Missing));
    assert_eq!(docker.writable, ["/tmp"]);
    assert_eq!(read(DIGEST, "{}").unwrap().pull, Pull::Never);
}

#[test]
fn an_unpinned_image_needs_two_settings() {
    assert!(read("pdf:1", "{}").unwrap_err().contains("not a fixed image"));
    assert!(read("pdf:1", "unpinned: true").is_err());
    assert!(read("pdf:1", "pull: never").is_err());
    assert_eq!(read("pdf:1", "{pull: never, unpinned: true}").unwrap().image, Image::Tag("pdf:1".to_owned()));
    assert!(read(DIGEST, "unpinned: true").is_err());
    assert!(read(DIGEST, "pull: missing").unwrap_err().contains("cannot be pulled"));
}

#[test]
fn a_flag_or_a_path_is_not_an_image() {
    let short = format!("pdf@{}", &DIGEST[..70]);
    let upper = format!("pdf@{}", DIGEST.to_uppercase());
    let twice = format!("pdf@{DIGEST}@{DIGEST}");
    let bad = [
        "--privileged",
        "-v",
        "/etc",
        "../x",
        "a/../b",
        "a//b",
        "a b",
        "a\nb",
        "pdf@sha256:1",
        "a:b:c",
        "a:1/b:2/c",
        ":x",
        "a:",
        "é",
        "$(x)",
        "a?b=c",
        "a#b",
        "a%2fb",
        &short,
        &upper,
        &twice,
    ];
    for entry in bad {
        assert!(read(entry, "{pull: never, unpinned: true}").is_err(), "{entry}");
    }
}

#[test]
fn root_needs_a_setting_and_a_user_is_numeric() {
    for user in ["0:0", "1000:0", "0:1000"] {
        assert!(read(DIGEST, &format!("user: '{user}'")).unwrap_err().contains("root"), "{user}");
        assert!(read(DIGEST, &format!("{{user: '{user}', allow_root: true}}")).is_ok(), "{user}");
    }
    for user in ["root", "1000", "nobody:nobody", "-1:5", "+1:5", "1:2:3", ""] {
        assert!(read(DIGEST, &format!("{{user: '{user}', allow_root: true}}")).is_err(), "{user}");
    }
}

#[test]
fn invalid_settings_are_refused_with_the_reason() {
    let bad = [
        "privileged: true",
        "network: host",
        "network: container:x",
        "command: []",
        "command: ['']",
        "command: [\"a\\0\"]",
        "entrypoint: sh",
        "writable: [tmp]",
        "writable: [/]",
        "writable: ['/a/../b']",
        "writable: ['/a:ro']",
        "writable: ['/a,exec']",
        "writable: [/proc]",
        "writable: [/dev/shm]",
        "writable: [/tmp, /tmp]",
        "writable_mb: 0",
        "cpus: 0",
        "cpus: -1",
        "cpus: .nan",
        "mount_root: all",
        "{mount_root: ro, writable: [/data/x]}",
        "pull: always",
        "warm: {}",
    ];
    for text in bad {
        assert!(read(DIGEST, text).is_err(), "{text}");
    }
    let good = ["mount_root: rw", "network: bridge", "command: [a, -b, '']", "writable: []"];
    for text in good {
        assert!(read(DIGEST, text).is_ok(), "{text}");
    }
}

#[test]
fn limits_below_the_engines_minimum_are_refused() {
    let limits = Limits { memory_mb: 5, ..Limits::default() };
    assert!(Docker::default().resolve(DIGEST, &limits).is_err());
}
