//! Starts browsers: in a jail of their own, with a fresh profile in memory, in a network whose only way out is the relay.

use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream as StdUnixStream;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use openskill_cdp::client::{Client, connect};
use openskill_cdp::message::Event;
use serde_json::json;
use tokio::io::{AsyncRead, AsyncReadExt as _, Interest};
use tokio::net::{TcpListener, UnixStream};
use tokio::runtime::Handle;
use tokio_util::task::AbortOnDropHandle;

use super::descriptors::{pair, receive};
use super::documents::Documents;
use super::flags::arguments;
use super::host_process::{ARGUMENT, DOWNLOADS, HOME, LISTENS, RELAY_PORT};
use super::instance::{Browser, Life, PROMPT, State};
use super::numbers::Numbers;
use super::policies::policies;
use super::problem::Problem;
use super::relay;
use super::tabs::{Bounds, Tabs, attach_to};
use super::view::{View, tell_listeners};
use crate::config::browser::Browser as Settings;
use crate::manifest::{Jail, Level, Limits, Manifest, Network};
use crate::process::jail::plan::Plan;
use crate::process::launch::LaunchError;
use crate::process::protocol::{Command, ProcessLimits};
use crate::process::sockets::refuse_descriptors;
use crate::runners::in_process::host::Host;

/// How long a browser may take to start, on a busy machine.
const START: Duration = Duration::from_secs(20);

/// How much of what a browser writes to stderr is kept for the log.
const MAX_STDERR_BYTES: usize = 4096;

/// Downloads of one session.
const MOST_DOWNLOADS: usize = 32;

/// The size of its files in memory, beside downloads.
const TEMP_MB: u64 = 512;

/// Downloads that are in memory together: those that run, and those that no call has taken yet. More of them fail.
const MOST_KEPT: u64 = 4;

/// Fonts: which there are, and what is remembered of them.
const FONTS: [&str; 2] = ["/etc/fonts", "/var/cache/fontconfig"];

/// A page with what most pages have.
const WARM_UP: &str = "<h1>A page</h1><p>Text, <b>bold</b> and <i>italic</i>, <a href=/>a link</a></p>\
    <button onclick=1>Button</button><input value=text><input type=checkbox><select><option>One</select><ul><li>Item</ul>";

