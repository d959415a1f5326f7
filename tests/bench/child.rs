//! A process in a process group of its own. The whole tree is killed when the value is dropped.

use std::fs::File;
use std::net::SocketAddr;
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use openskill_tests::processes;
use rustix::process::{Pid, Signal, kill_process_group};
use tokio::process::Command;

/// Python hosts have a lot to import.
const PATIENCE: Duration = Duration::from_secs(40);

#[derive(Debug)]
pub(crate) struct Child {
    child: tokio::process::Child,
    pid: i32,
}

impl Child {
    /// Starts a process that writes to `log`. It keeps its stdin until it is killed.
    pub(crate) fn start(mut command: Command, log: &Path) -> Result<Self, String> {
        let file = File::create(log).map_err(|error| format!("{}: {error}", log.display()))?;
        let copy = file.try_clone().map_err(|error| error.to_string())?;
        command.stdin(Stdio::piped()).stdout(copy).stderr(file).process_group(0).kill_on_drop(true);
        let child = command.spawn().map_err(|error| format!("{:?}: {error}", command.as_std().get_program()))?;
        let pid = child.id().ok_or("it ended at once")? as i32;
        Ok(Self { child, pid })
    }

    pub(crate) fn pid(&self) -> i32 {
        self.pid
    }

    /// Waits until it listens.
    pub(crate) async fn listens(&mut self, address: SocketAddr, log: &Path) -> Result<(), String> {
        let begun = Instant::now();
        while tokio::net::TcpStream::connect(address).await.is_err() {
            let ended = self.child.try_wait().map_err(|error| error.to_string())?;
            if ended.is_some() || begun.elapsed() > PATIENCE {
                let text = std::fs::read_to_string(log).unwrap_or_default();
                let last = text.lines().rfind(|line| !line.trim().is_empty()).unwrap_or("its log is empty");
                return Err(format!("it does not listen: {last}"));
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        Ok(())
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        // It was not waited for, so its process id is still its own. Hosts put MCP servers into groups of their own.
        if self.child.id().is_some()
            && let Some(group) = Pid::from_raw(self.pid)
        {
            let started = processes::descendants(self.pid);
            let _ = kill_process_group(group, Signal::KILL);
            started.into_iter().for_each(|pid| processes::send(pid, Signal::KILL));
        }
    }
}
