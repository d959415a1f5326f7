//! Maps command-line flags to settings.

use std::path::Path;

use crate::args::{ClientArgs, Command, DescribeCommand, ShippedSets, SkillFolders, ToolsArgs};
#[cfg(feature = "worker")]
use crate::args::{LocalCommand, ManifestCommand, ToolFolder, ToolsCommand};
use crate::settings::Overrides;

/// Returns the settings of the flags that are present.
fn given<const N: usize>(flags: [(&'static str, &Option<String>); N]) -> Overrides {
    flags.into_iter().filter_map(|(name, value)| Some((name, value.clone()?))).collect()
}

fn root(folder: Option<&Path>) -> Overrides {
    folder.map(|it| ("OPENSKILL_ALLOWED_ROOT", it.to_string_lossy().into_owned())).into_iter().collect()
}

impl Command {
    /// Returns the settings that this command's flags override.
    pub(crate) fn overrides(&self) -> Overrides {
        match self {
            Self::Gateway(it) => given([
                ("OPENSKILL_LISTEN", &it.listen),
                ("OPENSKILL_ADMIN_LISTEN", &it.admin_listen),
                ("OPENSKILL_WORKERS", &it.workers),
                ("OPENSKILL_AGENT_STORE", &it.agent.file),
            ]),
            Self::Agent(it) => given([
                ("OPENSKILL_AGENT_LISTEN", &it.listen),
                ("OPENSKILL_HTTP_BASE_URL", &it.gateway),
                ("OPENSKILL_AGENT_STORE", &it.store.file),
            ]),
            Self::Mcp(it) if it.target().gateway.is_some() => it.target().client().overrides(),
            Self::Mcp(it) => {
                // Any free port will do, since only this process uses it.
                let mut own = [it.target().shipped.overrides(), it.target().skills.overrides()].concat();
                own.push(("OPENSKILL_LISTEN", "127.0.0.1:0".to_owned()));
                own
            }
            #[cfg(feature = "worker")]
            Self::Local(it) => it.overrides(),
            Self::Tools(it) => it.overrides(),
            Self::Keys(it) => given([("OPENSKILL_KEYS", &it.file().file)]),
            _ => self.client().map(ClientArgs::overrides).unwrap_or_default(),
        }
    }

    /// Returns the connection flags. `None` for commands that are not client commands.
    pub(crate) fn client(&self) -> Option<&ClientArgs> {
        Some(match self {
            #[cfg(feature = "worker")]
            Self::Local(LocalCommand::Doctor(it)) => &it.client,
            Self::Chat(it) => &it.client,
            Self::Skills(it) => &it.list.client,
            #[cfg(feature = "worker")]
            Self::Tools(it) if it.command.is_some() => return None,
            Self::Tools(it) => &it.export.client,
            Self::Invoke(it) => &it.client,
            Self::Submit(it) => &it.client,
            Self::Operations(it) => it.client(),
            Self::Workers(it) => &it.client,
            Self::Circuits(it) => &it.list.client,
            Self::Describe(DescribeCommand::Skill(it)) => &it.client,
            Self::Describe(DescribeCommand::Worker(it)) => &it.client,
            Self::Drain(it) => &it.client,
            Self::Traffic(it) => &it.client,
            Self::Rollback(it) => &it.client,
            Self::Logs(it) => &it.client,
            Self::Ps(it) => &it.list.client,
            Self::Cancel(it) => &it.client,
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
        let (own, skills) = match self {
            Self::Up(it) => {
                let own = given([
                    ("OPENSKILL_LISTEN", &it.listen),
                    ("OPENSKILL_ADMIN_LISTEN", &it.admin_listen),
                    ("OPENSKILL_WORKER_METRICS_LISTEN", &it.worker_metrics),
                    ("OPENSKILL_AGENT_STORE", &it.agent.file),
                ]);
                ([own, it.shipped.overrides()].concat(), &it.skills)
            }
            Self::Worker(it) => {
                let own = given([
                    ("OPENSKILL_WORKER_LISTEN", &it.listen),
                    ("OPENSKILL_WORKER_ID", &it.id),
                    ("OPENSKILL_WORKER_METRICS_LISTEN", &it.metrics_listen),
                ]);
                ([own, it.shipped.overrides()].concat(), &it.skills)
            }
            Self::Init(_) | Self::Sdk(_) => return Overrides::new(),
            Self::New(it) => (Overrides::new(), &it.skills),
            Self::Add(it) => (Overrides::new(), &it.skills),
            Self::Run(it) => (Overrides::new(), &it.skills),
            Self::Check(it) => (it.shipped.overrides(), &it.skills),
            Self::Doctor(it) => ([it.client.overrides(), it.shipped.overrides()].concat(), &it.skills),
            Self::Manifest(ManifestCommand::Show(it)) => (Overrides::new(), &it.skills),
            Self::Pin(it) => (Overrides::new(), &it.skills),
        };
        [own, skills.overrides()].concat()
    }
}

impl ToolsArgs {
    fn overrides(&self) -> Overrides {
        #[cfg(feature = "worker")]
        if let Some(command) = &self.command {
            return match command {
                ToolsCommand::Add(it) | ToolsCommand::Pins(it) => {
                    [it.place.overrides(), it.skills.overrides()].concat()
                }
                ToolsCommand::Remove(it) => [it.place.overrides(), root(it.allowed_root.as_deref())].concat(),
                ToolsCommand::Index(it) => [it.place.overrides(), root(it.allowed_root.as_deref())].concat(),
            };
        }
        self.export.client.overrides()
    }
}

impl ShippedSets {
    fn overrides(&self) -> Overrides {
        let sets = (!self.sets.is_empty()).then(|| self.sets.join(","));
        given([("OPENSKILL_WITH", &sets)])
    }
}

impl SkillFolders {
    fn overrides(&self) -> Overrides {
        [given([("OPENSKILL_CLI_DIR", &self.skills_dir)]), root(self.allowed_root.as_deref())].concat()
    }
}

#[cfg(feature = "worker")]
impl ToolFolder {
    fn overrides(&self) -> Overrides {
        given([("OPENSKILL_TOOL_INDEX", &self.index), ("OPENSKILL_TOOLS_DIR", &self.tools_dir)])
    }
}

impl ClientArgs {
    pub(crate) fn overrides(&self) -> Overrides {
        let headers = (!self.headers.is_empty()).then(|| self.headers.join(","));
        given([
            ("OPENSKILL_CONTEXT", &self.context),
            ("OPENSKILL_HTTP_BASE_URL", &self.url),
            ("OPENSKILL_TOKEN", &self.token),
            ("OPENSKILL_TOKEN_FILE", &self.token_file),
            ("OPENSKILL_CA", &self.ca),
            ("OPENSKILL_CLIENT_CERT", &self.cert),
            ("OPENSKILL_CLIENT_KEY", &self.key),
            ("OPENSKILL_HEADERS", &headers),
        ])
    }
}
