//! `openskill keys`, and keys in client commands.

use std::os::unix::fs::PermissionsExt as _;
use std::process::{Command, Output};

use openskill_tests::binary;
use openskill_tests::system::System;

use super::{Keys, id};

fn at(system: &System, arguments: &[&str], environment: &[(&str, &str)]) -> Output {
    let mut command = Command::new(binary());
    command.args(arguments).env_clear().env("OPENSKILL_HTTP_BASE_URL", system.url());
    command.envs(environment.iter().copied()).current_dir(system.process.folder.path()).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

#[test]
fn keys_are_created_listed_and_revoked_and_the_file_has_no_secret() {
    let keys = Keys::new();
    std::fs::remove_file(keys.path()).unwrap();
    let key = keys.create("reports", &["--skills", "echo,calculator", "--rate", "5", "--expires", "90d"]);
    assert!(key.starts_with("osk_") && key.len() == 85, "{key}");
    let mode = keys.path().metadata().unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    assert!(!keys.text().contains(key.rsplit('_').next().unwrap()));
    let listed = text(&keys.run(&["list"]).stdout);
    assert!(listed.contains("reports") && listed.contains(id(&key)) && listed.contains("valid"), "{listed}");
    let listed: serde_json::Value = serde_json::from_slice(&keys.run(&["list", "--json"]).stdout).unwrap();
    assert_eq!((&listed[0]["skills"], &listed[0]["admin"]), (&"calculator,echo".into(), &false.into()));
    keys.revoke(&key);
    assert!(text(&keys.run(&["list"]).stdout).contains("no key"));
    for (arguments, word) in [
        (&["revoke", id(&key)][..], "there is no key"),
        (&["create", "--principal", "new"], "set the skills or toolsets"),
        (&["create", "--principal", "reports", "--skills", "x"], "already has a policy"),
        (&["create", "--principal", "No", "--skills", "x"], "principal name"),
        (&["create", "--principal", "n", "--skills", "x", "--expires", "yesterday"], "must be a time"),
        (&["revoke", "xyz"], "16 hexadecimal"),
    ] {
        let ran = keys.run(arguments);
        assert!(!ran.status.success() && text(&ran.stderr).contains(word), "{arguments:?}: {ran:?}");
        assert!(ran.stdout.is_empty());
    }
}

#[tokio::test]
async fn client_commands_show_the_key_of_a_flag_a_variable_or_a_file() {
    let keys = Keys::new();
    let key = keys.create("one", &["--skills", "in_echo"]);
    let system = keys.up().start().await;
    let without = at(&system, &["skills"], &[]);
    assert_eq!(without.status.code(), Some(1), "{without:?}");
    assert!(text(&without.stderr).contains("OPENSKILL_TOKEN"), "{without:?}");
    let file = keys.0.write("one.key", format!("{key}\n"));
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o600)).unwrap();
    let path = file.display().to_string();
    for (arguments, environment) in [
        (&["skills", "--token", &key][..], &[][..]),
        (&["skills", "--token-file", &path], &[]),
        (&["skills"], &[("OPENSKILL_TOKEN", &*key)]),
        (&["skills"], &[("OPENSKILL_TOKEN_FILE", &*path)]),
        (&["skills", "--token-file", &path], &[("OPENSKILL_TOKEN", "wrong")]),
    ] {
        let ran = at(&system, arguments, environment);
        assert!(ran.status.success() && text(&ran.stdout).contains("in_echo"), "{arguments:?}: {ran:?}");
        assert!(!text(&ran.stdout).contains("in_wait"));
    }
    let called = at(&system, &["invoke", "in_echo", "--json", "{}"], &[("OPENSKILL_TOKEN", &key)]);
    assert!(called.status.success(), "{called:?}");
    assert!(at(&system, &["health"], &[]).status.success(), "probes need no key");
    let shown = at(&system, &["config"], &[("OPENSKILL_TOKEN", &key)]);
    assert!(!text(&shown.stdout).contains(&key) && text(&shown.stdout).contains("***"), "{shown:?}");
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o644)).unwrap();
    let open = at(&system, &["skills", "--token-file", &path], &[]);
    assert!(open.status.code() == Some(4) && text(&open.stderr).contains("chmod 600"), "{open:?}");
}
