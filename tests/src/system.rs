//! A running openskill.

use std::net::SocketAddr;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use http::Method;
use openskill_proto::v1::admin_service_client::AdminServiceClient;
use openskill_proto::v1::invoke_request::Arguments;
use openskill_proto::v1::skill_service_client::SkillServiceClient;
use openskill_proto::v1::trace_service_client::TraceServiceClient;
use openskill_proto::v1::{InvokeRequest, SkillResult, WorkerInfo, skill_result};
use rustix::process::Signal;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncRead, BufReader};
use tokio::process::{Child, Command};
use tokio::task::JoinHandle;
use tonic::transport::{Channel, Endpoint};

use crate::alone::{self, Turn};
use crate::folder::Folder;
use crate::rest::{self, Answer};
use crate::wait::until;
use crate::{binary, fixtures, processes, repository};

/// How long anything may take on a loaded machine.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// What to start.
pub struct Setup {
    /// What starts the binary: a program and its arguments, such as `setpriv`.
    through: Vec<String>,
    binary: PathBuf,
    arguments: Vec<String>,
    environment: Vec<(String, String)>,
    data: Option<PathBuf>,
    log: Option<PathBuf>,
    pace: &'static [(&'static str, &'static str)],
}

/// Short intervals for reloading folders and polling workers, and no load balancer that has to notice a shutdown.
const QUICK: [(&str, &str); 3] =
    [("OPENSKILL_RELOAD_MS", "200"), ("OPENSKILL_REFRESH_MS", "50"), ("OPENSKILL_LAME_DUCK_MS", "0")];

impl Setup {
    /// `openskill up` with two workers and the misbehaving skills.
    pub fn up() -> Self {
        let skills = fixtures().display().to_string();
        Self::command(&["up", "--listen", "127.0.0.1:0", "--skills-dir", &skills])
    }

    /// The same with the skills and the data that ship.
    pub fn shipped() -> Self {
        let skills = repository().join("worker/skills").display().to_string();
        let mut setup = Self::command(&["up", "--listen", "127.0.0.1:0", "--skills-dir", &skills]);
        setup.data = Some(repository().join("data"));
        setup
    }

    /// `openskill up` with two workers and the skills of these folders.
    pub fn with_skills(folders: &[&Path]) -> Self {
        let folders: Vec<_> = folders.iter().map(|it| it.display().to_string()).collect();
        Self::command(&["up", "--listen", "127.0.0.1:0", "--skills-dir", &folders.join(":")])
    }

    pub fn command(arguments: &[&str]) -> Self {
        let arguments = arguments.iter().map(|it| (*it).to_owned()).collect();
        let (through, binary) = (Vec::new(), binary());
        Self { through, binary, arguments, environment: Vec::new(), data: None, log: None, pace: &QUICK }
    }

    #[must_use]
    pub fn with(mut self, name: &str, value: impl ToString) -> Self {
        self.environment.push((name.to_owned(), value.to_string()));
        self
    }

    #[must_use]
    pub fn flag(mut self, name: &str, value: impl ToString) -> Self {
        self.arguments.extend([name.to_owned(), value.to_string()]);
        self
    }

    /// With the default intervals, for benchmarks.
    #[must_use]
    pub fn at_its_own_pace(mut self) -> Self {
        self.pace = &[];
        self
    }

    /// Starts another binary than the one under test.
    #[must_use]
    pub fn binary(mut self, path: &Path) -> Self {
        path.clone_into(&mut self.binary);
        self
    }

    /// Starts it through another program that executes it, such as `setpriv`.
    #[must_use]
    pub fn through(mut self, command: &[&str]) -> Self {
        self.through = command.iter().map(|it| (*it).to_owned()).collect();
        self
    }

    /// Another folder as the allowed root.
    #[must_use]
    pub fn data(mut self, folder: &Path) -> Self {
        self.data = Some(folder.to_owned());
        self
    }

    /// Appends the log to this file instead of [`Process::log`].
    #[must_use]
    pub fn log_to(mut self, file: &Path) -> Self {
        self.log = Some(file.to_owned());
        self
    }

