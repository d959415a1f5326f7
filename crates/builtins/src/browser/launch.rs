//! Starts browsers, each in a separate jail with a new in-memory profile and a network that reaches only the
//! relay.

use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream as StdUnixStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use crate::browser::cdp::client::{Client, connect};
use crate::browser::cdp::message::Event;
use openskill_sandbox::Limits;
use openskill_sandbox::jail::Level;
use openskill_sandbox::jail::plan::Plan;
use openskill_sandbox::launch::LaunchError;
use openskill_sandbox::packet::open_pair;
use openskill_sandbox::protocol::{Command, ProcessLimits};
use openskill_sandbox::sockets::refuse_descriptors;
use parking_lot::Mutex;
use serde_json::json;
use tokio::io::{AsyncRead, AsyncReadExt as _, Interest};
use tokio::net::{TcpListener, UnixStream};
use tokio::runtime::Handle;
use tokio_util::task::AbortOnDropHandle;

use super::descriptors::receive;
use super::documents::Documents;
use super::flags::{arguments, policies};
use super::host_process::{ARGUMENT, DOWNLOADS, HOME, LISTENS, RELAY_PORT};
use super::instance::{Browser, Life, State};
use super::numbers::Numbers;
use super::problem::Problem;
use super::relay;
use super::tabs::{TabLimits, Tabs, attach_to};
use super::view::{View, tell_listeners};
use crate::config::browser::Browser as Settings;
use crate::host::Host;

/// The time limit for starting a browser on a busy machine.
const START: Duration = Duration::from_secs(40);

/// How much of the browser's stderr is kept for the log, in bytes.
const MAX_STDERR_BYTES: usize = 4096;

/// The maximum number of downloads in a session.
const MOST_DOWNLOADS: usize = 32;

/// The size of the in-memory file system without downloads, in MiB.
const TEMP_MB: u64 = 512;

/// The maximum number of downloads in memory: those in progress and those not yet collected by a call. Additional
/// downloads fail.
const MOST_KEPT: u64 = 4;

/// The fontconfig configuration and cache.
const FONTS: [&str; 2] = ["/etc/fonts", "/var/cache/fontconfig"];

/// A page with typical content, for warming up.
const WARM_UP: &str = "<h1>A page</h1><p>Text, <b>bold</b> and <i>italic</i>, <a href=/>a link</a></p>\
    <button onclick=1>Button</button><input value=text><input type=checkbox><select><option>One</select><ul><li>Item</ul>";

