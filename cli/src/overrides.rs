//! Maps command-line flags to settings.

use std::path::Path;

use crate::args::{AgentStore, ClientArgs, Command, DescribeCommand, SkillFolders, ToolsArgs};
#[cfg(feature = "worker")]
use crate::args::{LocalCommand, ToolFolder, ToolsCommand};
use crate::settings::{Overrides, names};

impl SkillFolders {
    fn overrides(&self) -> Overrides {
        [collect_overrides([(names::CLI_DIR, self.skills_dir.clone())]), root(self.allowed_root.as_deref())].concat()
    }
}

#[cfg(feature = "worker")]
impl ToolFolder {
    fn overrides(&self) -> Overrides {
        collect_overrides([(names::TOOL_INDEX, self.index.clone()), (names::TOOLS_DIR, self.tools_dir.clone())])
    }
}

fn root(folder: Option<&Path>) -> Overrides {
    collect_overrides([(names::ALLOWED_ROOT, folder.map(|it| it.to_string_lossy().into_owned()))])
}

impl AgentStore {
    fn overrides(&self) -> Overrides {
        collect_overrides([(names::AGENT_STORE, self.file.clone())])
    }
}

impl Command {
    /// Returns the settings that this command's flags override.
    pub(crate) fn overrides(&self) -> Overrides {
        match self {
            Self::Gateway(it) => {
                let workers = collect_overrides([(names::WORKERS, it.workers.clone())]);
                [listen(it.listen.as_deref(), it.admin_listen.as_deref()), workers, it.agent.overrides()].concat()
            }
            Self::Agent(it) => {
                let own = collect_overrides([
                    (names::AGENT_LISTEN, it.listen.clone()),
                    (names::HTTP_BASE_URL, it.gateway.clone()),
                ]);
                [own, it.store.overrides()].concat()
            }
            Self::Mcp(it) if it.served.gateway.is_some() => it.served.client().overrides(),
            Self::Mcp(it) => {
                // Any free port will do, since only this process uses it.
                let own = collect_overrides([(names::LISTEN, Some("127.0.0.1:0".to_owned()))]);
                [own, it.served.skills.overrides()].concat()
            }
            #[cfg(feature = "worker")]
            Self::Local(it) => it.overrides(),
            Self::Tools(it) => it.overrides(),
            Self::Keys(it) => collect_overrides([(names::KEYS, it.file().file.clone())]),
            _ => self.client().map(ClientArgs::overrides).unwrap_or_default(),
        }
    }

    /// Returns the connection flags. `None` for commands that are not client commands.
    pub(crate) fn client(&self) -> Option<&ClientArgs> {
        Some(match self {
            #[cfg(feature = "worker")]
            Self::Local(LocalCommand::Doctor(it)) => &it.client,
            Self::Chat(it) => &it.client,
            Self::Skills(it) => &it.client,
            #[cfg(feature = "worker")]
            Self::Tools(it) if it.command.is_some() => return None,
            Self::Tools(it) => &it.export.client,
            Self::Invoke(it) => &it.client,
            Self::Workers(it) => &it.client,
            Self::Circuits(it) => &it.client,
            Self::Describe(it) => match &it.what {
                DescribeCommand::Skill(it) => &it.client,
                DescribeCommand::Worker(it) => &it.client,
            },
            Self::Drain(it) => &it.client,
            Self::Logs(it) => &it.client,
            Self::Traces(it) => &it.client,
            Self::Trace(it) => &it.client,
            Self::Replay(it) => &it.client,
            Self::Health(it) => &it.client,
            _ => return None,
        })
    }
}

/// The flags of the commands that run skills on this machine, or write skill files.
#[cfg(feature = "worker")]
impl LocalCommand {
    fn overrides(&self) -> Overrides {
        match self {
            Self::Up(it) => {
                let metrics = collect_overrides([(names::WORKER_METRICS_LISTEN, it.worker_metrics.clone())]);
                [
                    listen(it.listen.as_deref(), it.admin_listen.as_deref()),
                    metrics,
                    it.agent.overrides(),
                    it.skills.overrides(),
                ]
                .concat()
            }
            Self::Worker(it) => {
                let own = collect_overrides([
                    (names::WORKER_LISTEN, it.listen.clone()),
                    (names::WORKER_ID, it.id.clone()),
                    (names::WORKER_METRICS_LISTEN, it.metrics_listen.clone()),
                ]);
                [own, it.skills.overrides()].concat()
            }
            Self::Init(_) => Overrides::new(),
            Self::New(it) => it.skills.overrides(),
            Self::Check(it) => it.skills.overrides(),
            Self::Doctor(it) => [it.skills.overrides(), it.client.overrides()].concat(),
            Self::Pin(it) => it.skills.overrides(),
        }
    }
}

impl ToolsArgs {
    fn overrides(&self) -> Overrides {
        #[cfg(feature = "worker")]
        if let Some(command) = &self.command {
            return command.overrides();
        }
        self.export.client.overrides()
    }
}

#[cfg(feature = "worker")]
impl ToolsCommand {
    fn overrides(&self) -> Overrides {
        match self {
            Self::Add(it) | Self::Pins(it) => [it.place.overrides(), it.skills.overrides()].concat(),
            Self::Remove(it) => [it.place.overrides(), root(it.allowed_root.as_deref())].concat(),
            Self::Index(it) => [it.place.overrides(), root(it.allowed_root.as_deref())].concat(),
        }
    }
}

impl ClientArgs {
    fn overrides(&self) -> Overrides {
        let headers = (!self.headers.is_empty()).then(|| self.headers.join(","));
        collect_overrides([
            (names::CONTEXT, self.context.clone()),
            (names::HTTP_BASE_URL, self.url.clone()),
            (names::TOKEN, self.token.clone()),
            (names::TOKEN_FILE, self.token_file.clone()),
            (names::CA, self.ca.clone()),
            (names::CLIENT_CERT, self.cert.clone()),
            (names::CLIENT_KEY, self.key.clone()),
            (names::HEADERS, headers),
        ])
    }
}

fn listen(public: Option<&str>, admin: Option<&str>) -> Overrides {
    collect_overrides([(names::LISTEN, public.map(str::to_owned)), (names::ADMIN_LISTEN, admin.map(str::to_owned))])
}

/// Keeps the flags that are present.
fn collect_overrides(flags: impl IntoIterator<Item = (&'static str, Option<String>)>) -> Overrides {
    flags.into_iter().filter_map(|(name, value)| Some((name, value?))).collect()
}
