//! The programs of `docs/examples`, against a gateway with TLS and keys.

use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use http::Method;
use openskill_tests::certs::Certs;
use openskill_tests::folder::Folder;
use openskill_tests::port::Port;
use openskill_tests::require::{Need, skip};
use openskill_tests::system::{PATIENCE, Process, Setup};
use openskill_tests::wait::until;
use openskill_tests::{binary, fixtures, repository};
use serde_json::Value;
use tokio::process::Command;

/// What a service has that calls the gateway at `port`, which does not run yet.
struct Service {
    certs: Certs,
    folder: Folder,
    port: Port,
    key: String,
}

impl Service {
    fn new() -> Self {
        let (certs, folder, port) = (Certs::make(), Folder::new(), Port::reserve());
        let keys = folder.path().join("keys.toml");
        let mut create = std::process::Command::new(binary());
        create.args(["keys", "create", "--principal", "service", "--skills", "echo,never_ends", "--admin", "--file"]);
        let created = create.arg(keys).env_clear().output().unwrap();
        assert!(created.status.success(), "{created:?}");
        let key = String::from_utf8(created.stdout).unwrap().trim().to_owned();
        let file = folder.write("service.key", &key);
        std::fs::set_permissions(file, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
        Self { certs, folder, port, key }
    }

    fn gateway(&self) -> Process {
        let skills = format!("{}:{}", repository().join("worker/skills").display(), fixtures().display());
        Setup::command(&["up", "--skills-dir", &skills])
            .flag("--listen", self.port.address())
            .with("OPENSKILL_KEYS", self.folder.path().join("keys.toml").display())
            .with("OPENSKILL_TLS_CERT", self.certs.file("gateway.pem"))
            .with("OPENSKILL_TLS_KEY", self.certs.file("gateway.key"))
            .spawn()
    }

    /// Runs a program before its gateway is there: it waits, or tries again, and succeeds. The call that it cancels ends.
    async fn calls(&self, mut program: Command) {
        let address = format!("localhost:{}", self.port.number());
        program
            .arg(address)
            .args(["--ca", &self.certs.file("ca.pem"), "--slow", "never_ends", "--token-file"])
            .arg(self.folder.path().join("service.key"))
            .stdin(Stdio::null())
            .kill_on_drop(true);
        let running = tokio::spawn(async move { program.output().await.unwrap() });
        let gateway = self.gateway();
        let output = tokio::time::timeout(Duration::from_secs(60), running).await.expect("it ends").unwrap();
        let said = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
        assert!(output.status.success(), "{said}\n{}", gateway.log.text());
        assert!(said.contains("called: hello in trace ") && said.contains("cancelled: never_ends"), "{said}");
        assert_eq!(said.matches("one of many: text ").count(), 3, "{said}");
        until("the cancelled call has ended", PATIENCE, || async {
            let bearer = format!("Bearer {}", self.key);
            let headers = [("authorization", &bearer[..])];
            let client = self.certs.client();
            let scraped = client.send(self.port.address(), Method::GET, "/metrics", &headers, "").await;
            let text = String::from_utf8_lossy(&scraped.body).into_owned();
            let has = |line: &str| text.lines().any(|it| it == line);
            (has("openskill_calls_in_flight 0") && has("openskill_attempts_total{end=\"dropped\"} 1")).then_some(())
        })
        .await;
    }
}

#[tokio::test]
async fn a_service_in_rust_calls_with_tonic() {
    Service::new().calls(Command::new(env!("CARGO_BIN_EXE_service_client"))).await;
}

#[tokio::test]
async fn a_service_in_javascript_calls_over_rest() {
    let is_new = std::process::Command::new("node").args(["-e", "AbortSignal.any([])"]).output();
    if !is_new.is_ok_and(|it| it.status.success()) {
        return skip(Need::Node, "no Node.js of version 20 or newer is on PATH");
    }
    let mut program = Command::new("node");
    program.arg(repository().join("docs/examples/node/client.mjs"));
    Service::new().calls(program).await;
}

#[tokio::test]
async fn a_service_in_python_calls_with_stubs_of_its_own() {
    let python = repository().join("target/test-venv/bin/python");
    if !python.exists() {
        return skip(Need::Venv, "target/test-venv is not there; run `make test-venv`");
    }
    let service = Service::new();
    let stubs = service.folder.path().join("stubs");
    std::fs::create_dir(&stubs).unwrap();
    let proto = repository().join("proto");
    let files = std::fs::read_dir(proto.join("openskill/v1")).unwrap().map(|it| it.unwrap().path());
    let files: Vec<PathBuf> = files.filter(|it| it.extension().is_some_and(|it| it == "proto")).collect();
    let made = std::process::Command::new(&python)
        .args(["-m", "grpc_tools.protoc", "-I"])
        .arg(&proto)
        .args(["--python_out=.", "--grpc_python_out=."])
        .args(files)
        .current_dir(&stubs)
        .output()
        .unwrap();
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let mut program = Command::new(python);
    program.arg("-B").arg(repository().join("docs/examples/python/client.py")).env("PYTHONPATH", &stubs);
    service.calls(program).await;
}

#[test]
fn the_service_configuration_names_every_method_of_the_contract_that_it_may_repeat() {
    let text = std::fs::read_to_string(repository().join("docs/examples/service-config.json")).unwrap();
    let config: Value = serde_json::from_str(&text).unwrap();
    let proto = std::fs::read_to_string(repository().join("proto/openskill/v1/skill.proto")).unwrap();
    let mut named = Vec::new();
    for method in config["methodConfig"].as_array().unwrap() {
        let names = method["name"].as_array().unwrap();
        for name in names.iter().map(|it| it["method"].as_str().unwrap()) {
            assert!(proto.contains(&format!("rpc {name}(")), "{name}");
            // A stream that has begun cannot be made again, and an answer to a question counts once.
            let is_repeated = !method["retryPolicy"].is_null();
            assert!(!is_repeated || !["InvokeStream", "InvokeMany", "WatchSkills", "AnswerInput"].contains(&name));
            named.push(name);
        }
    }
    for name in ["Invoke", "InvokeStream", "InvokeMany", "ListSkills", "GetSkill", "ExportTools", "ReadArtifact"] {
        assert!(named.contains(&name), "{name}");
    }
}
