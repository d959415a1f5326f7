//! Processes that exceed limits. This test program is started again to act as one of them.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use rustix::fs::{MemfdFlags, memfd_create};

use crate::bounds::{Controller, Group, TreeBounds};

const VARIABLE: &str = "OPENSKILL_TEST_ACTOR";

/// The prefix of an actor's own lines. The test program prints other lines too.
const MARK: &str = "ACTOR ";

const MIB: u64 = 1024 * 1024;

/// A process that waits for a line and then acts.
pub(super) struct Actor {
    pub(super) child: Child,
    stdin: ChildStdin,
    stdout: BufReader<ChildStdout>,
}

impl Actor {
    /// Starts an actor: `memfd`, `allocate`, `bomb`, `owner` or `guest`.
    pub(super) fn start(role: &str) -> Self {
        let mut command = Command::new(std::env::current_exe().unwrap());
        let test = format!("{}::act", module_path!().split_once("::").unwrap().1);
        command.args([&test, "--exact", "--nocapture", "--test-threads=1"]).env(VARIABLE, role);
        Self::of(command)
    }

    /// Starts a Python program, whose lines begin with `ACTOR `. Returns `None` if Python is missing.
    pub(super) fn python(program: &str) -> Option<Self> {
        Command::new("python3").arg("--version").output().ok().filter(|it| it.status.success())?;
        let mut command = Command::new("python3");
        command.args(["-c", program]);
        Some(Self::of(command))
    }

    fn of(mut command: Command) -> Self {
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let (stdin, stdout) = (child.stdin.take().unwrap(), BufReader::new(child.stdout.take().unwrap()));
        Self { child, stdin, stdout }
    }

    pub(super) fn pid(&self) -> i32 {
        self.child.id() as i32
    }

    /// Sends it a line, after which it acts.
    pub(super) fn tell(&mut self, line: &str) {
        writeln!(self.stdin, "{line}").unwrap();
    }

    /// Returns the next line that it printed, or `None` if it ended.
    pub(super) fn hear(&mut self) -> Option<String> {
        let mut line = String::new();
        while self.stdout.read_line(&mut line).unwrap() > 0 {
            // The test program's own line does not end before the actor's line.
            if let Some((_, said)) = line.split_once(MARK) {
                return Some(said.trim_end().to_owned());
            }
            line.clear();
        }
        None
    }
}

impl Drop for Actor {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Runs the actors' program. It is no test.
#[test]
fn act() {
    let Ok(role) = std::env::var(VARIABLE) else { return };
    let mut line = String::new();
    std::io::stdin().read_line(&mut line).unwrap();
    match role.as_str() {
        "memfd" => fill_memfd(line.trim().parse().unwrap()),
        "allocate" => allocate(line.trim().parse().unwrap()),
        "bomb" => start_many(line.trim().parse().unwrap()),
        "owner" => own_a_group(&line),
        "guest" => leave_a_group(&line),
        _ => panic!("no actor plays {role}"),
    }
}

fn say(text: &str) {
    println!("{MARK}{text}");
}

/// Waits until the other end is closed.
fn stay() {
    let _ = std::io::stdin().read_line(&mut String::new());
}

fn fill_memfd(mebibytes: usize) {
    let file = memfd_create("full", MemfdFlags::CLOEXEC).unwrap();
    let chunk = vec![1; MIB as usize];
    for _ in 0..mebibytes {
        let mut rest = &chunk[..];
        while !rest.is_empty() {
            rest = &rest[rustix::io::write(&file, rest).unwrap()..];
        }
    }
    say("full");
    stay();
}

fn allocate(mebibytes: usize) {
    let memory = vec![1_u8; mebibytes * MIB as usize];
    say("allocated");
    stay();
    drop(memory);
}

fn start_many(number: usize) {
    let started: Vec<_> = (0..number).filter_map(|_| Command::new("sleep").arg("60").spawn().ok()).collect();
    say(&started.len().to_string());
    stay();
    for mut child in started {
        let _ = child.kill();
        let _ = child.wait();
    }
}

/// Creates a group, enters it, and drops it.
fn leave_a_group(controller: &str) {
    let controller: Controller = serde_json::from_str(controller).unwrap();
    let group =
        Group::create(&controller, "guest", TreeBounds { memory_bytes: 64 * MIB, processes: 32, cpu_seconds: 60 })
            .unwrap();
    group.handle().unwrap().enter().unwrap();
    drop(group);
    say("alive");
}

/// Creates a group and enters it with a child. Both are in it when this process is killed.
fn own_a_group(controller: &str) {
    let controller: Controller = serde_json::from_str(controller).unwrap();
    let group =
        Group::create(&controller, "left", TreeBounds { memory_bytes: 64 * MIB, processes: 32, cpu_seconds: 60 })
            .unwrap();
    let mut child = Command::new("sleep").arg("60").spawn().unwrap();
    group.add(child.id() as i32).unwrap();
    group.handle().unwrap().enter().unwrap();
    assert!(group.holds(std::process::id() as i32).unwrap());
    say(&child.id().to_string());
    stay();
    let _ = child.kill();
    let _ = child.wait();
}
