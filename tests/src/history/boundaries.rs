//! Kills a gateway exactly before its n-th sync to disk, or its n-th write, for each n. strace does that.
//!
//! Before a sync, a transaction is in the store's log, and no client knows. Before a write, the log may contain half of one. Each
//! thread counts its own calls. The thread that opens a store calls first, so a fresh store is also killed while it is created.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use super::audit::audit;
use super::kill::{finish, spawn_clients};
use super::plan::Plan;
use super::report::Report;
use super::stage::{Layout, Stage, Store};
use super::{Event, journal};
use crate::folder::Folder;
use crate::system::Process;

/// How long a gateway may take to reach a boundary. The calls take about two seconds.
const LIMIT: Duration = Duration::from_secs(6);

/// The worker is not traced.
const LAYOUT: Layout = Layout::Apart { gateways: 1, workers: 1 };

/// The system calls before which a gateway is killed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Boundary {
    Sync,
    Write,
}

impl Boundary {
    /// The names for strace.
    fn calls(self) -> &'static str {
        match self {
            Self::Sync => "fsync,fdatasync",
            Self::Write => "pwrite64",
        }
    }
}

/// A store to begin with.
#[derive(Debug)]
pub struct PreparedStore(Folder);

impl PreparedStore {
    /// Has a gateway create a store.
    pub async fn new() -> Self {
        let mut stage = Stage::new(LAYOUT, None).await;
        stage.start().await;
        // It has created the store before it answers.
        audit(&mut stage.client(), &stage.journal).await;
        stage.stop().await;
        let folder = Folder::new();
        copy(&stage.folder.path().join("store"), folder.path());
        Self(folder)
    }
}

/// Whether strace is there, and may trace.
pub fn can_trace() -> bool {
    let traced = Command::new("strace").args(["-D", "-f", "-qq", "-e", "trace=fsync", "true"]).output();
    traced.is_ok_and(|it| it.status.success() && it.stderr.is_empty())
}

/// Kills a gateway at its n-th boundary, starts it again, and checks what is left. None if it has fewer.
pub async fn run(name: &str, prepared: Option<&PreparedStore>, boundary: Boundary, number: usize) -> Option<Report> {
    let mut stage = Stage::new(LAYOUT, None).await;
    if let (Some(prepared), Store::Sqlite(path)) = (prepared, &stage.store) {
        copy(prepared.0.path(), path.parent().expect("it is in a folder"));
    }
    let calls = boundary.calls();
    let (trace, inject) = (format!("trace={calls}"), format!("inject={calls}:signal=SIGKILL:when={number}"));
    // The gateway is the child, and the tracer is not: so it ends with this process.
    let traced = ["strace", "-D", "-f", "-qq", "-o", "/dev/null", "-e", &trace, "-e", &inject];
    let mut gateway = stage.spawn_through(&traced);
    let mut clients = spawn_clients(&stage, &Plan::small().calls);
    let is_killed = ended(&mut gateway).await;
    if !is_killed {
        gateway.terminate();
        gateway.ended().await;
    }
    let what = format!(
        "{boundary:?} {number}: {}, at {}",
        if is_killed { "killed" } else { "not reached" },
        journal::now_ms()
    );
    stage.journal.add(&Event::Fault { what });
    stage.start().await;
    finish(&mut clients).await;
    audit(&mut stage.client(), &stage.journal).await;
    stage.stop().await;
    let report = Report::new(name, &stage, usize::from(is_killed));
    (is_killed || !report.violations.is_empty()).then_some(report)
}

/// Waits until a process has ended. Returns false if it does not.
async fn ended(process: &mut Process) -> bool {
    let ends = async {
        while !process.has_ended() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(LIMIT, ends).await.is_ok()
}

fn copy(from: &Path, to: &Path) {
    for entry in std::fs::read_dir(from).expect("the folder is there").flatten() {
        std::fs::copy(entry.path(), to.join(entry.file_name())).expect("the disk has space");
    }
}
