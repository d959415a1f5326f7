//! The images: what is in them, and what is not.

use openskill_tests::containers::docker;

/// The images of a project that has been built.
pub(super) fn are_small_labelled_and_bare(tag: &str) {
    let [gateway, worker] = ["gateway", "worker"].map(|it| format!("openskill-{it}:{tag}"));
    for image in [&gateway, &worker] {
        let label = |name: &str| {
            let format = format!("{{{{ index .Config.Labels \"org.opencontainers.image.{name}\" }}}}");
            docker(&["image", "inspect", "--format", &format, image]).unwrap()
        };
        assert_eq!(label("licenses"), "Apache-2.0");
        assert!(!label("title").is_empty() && !label("version").is_empty(), "{image}");
        assert_eq!(docker(&["image", "inspect", "--format", "{{.Config.User}}", image]).unwrap(), "10001:10001");
    }
    let files = files(&gateway);
    let has = |name: &str| files.iter().any(|it| it.ends_with(&format!("/{name}")) || it == name);
    assert!(has("openskill") && has("ca-certificates.crt"), "{files:?}");
    for name in ["sh", "bash", "dash", "busybox", "python3", "perl", "apt-get", "dpkg"] {
        assert!(!has(name), "the gateway's image has {name}");
    }
    assert!(files.len() < 60, "{files:?}");
    let run = |script: &str| docker(&["run", "--rm", "--network", "none", "--entrypoint", "sh", &worker, "-c", script]);
    assert!(run("python3 -c 'import ssl, sqlite3' && test -w /app/data && test -w /app/tools").is_ok());
    assert!(run("test -w /app/worker/skills || test -w /usr/local/bin").is_err(), "a skill could change what runs");
    assert!(run("command -v apt-get || command -v dpkg").is_err(), "the worker's image can install packages");
}

/// The files of an image, without folders and what the engine adds.
fn files(image: &str) -> Vec<String> {
    let container = docker(&["create", image]).unwrap();
    let listed = std::process::Command::new("sh")
        .args(["-c", &format!("docker export {container} | tar t")])
        .output()
        .map(|it| String::from_utf8_lossy(&it.stdout).into_owned());
    docker(&["rm", &container]).unwrap();
    listed.unwrap().lines().filter(|it| !it.ends_with('/')).map(str::to_owned).collect()
}