/// Why there is no browser.
#[derive(Debug, thiserror::Error)]
pub(super) enum StartError {
    #[error("{0}")]
    NoJail(String),
    #[error(transparent)]
    Launch(#[from] LaunchError),
    #[error("its descriptors could not be made: {0}")]
    Descriptors(#[from] std::io::Error),
    #[error("it was not ready within {} s", START.as_secs())]
    Silent,
    #[error("it ended at once")]
    Ended,
    #[error("it refused to be driven: {0}")]
    Refused(Problem),
}

/// What starting a browser takes.
#[derive(Clone)]
pub(super) struct Launch {
    pub(super) host: Host,
    pub(super) settings: Settings,
    pub(super) runtime: Handle,
}

impl Launch {
    /// Whether browsers can be started here.
    ///
    /// # Errors
    /// The reason, for people.
    pub(super) fn check(&self, manifest: &Manifest) -> Result<(), String> {
        let program = self.settings.found()?;
        self.plan(manifest, &program).map(drop)
    }

    /// The jail. It is the same for all tools, whatever their manifests say of theirs.
    fn plan(&self, manifest: &Manifest, program: &Path) -> Result<Plan, String> {
        let jail = Jail { level: Level::Strict, network: Network::None, readable: Vec::new() };
        let download_mb = self.settings.download_bytes >> 20;
        let limits = Limits {
            memory_mb: self.settings.memory_mb,
            cpu_seconds: self.settings.age.as_secs().saturating_mul(4),
            open_files: 4096,
            file_size_mb: download_mb.max(256),
            processes: 1024,
            temp_mb: TEMP_MB + MOST_KEPT * download_mb,
        };
        let stranger = Manifest { allowed_root: None, jail, limits, ..manifest.clone() };
        let mut readable = vec![self.host.binary.clone()];
        readable.extend(FONTS.iter().map(PathBuf::from).filter(|it| it.is_dir()));
        if let Some(folder) = program.parent().filter(|it| !it.starts_with("/usr")) {
            readable.push(folder.canonicalize().unwrap_or_else(|_| folder.to_owned()));
        }
        let lacking = |reason| format!("browsers need a jail with namespaces, and this worker can't give it: {reason}");
        let plan = self.host.jailer.isolated_plan(&stranger, &readable, &[]).map_err(lacking)?;
        plan.ok_or("there is none".to_owned()).and_then(|it| it.with_sandbox(RELAY_PORT, policies())).map_err(lacking)
    }

    fn command(&self, manifest: &Manifest) -> Result<Command, StartError> {
        let program = self.settings.found().map_err(StartError::NoJail)?;
        let plan = self.plan(manifest, &program).map_err(StartError::NoJail)?;
        // The names of files are UTF-8 only in a locale that is there, and this one is part of the C library.
        let env = [("HOME", HOME), ("LC_ALL", "C.UTF-8"), ("PATH", "/usr/bin:/bin"), ("TZ", "UTC")];
        let program = program.to_string_lossy().into_owned();
        Ok(Command {
            program: self.host.binary.clone(),
            args: [ARGUMENT.to_owned(), program].into_iter().chain(arguments()).collect(),
            env: env.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect::<BTreeMap<_, _>>(),
            cwd: PathBuf::from("/"),
            // The engine for JavaScript reserves much more addresses than it uses. The tree's memory is what is bounded.
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

    /// Starts one. Dropping this ends it.
    ///
    /// # Errors
    /// It is not ready, or there is no jail for it.
    pub(super) async fn start(&self, manifest: &Manifest) -> Result<Browser, StartError> {
        let said = Arc::new(Mutex::new(Vec::new()));
        let started = tokio::time::timeout(START, self.started(manifest, Arc::clone(&said))).await;
        let started = started.unwrap_or(Err(StartError::Silent));
        if let Err(error) = &started
            && openskill_log::admits("a browser was not started")
        {
            let said = said.lock().unwrap_or_else(PoisonError::into_inner);
            tracing::warn!(%error, stderr = %String::from_utf8_lossy(&said), "a browser was not started");
        }
        started
    }

    /// Starts one for a later session and warms it up.
    ///
    /// # Errors
    /// As [`Launch::start`].
    pub(super) async fn start_spare(&self, manifest: &Manifest) -> Result<Browser, StartError> {
        let mut browser = self.start(manifest).await?;
        warm(&mut browser).await.map_err(StartError::Refused)?;
        Ok(browser)
    }

    async fn started(&self, manifest: &Manifest, said: Arc<Mutex<Vec<u8>>>) -> Result<Browser, StartError> {
        let command = self.command(manifest)?;
        let (host, host_theirs) = pair()?;
        let (ours, theirs) = StdUnixStream::pair()?;
        ours.set_nonblocking(true)?;
        refuse_descriptors(&ours)?;
        let theirs = OwnedFd::from(theirs);
        let (running, stderr) = self.host.launcher.launch_with(&command, (&host_theirs, &theirs), ())?;
        drop((host_theirs, theirs));
        let mut life = Life { running: Some(running), runtime: self.runtime.clone(), tasks: Vec::new() };
        let mut spawn = |task: AbortOnDropHandle<()>| life.tasks.push(task);
        spawn(AbortOnDropHandle::new(tokio::spawn(keep_last(stderr, said))));
        let host = UnixStream::from_std(host.into())?;
        let listener = listener(&host).await?;
        let seen = Arc::new(relay::Seen::default());
        let allowed = Arc::new(self.settings.allow.0.clone());
        spawn(AbortOnDropHandle::new(tokio::spawn(relay::serve(listener, allowed, Arc::clone(&seen)))));
        let bounds = Bounds {
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
        let browser = Browser { client, state, seen, documents, numbers, host, _life: life };
        introduce(&browser).await.map_err(StartError::Refused)?;
        Ok(browser)
    }
}

/// Waits for the relay's socket.
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

/// Tells the browser what to report, and waits for its first tab.
async fn introduce(browser: &Browser) -> Result<(), Problem> {
    browser.call("Browser.getVersion", json!({})).await?;
    browser.call("Target.setDiscoverTargets", json!({"discover": true, "filter": [{"type": "page"}]})).await?;
    browser.call("Target.setAutoAttach", attach_to()).await?;
    let downloads = json!({"behavior": "allowAndName", "downloadPath": DOWNLOADS, "eventsEnabled": true});
    browser.call("Browser.setDownloadBehavior", downloads).await?;
    let tab = browser.state.wait(PROMPT, |tabs| tabs.current().cloned()).await.ok_or(Problem::NoTab)?;
    // Whatever was asked of the tab before is done when this is answered.
    browser.of_page(&tab.session, "Page.getFrameTree", json!({})).await?;
    browser.state.tabs().news.take(|_| true);
    Ok(())
}

/// Shows a page of the worker's own and reads it, so that the browser has loaded its fonts and compiled the script.
async fn warm(browser: &mut Browser) -> Result<(), Problem> {
    let tab = browser.tab()?;
    let show = |html: &str| json!({"frameId": tab.target, "html": html});
    browser.of_page(&tab.session, "Page.setDocumentContent", show(WARM_UP)).await?;
    let document = View::of(browser).await?.main().clone();
    tell_listeners(browser, &document).await;
    document.call(&browser.client, "index", json!({"budget": {"elements": 10}})).await?;
    browser.documents.forget(&document);
    browser.of_page(&tab.session, "Page.setDocumentContent", show("")).await.map(drop)
}

/// Keeps the end of what a browser writes.
async fn keep_last(mut from: impl AsyncRead + Unpin, last: Arc<Mutex<Vec<u8>>>) {
    let mut chunk = [0; 1024];
    while let Ok(read @ 1..) = from.read(&mut chunk).await {
        let mut last = last.lock().unwrap_or_else(PoisonError::into_inner);
        last.extend_from_slice(&chunk[..read]);
        let over = last.len().saturating_sub(MAX_STDERR_BYTES);
        last.drain(..over);
    }
}
