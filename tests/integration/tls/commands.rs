//! The command line: certificates for development, connections over TLS, contexts.

use std::os::unix::fs::PermissionsExt as _;

use openskill_tests::certs::Certs;
use openskill_tests::folder::Folder;
use openskill_tests::system::System;
use serde_json::Value;

use super::{run, stderr, stdout, up};

fn url(system: &System) -> String {
    format!("https://localhost:{}", system.address.port())
}

#[test]
fn certs_dev_protects_keys_overwrites_nothing_and_prints_what_a_shell_can_use() {
    let certs = Certs::make();
    for (name, mode) in [("ca.pem", 0o644), ("gateway.key", 0o600), ("worker.key", 0o600), ("client.key", 0o600)] {
        let found = certs.path(name).metadata().unwrap().permissions().mode();
        assert_eq!(found & 0o777, mode, "{name}");
    }
    let before = certs.read("ca.pem");
    let again = certs.dev(&[]);
    assert_eq!(again.status.code(), Some(2));
    assert!(stderr(&again).contains("already exists") && certs.read("ca.pem") == before, "{again:?}");
    // A part of them is enough to stop.
    std::fs::remove_file(certs.path("ca.pem")).unwrap();
    assert!(!certs.dev(&[]).status.success() && !certs.path("ca.pem").exists());
    let folder = Folder::new();
    let script = format!(
        "eval \"$({} certs dev --dir 'a b')\" && cat \"$OPENSKILL_TLS_CERT\"",
        openskill_tests::binary().display()
    );
    let shell = std::process::Command::new("sh").arg("-ec").arg(script).current_dir(folder.path()).output().unwrap();
    assert!(stdout(&shell).contains("BEGIN CERTIFICATE"), "{shell:?}");
    // Clients look where the gateway of the project listens.
    folder.write("openskill.toml", "listen = '127.0.0.1:8123'\n");
    let made = std::process::Command::new(openskill_tests::binary())
        .args(["certs", "dev", "--dir", "c"])
        .env_clear()
        .current_dir(folder.path())
        .output()
        .unwrap();
    assert!(stdout(&made).contains("export OPENSKILL_HTTP_BASE_URL=https://localhost:8123\n"), "{made:?}");
}

#[tokio::test]
async fn commands_reach_a_gateway_over_tls_and_say_what_is_wrong() {
    let (certs, other, home) = (Certs::make(), Certs::make(), Folder::new());
    let system = up(&certs).start().await;
    let url = url(&system);
    let ca = certs.file("ca.pem");
    let health = run(&home, &["health", "--url", &url, "--ca", &ca], &[]);
    assert_eq!(stdout(&health), "ready\n", "{health:?}");
    let called = run(
        &home,
        &["invoke", "in_echo", "n=1", "--header", "x-team: a b"],
        &[("OPENSKILL_HTTP_BASE_URL", url.as_str()), ("OPENSKILL_CA", ca.as_str())],
    );
    assert!(called.status.success(), "{called:?}");
    let plain = format!("http://localhost:{}", system.address.port());
    for (arguments, word) in [
        (&["health", "--url", &url, "--ca", &other.file("ca.pem")][..], "--ca"),
        (&["health", "--url", &plain], "use an https:// URL"),
        (&["invoke", "in_echo", "n=1", "--url", &plain], "use an https:// URL"),
        (&["health", "--url", &url, "--ca", "/nonexistent"], "/nonexistent"),
        (&["health", "--url", &url, "--cert", &certs.file("client.pem")], "OPENSKILL_CLIENT_KEY"),
    ] {
        let failed = run(&home, arguments, &[]);
        assert!(!failed.status.success() && stderr(&failed).contains(word), "{word}: {failed:?}");
    }
}

#[tokio::test]
async fn a_command_shows_its_certificate_where_the_gateway_asks_for_one() {
    let (certs, home) = (Certs::make(), Folder::new());
    let system = up(&certs).with("OPENSKILL_TLS_CLIENT_CA", certs.file("ca.pem")).start().await;
    let (url, ca) = (url(&system), certs.file("ca.pem"));
    let base = ["health", "--url", &url, "--ca", &ca];
    let [cert, key] = ["client.pem", "client.key"].map(|name| certs.file(name));
    let own = [&base[..], &["--cert", &cert, "--key", &key]].concat();
    let shown = run(&home, &own, &[]);
    assert_eq!(stdout(&shown), "ready\n", "{shown:?}");
    let bare = run(&home, &base, &[]);
    assert!(!bare.status.success() && stderr(&bare).contains("--cert"), "{bare:?}");
}