/// Why a browser could not be started.
#[derive(Debug, thiserror::Error)]
pub(super) enum StartError {
    #[error("{0}")]
    NoJail(String),
    #[error(transparent)]
    Launch(#[from] LaunchError),
    #[error("its descriptors could not be created: {0}")]
    Descriptors(#[from] std::io::Error),
    #[error("it was not ready within {} s", START.as_secs())]
    Silent,
    #[error("it exited immediately")]
    Ended,
    #[error("it can't be controlled: {0}")]
    Refused(Problem),
}

/// Everything that is needed to start a browser.
pub(super) struct Launch {
    pub(super) host: Host,
    pub(super) settings: Settings,
    pub(super) runtime: Handle,
}

impl Launch {
    /// Checks whether browsers can be started on this machine.
    ///
    /// # Errors
    /// The human-readable reason why they can't.
    pub(super) fn check(&self) -> Result<(), String> {
        let program = self.settings.found()?;
        self.plan(&program).map(drop)
    }

    /// Returns the browser's jail. It is the same for all tools, regardless of their manifests.
    fn plan(&self, program: &Path) -> Result<Plan, String> {
        let download_mb = self.settings.download_bytes >> 20;
        let limits = Limits {
            memory_mb: self.settings.memory_mb,
            cpu_seconds: self.settings.age.as_secs().saturating_mul(4),
            open_files: 4096,
            file_size_mb: download_mb.max(256),
            processes: 1024,
            temp_mb: TEMP_MB + MOST_KEPT * download_mb,
        };
        let mut readable = vec![self.host.binary.clone()];
        readable.extend(FONTS.iter().map(PathBuf::from).filter(|it| it.is_dir()));
        if let Some(folder) = program.parent().filter(|it| !it.starts_with("/usr")) {
            readable.push(folder.canonicalize().unwrap_or_else(|_| folder.to_owned()));
        }
        let lacking =
            |reason| format!("browsers need a jail with namespaces, and this worker can't provide it: {reason}");
        let plan = self.host.isolated_plan(Level::Strict, &limits, readable).map_err(lacking)?;
        plan.with_sandbox(RELAY_PORT, policies()).map_err(lacking)
    }

    fn command(&self) -> Result<Command, StartError> {
        let program = self.settings.found().map_err(StartError::NoJail)?;
        let plan = self.plan(&program).map_err(StartError::NoJail)?;
        // File names count as UTF-8 only in an installed UTF-8 locale. The C library always includes `C.UTF-8`.
        let env = [("HOME", HOME), ("LC_ALL", "C.UTF-8"), ("PATH", "/usr/bin:/bin"), ("TZ", "UTC")];
        let program = program.to_string_lossy().into_owned();
        Ok(Command {
            program: self.host.binary.clone(),
            args: [ARGUMENT.to_owned(), program].into_iter().chain(arguments()).collect(),
            env: env.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect::<BTreeMap<_, _>>(),
            cwd: PathBuf::from("/"),
            // The JavaScript engine reserves far more address space than it uses, so the memory of the process
            // tree is limited instead.
            limits: ProcessLimits {
                address_space_bytes: u64::MAX,
                cpu_seconds: u64::MAX,
                open_files: 4096,
                file_size_bytes: self.settings.download_bytes.max(256 << 20),
                processes: 1024,
            },
            nice: 0,
            forks: false,
            jail: Some(plan),
            root: None,
        })
    }

    /// Starts a browser. Dropping the future cancels the start.
    ///
    /// # Errors
    /// The browser did not become ready, or this machine does not provide the jail.
    pub(super) async fn start(&self) -> Result<Browser, StartError> {
        let said = Arc::new(Mutex::new(Vec::new()));
        let started = tokio::time::timeout(START, self.try_start(Arc::clone(&said))).await;
        let started = started.unwrap_or(Err(StartError::Silent));
        if let Err(error) = &started
            && openskill_telemetry::log::admits("a browser was not started")
        {
            let said = said.lock();
            tracing::warn!(%error, stderr = %String::from_utf8_lossy(&said), "a browser was not started");
        }
        started
    }

    /// Starts and warms up a spare browser for a later session.
    ///
    /// # Errors
    /// The same as for [`Launch::start`].
    pub(super) async fn start_spare(&self) -> Result<Browser, StartError> {
        let mut browser = self.start().await?;
        warm(&mut browser).await.map_err(StartError::Refused)?;
        Ok(browser)
    }

    async fn try_start(&self, said: Arc<Mutex<Vec<u8>>>) -> Result<Browser, StartError> {
        let command = self.command()?;
        let (host, host_theirs) = open_pair()?;
        let (ours, theirs) = StdUnixStream::pair()?;
        ours.set_nonblocking(true)?;
        refuse_descriptors(&ours)?;
        let theirs = OwnedFd::from(theirs);
        let (running, stderr) = self.host.launcher.launch_with(&command, &host_theirs, &theirs, ())?;
        drop((host_theirs, theirs));
        let mut life = Life { running: Some(running), runtime: self.runtime.clone(), tasks: Vec::new() };
        let mut spawn = |task: AbortOnDropHandle<()>| life.tasks.push(task);
        spawn(AbortOnDropHandle::new(tokio::spawn(keep_last(stderr, said))));
        let host = UnixStream::from_std(host.into())?;
        let listener = listener(&host).await?;
        let relay_log = Arc::new(relay::RelayLog::default());
        let allowed = Arc::new(self.settings.allow.clone());
        spawn(AbortOnDropHandle::new(tokio::spawn(relay::serve(listener, allowed, Arc::clone(&relay_log)))));
        let bounds = TabLimits {
            tabs: self.settings.tabs,
            download_bytes: self.settings.download_bytes,
            downloads: MOST_DOWNLOADS,
        };
        let state = Arc::new(State::new(Tabs::new(bounds)));
        let (from, to) = UnixStream::from_std(ours)?.into_split();
        let of_events = Arc::clone(&state);
        let (client, driver) = connect(from, to, move |client: &Client, event: Event| of_events.on(client, &event));
        spawn(AbortOnDropHandle::new(tokio::spawn(driver)));
        let (documents, numbers) = (Documents::default(), Numbers::default());
        let browser = Browser { client, state, relay_log, documents, numbers, host, _life: life };
        introduce(&browser).await.map_err(StartError::Refused)?;
        Ok(browser)
    }
}

/// Receives the relay's socket from the host process.
async fn listener(host: &UnixStream) -> Result<TcpListener, StartError> {
    let first = host.async_io(Interest::READABLE, || receive(host)).await?;
    let Some((text, Some(listener))) = first else { return Err(StartError::Ended) };
    if text != LISTENS {
        return Err(StartError::Ended);
    }
    let listener = std::net::TcpListener::from(listener);
    listener.set_nonblocking(true)?;
    Ok(TcpListener::from_std(listener)?)
}

/// Configures which events the browser reports, and waits for its first tab. Each step has the full start time
/// limit: on a busy machine, the first answer uses up most of it.
async fn introduce(browser: &Browser) -> Result<(), Problem> {
    let client = &browser.client;
    client.call(None, "Browser.getVersion", &json!({}), START).await?;
    let discovered = json!({"discover": true, "filter": [{"type": "page"}]});
    client.call(None, "Target.setDiscoverTargets", &discovered, START).await?;
    client.call(None, "Target.setAutoAttach", &attach_to(), START).await?;
    let downloads = json!({"behavior": "allowAndName", "downloadPath": DOWNLOADS, "eventsEnabled": true});
    client.call(None, "Browser.setDownloadBehavior", &downloads, START).await?;
    let tab = browser.state.wait(START, |tabs| tabs.current().cloned()).await.ok_or(Problem::NoTab)?;
    // This answer arrives after all earlier requests to the tab are done.
    client.call(Some(&tab.session), "Page.getFrameTree", &json!({}), START).await?;
    browser.state.tabs().news.take(|_| true);
    Ok(())
}

/// Renders a built-in page and reads it, so that the browser loads its fonts and compiles the script.
async fn warm(browser: &mut Browser) -> Result<(), Problem> {
    let tab = browser.tab()?;
    let show = |html: &str| json!({"frameId": tab.target, "html": html});
    browser.call_page(&tab.session, "Page.setDocumentContent", show(WARM_UP)).await?;
    let document = View::capture(browser).await?.main().clone();
    tell_listeners(browser, &document).await;
    document.call("index", json!({"budget": {"elements": 10}})).await?;
    browser.documents.forget(&document);
    browser.call_page(&tab.session, "Page.setDocumentContent", show("")).await.map(drop)
}

/// Reads a browser's stderr and keeps the last [`MAX_STDERR_BYTES`].
async fn keep_last(mut from: impl AsyncRead + Unpin, last: Arc<Mutex<Vec<u8>>>) {
    let mut chunk = [0; 1024];
    while let Ok(read @ 1..) = from.read(&mut chunk).await {
        let mut last = last.lock();
        last.extend_from_slice(&chunk[..read]);
        let over = last.len().saturating_sub(MAX_STDERR_BYTES);
        last.drain(..over);
    }
}
