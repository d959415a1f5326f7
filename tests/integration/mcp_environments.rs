//! MCP servers with packages of their own: the environment is built first, then the server starts from it.

use std::time::Duration;

use openskill_tests::folder::Folder;
use openskill_tests::mcp_wheel::{Server, tool};
use openskill_tests::port::Port;
use openskill_tests::system::{Setup, System, code, data, request};
use openskill_tests::wait::until;
use serde_json::{Value, json};

/// Installers take seconds, and some on a loaded machine.
const PATIENCE: Duration = Duration::from_secs(180);

fn server(version: &'static str) -> Server {
    Server { name: "smallserver", version, tools: vec![tool("look", "Looks around.")] }
}

fn setup(folder: &Folder) -> Setup {
    let path = |name: &str| folder.path().join(name).display().to_string();
    Setup::with_skills(&[&folder.path().join("skills")])
        .flag("--workers", 1)
        .with("OPENSKILL_PYTHON_ENVIRONMENTS", path("store"))
        .with("OPENSKILL_PYTHON_INSTALLER", "pip")
        .with("OPENSKILL_PYTHON_INDEX_URL", "none")
        .with("OPENSKILL_PYTHON_FIND_LINKS", path("wheels"))
}

async fn looks(system: &System, skill: &str, version: &str) -> Value {
    until(&format!("{skill} answers from version {version}"), PATIENCE, || async {
        let result = system.invoke(request(skill, json!({}))).await;
        (code(&result).is_empty() && data(&result)["version"] == version).then(|| data(&result))
    })
    .await
}

#[tokio::test]
async fn a_server_runs_from_its_requirements_and_a_change_of_them_restarts_it() {
    let folder = Folder::new();
    let hash = server("1.0").write(&folder.path().join("wheels"));
    server("2.0").write(&folder.path().join("wheels"));
    folder.write("skills/requirements.txt", format!("smallserver==1.0 --hash=sha256:{hash}\n"));
    let manifest =
        "id: small\ntype: mcp\nruntime: stdio\nentry: smallserver\npython: {requirements: requirements.txt}\n";
    folder.write("skills/small.yaml", manifest);
    let port = Port::reserve();
    let system = setup(&folder).with("OPENSKILL_WORKER_METRICS_LISTEN", port.address()).start().await;
    let seen = looks(&system, "small__look", "1.0").await;
    let metrics = openskill_tests::rest::metrics(port.address()).await;
    assert!(metrics.contains("openskill_worker_python_environments{status=\"ready\"} 1"), "{metrics}");
    assert!(seen["environment"].as_array().unwrap().contains(&json!("VIRTUAL_ENV")), "{seen}");
    folder.write("skills/requirements.txt", "smallserver==2.0\n");
    looks(&system, "small__look", "2.0").await;
}

#[tokio::test]
async fn a_script_runs_in_the_environment_and_what_is_wrong_with_it_is_the_reason() {
    let folder = Folder::new();
    server("1.0").write(&folder.path().join("wheels"));
    folder.write("skills/own.py", "import smallserver\nsmallserver.main()\n");
    let manifest = |id: &str, entry: &str, python: &str| {
        let text = format!("id: {id}\ntype: mcp\nruntime: stdio\nentry: {entry}\npython: {python}\n");
        folder.write(&format!("skills/{id}.yaml"), text);
    };
    manifest("own", "./own.py", "{requirements: [smallserver]}");
    manifest("absent", "otherserver", "{requirements: [smallserver]}");
    manifest("missing", "smallserver", "{requirements: [nowhere-to-be-found]}");
    let wrong = "0".repeat(64);
    let hashed = format!("{{requirements: ['smallserver==1.0 --hash=sha256:{wrong}'], require_hashes: true}}");
    manifest("another", "smallserver", &hashed);
    manifest("hashless", "smallserver", "{requirements: [smallserver==1.0], require_hashes: true}");
    let port = Port::reserve();
    let system = setup(&folder).with("OPENSKILL_WORKER_METRICS_LISTEN", port.address()).start().await;
    looks(&system, "own__look", "1.0").await;
    for (id, words) in [
        ("absent", "its packages have no program 'otherserver'"),
        ("missing", "nowhere-to-be-found"),
        ("another", "DO NOT MATCH THE HASHES"),
        ("hashless", "--require-hashes"),
    ] {
        until(&format!("{id} is unavailable because of {words}"), PATIENCE, || async {
            let skill = system.get(&format!("/skills/{id}")).await.json();
            skill["status_reason"].as_str().unwrap_or_default().contains(words).then_some(())
        })
        .await;
    }
    // A skill that has become another needs its environment no more.
    folder.write("skills/missing.yaml", "id: missing\ntype: inproc\nentry: echo\n");
    until("two of three failed builds are left", PATIENCE, || async {
        let metrics = openskill_tests::rest::metrics(port.address()).await;
        metrics.contains("openskill_worker_python_environments{status=\"failed\"} 2").then_some(())
    })
    .await;
}

#[tokio::test]
async fn an_isolated_server_sees_nothing_of_its_worker() {
    let folder = Folder::new();
    server("1.0").write(&folder.path().join("wheels"));
    let manifest = |id: &str, more: &str| {
        let text = format!(
            "id: {id}\ntype: mcp\nruntime: stdio\nentry: smallserver\npython: {{requirements: [smallserver]}}\n{more}\n"
        );
        folder.write(&format!("skills/{id}.yaml"), text);
    };
    manifest("open", "");
    manifest("closed", "mcp: {isolated: true}");
    let system = setup(&folder).start().await;
    let sees = |seen: Value| seen["environment"].as_array().unwrap().contains(&json!("OPENSKILL_ALLOWED_ROOT"));
    assert!(sees(looks(&system, "open__look", "1.0").await));
    let closed = looks(&system, "closed__look", "1.0").await;
    assert_eq!(closed["data"], false, "{closed}");
    assert!(!sees(closed));
}
