//! What `openskill up` serves works in containers: sessions of code, packages, browsers, jails of level `strict`.

use std::collections::BTreeSet;
use std::time::Duration;

use http::Method;
use openskill_tests::alone::beside_others;
use openskill_tests::containers::docker;
use openskill_tests::folder::Folder;
use openskill_tests::rest;
use openskill_tests::system::Setup;
use openskill_tests::wait::until;
use openskill_tests::{repository, wheel};
use serde_json::{Value, json};

use super::Project;
use super::images::Images;
use crate::walls::contained;

/// Building an environment takes an installer some seconds.
const PATIENCE: Duration = Duration::from_secs(120);

/// A session with a package of its own, and a script.
const SESSION: &str = "type: session\nruntime: python\nentry: execute\naffinity: caller\ntimeout_ms: 60000\n\
                       python: {requirements: [shade==1.0]}\nparameters:\n  code: {type: string, required: true}\n";

/// The skills that can be called, of an answer of `GET /skills`.
fn available(skills: &Value) -> BTreeSet<String> {
    let skills = skills["skills"].as_array().unwrap().iter().filter(|it| it["status"] == "available");
    skills.map(|it| it["id"].as_str().unwrap().to_owned()).collect()
}

impl Project {
    async fn get(&self, path: &str) -> rest::Answer {
        rest::send(self.port.address(), Method::GET, path, &[], "").await
    }

    /// The data of a call that succeeds.
    async fn data(&self, skill: &str, input: Value) -> Value {
        let answer = self.call(skill, input).await;
        assert_eq!(answer.status, 200, "{skill}: {answer:?}");
        answer.json()["data"].clone()
    }

    async fn has(&self, skill: &str) {
        until(&format!("{skill} can be called"), PATIENCE, || async {
            let answer = self.get(&format!("/skills/{skill}")).await;
            (answer.status == 200 && answer.json()["status"] == "available").then_some(())
        })
        .await;
    }
}

#[tokio::test]
async fn every_skill_that_up_serves_can_be_called_in_containers_too() {
    let _turn = beside_others();
    let Some(images) = Images::or_skip() else { return };
    images.have_a_browser();
    let site = format!("{}site{}", images.tag(), std::process::id());
    let folder = Folder::new();
    wheel::write(&folder.path().join("skills/wheels"), "shade", "1.0", "VERSION = '1.0'\ndef main(): pass\n", &[]);
    folder.write("skills/session.yaml", format!("id: own_session\n{SESSION}"));
    contained::write_skills(&folder);
    let project = Project::new("parity", images)
        .with("WORKER_TARGET", "worker-browser")
        .with("OPENSKILL_OWN_SKILLS", folder.path().join("skills").display())
        .with("OPENSKILL_PYTHON_INDEX_URL", "none")
        .with("OPENSKILL_PYTHON_FIND_LINKS", "/app/skills/wheels")
        .with("OPENSKILL_BROWSER_ALLOW", format!("{site}:8080"))
        // No package: what probes look for in their environment.
        .with("OPENSKILL_SESSION_PACKAGES", "hunter2");
    project.compose(&["up"]).await;
    project.wait_for(1).await;

    let up = Setup::with_skills(&[&repository().join("worker/skills")]).start().await;
    let (here, there) = (available(&up.get("/skills").await.json()), available(&project.get("/skills").await.json()));
    let lacking: Vec<_> = here.difference(&there).collect();
    assert!(lacking.is_empty() && here.len() > 10, "{} of {} lack: {lacking:?}", lacking.len(), here.len());
    drop(up);

    let worker = project.container("worker");
    let doctor = ["exec", &worker, "openskill", "doctor", "--json"];
    let found: Value = serde_json::from_str(&docker(&doctor).unwrap_or_else(|it| it)).unwrap();
    for topic in ["files", "system calls", "signals", "namespaces", "packages", "browser"] {
        let finding = found["machine"].as_array().unwrap().iter().find(|it| it["topic"] == topic).unwrap();
        assert_eq!(finding["status"], "ok", "{finding}");
    }

    let ran = project.data("microsandbox_execute", json!({"code": "6 * 7"})).await;
    assert_eq!(ran["result"], "42", "{ran}");
    project.has("own_session").await;
    let ran = project.data("own_session", json!({"code": "import shade; shade.VERSION"})).await;
    assert_eq!(ran["result"], "'1.0'", "{ran}");

    reads_a_page(&project, &site).await;
    is_walled(&project, &folder).await;
    keeps_what_it_recorded(&project).await;
}

/// A browser opens a page of a container beside it.
async fn reads_a_page(project: &Project, site: &str) {
    let network = format!("{}_egress", project.name);
    let image = format!("openskill-worker:{}", project.images.tag());
    let serve = "mkdir /tmp/site && cd /tmp/site && echo '<title>Beside</title><p>read me' > index.html && \
                 exec python3 -m http.server 8080";
    let run =
        ["run", "--detach", "--rm", "--name", site, "--network", &network, "--entrypoint", "sh", &image, "-c", serve];
    docker(&run).unwrap();
    let url = format!("http://{site}:8080/");
    let page = until("the browser opens the page", PATIENCE, || async {
        let answer = project.call("browser_navigate", json!({ "url": url })).await.json();
        (answer["success"] == true).then(|| answer["data"].clone())
    })
    .await;
    docker(&["rm", "--force", site]).unwrap();
    assert_eq!(page["title"], "Beside", "{page}");
}

/// The profile of the container allows namespaces and mounts to the jail, and to no skill.
async fn is_walled(project: &Project, folder: &Folder) {
    let worker = project.container("worker");
    let format = "{{range .NetworkSettings.Networks}}{{.IPAddress}} {{end}}";
    let addresses = docker(&["inspect", "--format", format, &worker]).unwrap();
    assert_eq!(addresses.split_whitespace().count(), 2, "{addresses}");
    let pid = docker(&["inspect", "--format", "{{.State.Pid}}", &project.container("gateway")]).unwrap();
    contained::attack(&worker, project.port.address(), pid.parse().unwrap(), &folder.path().join("skills")).await;
    // The worker has no rights over the machine that it could pass on.
    let status = docker(&["exec", &worker, "cat", "/proc/1/status"]).unwrap();
    for line in ["CapEff:\t0000000000000000", "CapBnd:\t0000000000000000", "NoNewPrivs:\t1", "Seccomp:\t2"] {
        assert!(status.contains(line), "{line}: {status}");
    }
}

/// Another container of the gateway has the recorded calls and the conversations of the one before it.
async fn keeps_what_it_recorded(project: &Project) {
    let said = rest::send(
        project.port.address(),
        Method::POST,
        "/agent/chat",
        &[("content-type", "application/json")],
        json!({"message": "echo: hi"}).to_string(),
    )
    .await;
    assert_eq!(said.status, 200, "{said:?}");
    let before = project.container("gateway");
    let traces = || {
        let gateway = project.container("gateway");
        docker(&["exec", &gateway, "openskill", "traces", "--skill", "own_session", "--url", "http://127.0.0.1:8001"])
    };
    let recorded =
        until("the call is recorded", PATIENCE, || async { traces().ok().filter(|it| it.contains("own_session")) });
    recorded.await;
    docker(&["rm", "--force", &before]).unwrap();
    project.compose(&["up"]).await;
    assert_ne!(project.container("gateway"), before);
    let kept = traces().unwrap();
    assert!(kept.contains("own_session"), "{kept}");
    let conversations = project.get("/agent/conversations").await.json();
    assert_eq!(conversations["conversations"].as_array().map(Vec::len), Some(1), "{conversations}");
}