    /// Starts it and does not wait until it is ready.
    pub fn spawn(self) -> Process {
        let turn = alone::beside_others();
        let folder = Folder::new();
        let data = self.data.unwrap_or_else(|| folder.path().join("data"));
        std::fs::create_dir_all(&data).unwrap();
        let own = self.binary.display().to_string();
        let mut line = self.through.into_iter().chain([own]).chain(self.arguments);
        let mut command = Command::new(line.next().unwrap());
        end_with_this_thread(command.as_std_mut());
        let mut child = command
            .args(line)
            .current_dir(folder.path())
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("OPENSKILL_ALLOWED_ROOT", data)
            // Tests that look at recorded calls say where, and no test writes to anybody's home.
            .env("OPENSKILL_TRACE_DIR", "memory")
            .envs(self.pace.iter().copied())
            .envs(self.environment)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(self.log.as_deref().map_or_else(Stdio::piped, end_of))
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let output = Output::default();
        let log = Output::default();
        let mut readers = vec![output.collect(child.stdout.take().unwrap())];
        readers.extend(child.stderr.take().map(|it| log.collect(it)));
        Process { child, output, log, readers, folder, _turn: turn }
    }

    /// Starts it and waits until calls are served.
    pub async fn start(self) -> System {
        let mut process = self.spawn();
        let address = process.wait_for_address().await;
        System { address, process }
    }
}

/// Has the kernel kill the process when the test's thread ends, however that ends: nothing is dropped in a killed test.
#[allow(unsafe_code, reason = "the only way to do something between fork and exec")]
pub(crate) fn end_with_this_thread(command: &mut std::process::Command) {
    let ask = || Ok(rustix::process::set_parent_process_death_signal(Some(Signal::KILL))?);
    // SAFETY: it makes one system call, and allocates nothing.
    unsafe { command.pre_exec(ask) };
}

fn end_of(file: &Path) -> Stdio {
    std::fs::OpenOptions::new().create(true).append(true).open(file).unwrap().into()
}

/// The output of a process so far.
#[derive(Debug, Clone, Default)]
pub struct Output(Arc<Mutex<String>>);

impl Output {
    fn collect(&self, stream: impl AsyncRead + Unpin + Send + 'static) -> JoinHandle<()> {
        let text = Arc::clone(&self.0);
        tokio::spawn(async move {
            let mut lines = BufReader::new(stream).lines();
            while let Ok(Some(line)) = lines.next_line().await {
                let mut text = text.lock().unwrap();
                text.push_str(&line);
                text.push('\n');
            }
        })
    }

    pub fn text(&self) -> String {
        self.0.lock().unwrap().clone()
    }

    /// Waits for a line that contains all of these.
    pub async fn line(&self, parts: &[&str]) -> String {
        until(&format!("a line with {parts:?} in\n{}", self.text()), PATIENCE, || async {
            let text = self.text();
            text.lines().find(|line| parts.iter().all(|part| line.contains(part))).map(str::to_owned)
        })
        .await
    }
}

/// A process of the binary.
#[derive(Debug)]
pub struct Process {
    child: Child,
    pub output: Output,
    pub log: Output,
    /// They end with the last process that has the streams.
    readers: Vec<JoinHandle<()>>,
    pub folder: Folder,
    _turn: Turn,
}

impl Process {
    pub fn pid(&self) -> i32 {
        self.child.id().expect("it runs") as i32
    }

    async fn wait_for_address(&mut self) -> SocketAddr {
        until("openskill is ready", PATIENCE, || {
            let text = self.output.text();
            let ended = self.child.try_wait().unwrap();
            assert!(ended.is_none(), "it ended: {ended:?}\n{}", self.log.text());
            let line = text.lines().find(|line| line.starts_with("openskill is ready"));
            let address = line.map(|line| line.split("://").nth(1).unwrap().split(',').next().unwrap());
            std::future::ready(address.map(|address| address.parse().unwrap()))
        })
        .await
    }

    /// Whether it has ended.
    pub fn has_ended(&mut self) -> bool {
        !matches!(self.child.try_wait(), Ok(None))
    }

    /// Sends SIGTERM.
    pub fn terminate(&self) {
        processes::send(self.pid(), Signal::TERM);
    }

