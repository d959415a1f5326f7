//! The same attacks inside the container of a worker, whose outcomes have words of their own in the table where they differ.

use std::net::SocketAddr;
use std::path::Path;

use openskill_tests::containers::docker;
use openskill_tests::folder::Folder;
use openskill_tests::processes;
use serde_json::{Value, json};
use tokio::process::Command;

use super::probes::{self, PROBES};
use super::stage::{Gateway, Kind, Level, copy_programs, write_skill};
use super::table::Place;
use super::{attributes, bombs, counters, exits, imports, leases, leftovers, memory, siblings};

/// As the table names a worker in a container.
const WORDS: &[&str] = &["unprivileged", "container"];

/// Writes the skills that attack into the folder `skills`.
pub(crate) fn write_skills(folder: &Folder) {
    copy_programs(&folder.path().join("skills"));
    for kind in Kind::ALL {
        for (name, script, more) in [
            ("probes", "probes.py", PROBES),
            ("attack", "attacks.py", ""),
            ("neighbour", "attacks.py", ""),
            ("bomb", "attacks.py", &bombs::limits()),
            ("memory", "attacks.py", &memory::limits()),
        ] {
            write_skill(folder, &format!("{name}_{}", kind.word()), kind, script, more);
        }
    }
    write_skill(folder, "imports", Kind::Fork, "remounts.py", "");
    for isolation in siblings::ISOLATIONS {
        folder.write(&format!("skills/{isolation}_auto.yaml"), siblings::manifest(isolation, "auto"));
    }
}

/// `worker`: the id of its container. `gateway`: where calls go, `pid` is its process here. `skills`: the folder that was written.
pub(crate) async fn attack(worker: &str, gateway: SocketAddr, pid: i32, skills: &Path) {
    let gateway = Gateway(gateway);
    let mut differences = Vec::new();
    for kind in Kind::ALL {
        let place = Place { worker: WORDS, kind, level: Level::Strict };
        differences.extend(probes::run(gateway, place, script(worker), known(pid)).await);
    }
    siblings::are_refused(gateway).await;
    leases::are_refused(gateway, json!({"script": "/app/skills/attacks.py"})).await;
    counters::are_bounded(gateway).await;
    imports::write_nothing(gateway, skills).await;
    attributes::closing_temporary_folders_harms_nobody(gateway).await;
    exits::nothing_outlives_a_call(gateway).await;
    leftovers::are_out_of_sight(gateway).await;
    bombs::are_even(gateway).await;
    bombs::fail_no_neighbour(gateway).await;
    memory::are_bounded(gateway, memory::ATTACKS).await;
    assert!(differences.is_empty(), "{} differences:\n{}", differences.len(), differences.join("\n"));
}

/// Makes the targets from another container with the volumes, the network and the processes of the worker's, which has no rights.
fn script(worker: &str) -> Command {
    let (image, beside) =
        (docker(&["inspect", "--format", "{{.Image}}", worker]).unwrap(), format!("container:{worker}"));
    let mut script = Command::new("docker");
    script.args(["run", "--rm", "--interactive", "--user", "0:0", "--cap-add", "SYS_PTRACE", "--volumes-from", worker]);
    script.args(["--pid", &beside, "--network", &beside, "--entrypoint", "/app/skills/targets.py", &image]);
    script
}

/// The targets are in volumes, as all else is read-only: so there is no file beside the allowed root.
fn known(gateway: i32) -> Value {
    json!({
        "root": "/app/data",
        "uid": 10001,
        "outside": "/app/tools/outside",
        "other_skill": "/app/worker/skills/echo.py",
        "worker_folder": "/app/environments",
        "binary": "/usr/local/bin/openskill",
        "gateway_port": 9000,
        "processes": {"worker": 1, "gateway": [gateway, processes::stat(gateway).unwrap()[19]]},
        "looked_through": ["/app", "/app/skills", "/app/worker/skills", "/app/environments", "/app/tools/outside"],
    })
}
