//! Shell completion: its script, and its candidates, the ids that the gateway knows now.
//!
//! When the user presses Tab, the shell runs this binary with [`VARIABLE`] set. If no gateway responds, the list
//! is empty.

use std::path::Path;
use std::time::Duration;

use clap_complete::Shell;
use clap_complete::engine::{ArgValueCandidates, CompletionCandidate};
use clap_complete::env::Shells;
use openskill_proto::limits::MAX_RESULT_BYTES;
use openskill_proto::longrunning::ListOperationsRequest;
use openskill_proto::longrunning::operations_client::OperationsClient;
use openskill_proto::v1::admin_service_client::AdminServiceClient;
use openskill_proto::v1::skill_service_client::SkillServiceClient;
use openskill_proto::v1::trace_service_client::TraceServiceClient;
use openskill_proto::v1::{ListCallsRequest, ListSkillsRequest, ListWorkersRequest, SkillStatus};

use crate::channel::{Channel, connect};
use crate::contexts;
use crate::exit::Failure;
use crate::settings::{RawSettings, Settings, project};
use crate::terminal::{print_out, program};

/// The variable that makes this program print candidates instead of running a command. Its value is the shell's
/// name.
pub(crate) const VARIABLE: &str = "OPENSKILL_COMPLETE";

/// The maximum time that the user waits for candidates.
const TIMEOUT: Duration = Duration::from_millis(700);

/// Completes the ids of callable skills.
pub(crate) fn skill_ids() -> ArgValueCandidates {
    ArgValueCandidates::new(|| {
        candidates(Settings::clone, async |channel| {
            let mut client = SkillServiceClient::new(channel).max_decoding_message_size(3 * MAX_RESULT_BYTES);
            let skills = client.list_skills(ListSkillsRequest::default()).await.ok()?.into_inner().skills;
            let available = skills.into_iter().filter(|it| it.status() == SkillStatus::Available);
            Some(available.map(|it| it.id).collect())
        })
    })
}

/// Completes the ids of the workers that the gateway has reached.
pub(crate) fn worker_ids() -> ArgValueCandidates {
    ArgValueCandidates::new(|| {
        candidates(Settings::for_operators, async |channel| {
            let mut client = AdminServiceClient::new(channel);
            let workers = client.list_workers(ListWorkersRequest {}).await.ok()?.into_inner().workers;
            Some(workers.into_iter().map(|it| it.worker_id).collect())
        })
    })
}

/// Completes the ids of the calls that run.
pub(crate) fn call_ids() -> ArgValueCandidates {
    ArgValueCandidates::new(|| {
        candidates(Settings::for_operators, async |channel| {
            let mut client = TraceServiceClient::new(channel);
            let calls = client.list_calls(ListCallsRequest::default()).await.ok()?.into_inner().calls;
            Some(calls.into_iter().map(|it| it.call_id).collect())
        })
    })
}

/// Completes the ids of the newest operations.
pub(crate) fn operation_ids() -> ArgValueCandidates {
    ArgValueCandidates::new(|| {
        candidates(Settings::clone, async |channel| {
            let mut client = OperationsClient::new(channel);
            let operations =
                client.list_operations(ListOperationsRequest::default()).await.ok()?.into_inner().operations;
            Some(operations.iter().map(|it| it.name.trim_start_matches("operations/").to_owned()).collect())
        })
    })
}

/// Completes the names of sets of shipped skills.
pub(crate) fn skill_sets() -> ArgValueCandidates {
    ArgValueCandidates::new(|| {
        #[cfg(feature = "worker")]
        let names = openskill_worker::shipped::SETS.iter().map(|it| it.name);
        #[cfg(not(feature = "worker"))]
        let names = std::iter::empty::<&str>();
        names.map(CompletionCandidate::new).collect()
    })
}

/// Completes what `list` finds. `client`: the settings with which it connects.
fn candidates(
    client: fn(&Settings) -> Settings,
    list: impl AsyncFnOnce(Channel) -> Option<Vec<String>>,
) -> Vec<CompletionCandidate> {
    let ids = tokio::runtime::Builder::new_current_thread().enable_all().build().ok().and_then(|runtime| {
        runtime.block_on(async {
            let asked = async {
                let settings = client(&settings()?);
                list(connect(&settings, TIMEOUT).await.ok()?).await
            };
            tokio::time::timeout(TIMEOUT, asked).await.ok()?
        })
    });
    ids.unwrap_or_default().into_iter().filter(|id| is_harmless(id)).map(CompletionCandidate::new).collect()
}

/// Resolves the settings with the flags of the command line under completion.
fn settings() -> Option<Settings> {
    let flag = |key: &str| {
        let flag = format!("--{}", key.replace('_', "-"));
        std::env::args().skip_while(|it| *it != flag).nth(1).filter(|it| !it.is_empty())
    };
    let names = contexts::KEYS.into_iter().chain([("context", "OPENSKILL_CONTEXT")]);
    let flags = names.filter_map(|(key, setting)| Some((setting, flag(key)?))).collect();
    let config = flag("config");
    let environment = |name: &str| match &config {
        Some(file) if name == project::VARIABLE => Some(file.into()),
        _ => std::env::var_os(name),
    };
    let mut raw = RawSettings::read(&flags, environment, Path::new("."));
    contexts::apply(&mut raw).ok()?;
    Settings::resolve(&raw).ok()
}

/// Whether an id is free of special shell characters. The shell inserts the id into its command line.
fn is_harmless(id: &str) -> bool {
    !id.is_empty() && !id.starts_with('-') && id.bytes().all(|it| it.is_ascii_alphanumeric() || b"._:@-".contains(&it))
}

/// Prints a script that lets a shell request completions from this program.
pub(crate) fn print_script(shell: Shell) -> Result<(), Failure> {
    let mut script = Vec::new();
    if let Some(completer) = Shells::builtins().completer(&shell.to_string()) {
        let written = completer.write_registration(VARIABLE, "openskill", "openskill", &own_path(), &mut script);
        written.map_err(Failure::system("writing the script"))?;
    }
    print_out(&String::from_utf8_lossy(&script));
    Ok(())
}

/// Returns the command that the shell runs: the bare name if the program is on the `PATH`, otherwise the path it
/// was started with.
fn own_path() -> String {
    let name = program();
    let file = Path::new(&name).components().nth(1).and_then(|_| std::env::current_exe().ok());
    file.map_or_else(|| "openskill".to_owned(), |it| it.to_string_lossy().into_owned())
}

#[cfg(test)]
mod tests {
    use super::is_harmless;

    #[test]
    fn what_a_shell_would_run_is_no_candidate() {
        for id in ["echo", "worker-1", "deepsearch__Extract", "host.example-4242"] {
            assert!(is_harmless(id), "{id}");
        }
        for id in ["", "$(reboot)", "a;b", "a b", "-rf", "`x`", "a\u{202e}b"] {
            assert!(!is_harmless(id), "{id}");
        }
    }
}
