//! A process that is measured: in a process group of its own, which ends with the value.

use std::fs::File;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use openskill_tests::processes;
use rustix::process::{Pid, Signal, kill_process_group};
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::{ChildStdin, Command};

use crate::usage::Table;

/// How long one may take to begin: Python hosts have a lot to import.
const PATIENCE: Duration = Duration::from_secs(40);

/// The process.
#[derive(Debug)]
pub(crate) struct Child {
    child: tokio::process::Child,
    pid: i32,
    /// Open as long as this is: some end with it.
    _stdin: ChildStdin,
}

impl Child {
    /// Starts one that says on stdout where it listens. What it says on stderr goes to `log`.
    pub(crate) fn announced(command: Command, log: &Path) -> Result<Self, String> {
        Self::start(command, Stdio::piped(), &file(log)?)
    }

    /// Starts one whose port is known. All that it says goes to `log`.
    pub(crate) fn silent(command: Command, log: &Path) -> Result<Self, String> {
        let file = file(log)?;
        let stdout = file.try_clone().map_err(|error| error.to_string())?;
        Self::start(command, stdout.into(), &file)
    }

    fn start(mut command: Command, stdout: Stdio, log: &File) -> Result<Self, String> {
        let child = command
            .stdin(Stdio::piped())
            .stdout(stdout)
            .stderr(log.try_clone().map_err(|error| error.to_string())?)
            .process_group(0)
            .kill_on_drop(true)
            .spawn();
        let mut child = child.map_err(|error| format!("{:?}: {error}", command.as_std().get_program()))?;
        let pid = child.id().ok_or("it ended at once")? as i32;
        let stdin = child.stdin.take().ok_or("it has no stdin")?;
        Ok(Self { child, pid, _stdin: stdin })
    }

    pub(crate) fn pid(&self) -> i32 {
        self.pid
    }

    /// The first line it writes.
    pub(crate) async fn first_line(&mut self, log: &Path) -> Result<String, String> {
        let stdout = self.child.stdout.take().ok_or("its first line was read already")?;
        let mut lines = BufReader::new(stdout).lines();
        match tokio::time::timeout(PATIENCE, lines.next_line()).await {
            Ok(Ok(Some(line))) => Ok(line),
            _ => Err(format!("it said nothing: {}", end_of(log))),
        }
    }

    /// Waits until something listens at the port.
    pub(crate) async fn listens(&mut self, address: std::net::SocketAddr, log: &Path) -> Result<(), String> {
        let begun = std::time::Instant::now();
        while tokio::net::TcpStream::connect(address).await.is_err() {
            let ended = self.child.try_wait().map_err(|error| error.to_string())?;
            if ended.is_some() || begun.elapsed() > PATIENCE {
                return Err(format!("it does not listen: {}", end_of(log)));
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        Ok(())
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        // Not yet asked about, so the number is still its own. What it started may be in groups of their own: hosts of MCP
        // servers do that.
        if self.child.id().is_some()
            && let Some(group) = Pid::from_raw(self.pid)
        {
            let tree = Table::read().tree(&[self.pid]);
            let _ = kill_process_group(group, Signal::KILL);
            for pid in tree {
                processes::send(pid, Signal::KILL);
            }
        }
    }
}

fn file(log: &Path) -> Result<File, String> {
    File::create(log).map_err(|error| format!("{}: {error}", log.display()))
}

/// The last line that says something.
fn end_of(log: &Path) -> String {
    let text = std::fs::read_to_string(log).unwrap_or_default();
    text.lines().rfind(|line| !line.trim().is_empty()).unwrap_or("its log is empty").to_owned()
}