    /// Waits for the end, and for what it wrote before. A child that outlives it may keep its streams for longer than a
    /// test waits.
    pub async fn ended(&mut self) -> ExitStatus {
        let status = tokio::time::timeout(PATIENCE, self.child.wait()).await.expect("it ends").unwrap();
        for reader in self.readers.drain(..) {
            let _ = tokio::time::timeout(Duration::from_secs(2), reader).await;
        }
        status
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // On SIGTERM it ends its workers; if it was killed, they notice and end by themselves.
        // After the end there is no process id any more.
        if self.child.id().is_some() {
            for pid in processes::descendants(self.pid()) {
                processes::send(pid, Signal::TERM);
            }
            self.terminate();
        }
        for _ in 0..200 {
            if !matches!(self.child.try_wait(), Ok(None)) {
                break;
            }
            let _ = rustix::thread::nanosleep(&rustix::thread::Timespec { tv_sec: 0, tv_nsec: 10_000_000 });
        }
        if std::env::var_os("OPENSKILL_TEST_LOG").is_some() {
            eprintln!("{}{}", self.output.text(), self.log.text());
        }
    }
}

/// A gateway that serves calls.
#[derive(Debug)]
pub struct System {
    pub address: SocketAddr,
    pub process: Process,
}

impl System {
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    pub async fn channel(&self) -> Channel {
        Endpoint::from_shared(self.url()).unwrap().connect().await.unwrap()
    }

    pub async fn skills(&self) -> SkillServiceClient<Channel> {
        SkillServiceClient::new(self.channel().await).max_decoding_message_size(64 << 20)
    }

    pub async fn admin(&self) -> AdminServiceClient<Channel> {
        AdminServiceClient::new(self.channel().await)
    }

    pub async fn traces(&self) -> TraceServiceClient<Channel> {
        TraceServiceClient::new(self.channel().await).max_decoding_message_size(64 << 20)
    }

    pub async fn workers(&self) -> Vec<WorkerInfo> {
        let request = openskill_proto::v1::ListWorkersRequest {};
        self.admin().await.list_workers(request).await.unwrap().into_inner().workers
    }

    /// The process ids of the workers of `up`.
    pub fn worker_pids(&self) -> Vec<i32> {
        processes::children(self.process.pid(), "--exit-with-parent")
    }

    /// Waits until a skill can be called.
    pub async fn has_skill(&self, skill: &str) {
        until(&format!("the skill {skill} is there"), PATIENCE, || async {
            let answer = self.get(&format!("/skills/{skill}")).await;
            (answer.status == 200 && answer.json()["status"] == "available").then_some(())
        })
        .await;
    }

    pub async fn get(&self, path: &str) -> Answer {
        rest::send(self.address, Method::GET, path, &[], "").await
    }

    pub async fn post(&self, path: &str, headers: &[(&str, &str)], body: impl Into<bytes::Bytes>) -> Answer {
        rest::send(self.address, Method::POST, path, headers, body).await
    }

    /// Calls a skill over REST.
    pub async fn call(&self, skill: &str, input: Value) -> Answer {
        let headers = [("content-type", "application/json")];
        self.post(&format!("/skills/{skill}:invoke"), &headers, json!({ "input": input }).to_string()).await
    }

    /// Calls a skill over gRPC.
    pub async fn invoke(&self, request: InvokeRequest) -> SkillResult {
        self.skills().await.invoke(request).await.unwrap().into_inner()
    }
}

/// A request with JSON text.
pub fn request(skill: &str, input: Value) -> InvokeRequest {
    InvokeRequest {
        skill_id: skill.to_owned(),
        arguments: Some(Arguments::InputJson(input.to_string())),
        ..InvokeRequest::default()
    }
}

/// The data of a success.
pub fn data(result: &SkillResult) -> Value {
    match &result.output {
        Some(skill_result::Output::DataJson(text)) => serde_json::from_str(text).unwrap(),
        _ => panic!("no data: {result:?}"),
    }
}

/// The name of a failure's code; empty for a success.
pub fn code(result: &SkillResult) -> &'static str {
    result.error.as_ref().map_or("", |error| error.code().as_str_name())
}
