//! Runs the functions of `openskill-builtins`, which do not know manifests.

use std::sync::Arc;

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use openskill_builtins::Builtins;
use openskill_builtins::call::{self, CallEvents, CallSlot, Skill};
use openskill_builtins::host::{FunctionOutput, Host};
use openskill_proto::v1::{Progress, SkillError, execute_event::Event};
use openskill_sandbox::sessions::key::SessionOwner;

use super::FunctionSet;
use crate::config::Config;
use crate::environment::SkillEnvironment;
use crate::events::EventSink;
use crate::manifest::Manifest;
use crate::runner::{Invocation, RawOutput};
use crate::runners::services::Services;
use crate::spans::RunTrace;

/// A worker's built-in functions.
pub(crate) struct BuiltinFunctions {
    builtins: Builtins,
    environment: SkillEnvironment,
}

/// Forwards a function's events to its call.
struct CallSink {
    events: EventSink,
    trace: RunTrace,
}

impl BuiltinFunctions {
    /// Must be called within a runtime that lives as long as the worker.
    pub(crate) fn new(config: &Config, services: &Services) -> Self {
        // Pass the path, because in a jail `/proc/self/exe` is another program.
        let binary = std::fs::read_link(&config.supervisor).unwrap_or_else(|_| config.supervisor.clone());
        let host = Host::new(services.launcher.clone(), services.jailer.machine().clone(), binary);
        let builtins = Builtins::new(host, config.research.clone(), config.browser.clone());
        Self { builtins, environment: services.environment.clone() }
    }

    fn skill(&self, manifest: &Manifest) -> Skill {
        Skill {
            id: manifest.id.clone(),
            level: manifest.jail.level,
            limits: manifest.limits,
            root: self.environment.run_root(manifest),
        }
    }
}

impl FunctionSet for BuiltinFunctions {
    fn has(&self, entry: &str) -> bool {
        self.builtins.has(entry)
    }

    fn admit(&self, entry: &str, manifest: &Manifest) -> Result<(), String> {
        self.builtins.admit(entry, &self.skill(manifest))
    }

    fn run(&self, entry: &str, invocation: Invocation) -> BoxFuture<'static, Result<RawOutput, SkillError>> {
        let Invocation { manifest, input, session_id, principal, trace, deadline, events, slot, .. } = invocation;
        let call = call::Invocation {
            skill: self.skill(&manifest),
            input,
            owner: SessionOwner { group: manifest.group(), principal, conversation: session_id },
            deadline,
            events: Arc::new(CallSink { events, trace }),
            slot: CallSlot::new(slot.nice(), slot),
        };
        let output = |FunctionOutput { data, text, truncated }| RawOutput::Report { data, text, truncated };
        self.builtins.run(entry, call).map(move |report| report.map(output)).boxed()
    }

    fn maintain(&self) {
        self.builtins.tidy();
    }

    fn close(&self) -> BoxFuture<'static, ()> {
        self.builtins.close().boxed()
    }
}

impl CallEvents for CallSink {
    fn progress(&self, fraction: f64, message: String) -> BoxFuture<'_, ()> {
        self.events.send(Event::Progress(Progress { fraction, message })).boxed()
    }

    fn artifact<'a>(&'a self, name: &'a str, media_type: &'a str, data: Vec<u8>) -> BoxFuture<'a, ()> {
        self.events.artifact(name, media_type, data).boxed()
    }

    fn record_start(&self, how: &'static str) {
        self.trace.record_start(how);
    }
}