#[tokio::test]
async fn doctor_describes_the_certificate_of_the_gateway() {
    let (certs, other, home) = (Certs::make(), Certs::make(), Folder::new());
    let system = up(&certs).start().await;
    let skills = openskill_tests::fixtures().display().to_string();
    std::fs::create_dir_all(home.path().join("data")).unwrap();
    let doctor = |ca: String| {
        let ran = run(&home, &["doctor", "--json", "--skills-dir", &skills, "--url", &url(&system), "--ca", &ca], &[]);
        let report: Value = serde_json::from_str(&stdout(&ran)).unwrap_or_else(|_| panic!("{ran:?}"));
        let all = report["machine"].as_array().unwrap().clone();
        let found = all.into_iter().find(|it| it["topic"] == "gateway").expect("it says something of the gateway");
        (found["status"].as_str().unwrap().to_owned(), found["text"].as_str().unwrap().to_owned())
    };
    let (status, text) = doctor(certs.file("ca.pem"));
    assert!(status == "ok" && text.contains("localhost") && text.contains("expires in 29 days"), "{text}");
    let (status, text) = doctor(other.file("ca.pem"));
    assert!(status == "no" && text.contains("localhost") && text.contains("UnknownIssuer"), "{text}");
}

#[tokio::test]
async fn a_context_is_used_as_a_whole_and_flags_go_on_top() {
    let (certs, home) = (Certs::make(), Folder::new());
    let system = up(&certs).start().await;
    let (url, ca) = (url(&system), certs.file("ca.pem"));
    let run = |arguments: &[&str], environment: &[(&str, &str)]| run(&home, arguments, environment);
    let set = run(&["context", "set", "staging", "--url", &url, "--ca", &ca, "--token", "osk_secret"], &[]);
    assert!(set.status.success(), "{set:?}");
    assert!(run(&["context", "set", "gone", "--url", "http://127.0.0.1:1"], &[]).status.success());
    let file = home.path().join(".config/openskill/contexts.toml");
    assert_eq!(file.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    // Nothing uses it before somebody says so.
    assert!(!run(&["health"], &[]).status.success());
    assert_eq!(stdout(&run(&["health", "--context", "staging"], &[])), "ready\n");
    assert_eq!(stdout(&run(&["health"], &[("OPENSKILL_CONTEXT", "staging")])), "ready\n");
    assert!(run(&["context", "use", "staging"], &[]).status.success());
    assert_eq!(stdout(&run(&["health"], &[])), "ready\n");
    let listed = run(&["context", "list"], &[]);
    let line = stdout(&listed).lines().find(|it| it.contains("staging")).unwrap().to_owned();
    assert!(line.starts_with('*') && line.contains(&url) && line.contains("token"), "{line}");
    for format in ["wide", "json", "yaml"] {
        let listed = run(&["context", "list", "-o", format], &[]);
        assert!(listed.status.success() && !stdout(&listed).contains("osk_secret"), "{listed:?}");
    }
    // A flag, and a context that is named, go before the one in use; a URL of the environment does without it.
    assert!(!run(&["health", "--url", "http://127.0.0.1:1"], &[]).status.success());
    assert!(!run(&["health", "--context", "gone"], &[]).status.success());
    assert!(!run(&["health"], &[("OPENSKILL_HTTP_BASE_URL", "http://127.0.0.1:1")]).status.success());
    let shown = stdout(&run(&["config"], &[("OPENSKILL_TOKEN", "of-the-environment")]));
    let line = shown.lines().find(|it| it.starts_with("OPENSKILL_TOKEN ")).unwrap();
    assert!(line.contains("context") && line.ends_with("***"), "{line}");
    assert!(run(&["context", "use", "--none"], &[]).status.success());
    assert!(!run(&["health"], &[]).status.success());
    assert!(run(&["context", "remove", "staging"], &[]).status.success());
    let missing = run(&["health", "--context", "staging"], &[]);
    assert!(missing.status.code() == Some(2) && stderr(&missing).contains("gone"), "{missing:?}");
}
