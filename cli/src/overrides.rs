//! The flags that are settings.

use crate::args::{AgentStore, Client, Command, Described, SkillFolders};
use crate::settings::{Overrides, names};

impl SkillFolders {
    fn overrides(&self) -> Overrides {
        let root = self.allowed_root.as_ref().map(|root| root.to_string_lossy().into_owned());
        given([(names::CLI_DIR, self.skills_dir.clone()), (names::ALLOWED_ROOT, root)])
    }
}

impl AgentStore {
    fn overrides(&self) -> Overrides {
        given([(names::AGENT_STORE, self.file.clone())])
    }
}

impl Command {
    /// The flags of this command that are settings.
    pub(crate) fn overrides(&self) -> Overrides {
        let client = |client: &Client| {
            given([
                (names::HTTP_BASE_URL, client.url.clone()),
                (names::TOKEN, client.token.clone()),
                (names::TOKEN_FILE, client.token_file.clone()),
            ])
        };
        let listen = |public: &Option<String>, admin: &Option<String>| {
            given([(names::LISTEN, public.clone()), (names::ADMIN_LISTEN, admin.clone())])
        };
        match self {
            Self::Up(it) => {
                let metrics = given([(names::WORKER_METRICS_LISTEN, it.worker_metrics.clone())]);
                [listen(&it.listen, &it.admin_listen), metrics, it.agent.overrides(), it.skills.overrides()].concat()
            }
            Self::Gateway(it) => {
                let workers = given([(names::WORKERS, it.workers.clone())]);
                [listen(&it.listen, &it.admin_listen), workers, it.agent.overrides()].concat()
            }
            Self::Worker(it) => {
                let own = given([
                    (names::WORKER_LISTEN, it.listen.clone()),
                    (names::WORKER_ID, it.id.clone()),
                    (names::WORKER_METRICS_LISTEN, it.metrics_listen.clone()),
                ]);
                [own, it.skills.overrides()].concat()
            }
            Self::Agent(it) => {
                let own = given([(names::AGENT_LISTEN, it.listen.clone()), (names::HTTP_BASE_URL, it.gateway.clone())]);
                [own, it.store.overrides()].concat()
            }
            Self::Mcp(it) if it.served.gateway.is_some() => client(&it.served.client()),
            Self::Mcp(it) => {
                // Any free port: only this process knows it.
                let own = given([(names::LISTEN, Some("127.0.0.1:0".to_owned()))]);
                [own, it.served.skills.overrides()].concat()
            }
            Self::Check(it) => it.skills.overrides(),
            Self::New(it) => it.skills.overrides(),
            Self::Doctor(it) => it.skills.overrides(),
            Self::Pin(it) => it.skills.overrides(),
            Self::Chat(it) => client(&it.client),
            Self::Skills(it) => client(&it.client),
            Self::Tools(it) => client(&it.client),
            Self::Invoke(it) => client(&it.client),
            Self::Workers(it) => client(&it.client),
            Self::Circuits(it) => client(&it.client),
            Self::Describe(it) => match &it.what {
                Described::Skill(it) => client(&it.client),
                Described::Worker(it) => client(&it.client),
            },
            Self::Drain(it) => client(&it.client),
            Self::Logs(it) => client(&it.client),
            Self::Traces(it) => client(&it.client),
            Self::Trace(it) => client(&it.client),
            Self::Replay(it) => client(&it.client),
            Self::Health(it) => client(it),
            Self::Keys(it) => given([(names::KEYS, it.file().file.clone())]),
            Self::Init(_) | Self::Config(_) | Self::Completions { .. } => Vec::new(),
        }
    }
}

fn given(flags: impl IntoIterator<Item = (&'static str, Option<String>)>) -> Overrides {
    flags.into_iter().filter_map(|(name, value)| Some((name, value?))).collect()
}
