//! Candidates of shell completion: the ids that the gateway knows now.
//!
//! The shell runs this binary with [`VARIABLE`] set whenever somebody presses Tab. Nothing is completed if no gateway answers.

use std::path::Path;
use std::time::Duration;

use clap_complete::engine::{ArgValueCandidates, CompletionCandidate};
use openskill_proto::limits::MAX_RESULT_BYTES;
use openskill_proto::v1::admin_service_client::AdminServiceClient;
use openskill_proto::v1::skill_service_client::SkillServiceClient;
use openskill_proto::v1::{ListSkillsRequest, ListWorkersRequest, SkillStatus};

use crate::channel::Channel;
use crate::contexts;
use crate::settings::{Raw, Settings, names};

/// The variable that asks for candidates instead of a command. Its value is the shell.
pub(crate) const VARIABLE: &str = "OPENSKILL_COMPLETE";

/// How long a Tab may take.
const PATIENCE: Duration = Duration::from_millis(700);

/// The skills that can be called.
pub(crate) fn skill_ids() -> ArgValueCandidates {
    ArgValueCandidates::new(|| {
        candidates(async |channel| {
            let mut client = SkillServiceClient::new(channel).max_decoding_message_size(3 * MAX_RESULT_BYTES);
            let skills = client.list_skills(ListSkillsRequest::default()).await.ok()?.into_inner().skills;
            let available = skills.into_iter().filter(|it| it.status() == SkillStatus::Available);
            Some(available.map(|it| it.id).collect())
        })
    })
}

/// The workers that the gateway has reached.
pub(crate) fn worker_ids() -> ArgValueCandidates {
    ArgValueCandidates::new(|| {
        candidates(async |channel| {
            let mut client = AdminServiceClient::new(channel);
            let workers = client.list_workers(ListWorkersRequest {}).await.ok()?.into_inner().workers;
            Some(workers.into_iter().map(|it| it.worker_id).collect())
        })
    })
}

fn candidates(list: impl AsyncFnOnce(Channel) -> Option<Vec<String>>) -> Vec<CompletionCandidate> {
    let ids = tokio::runtime::Builder::new_current_thread().enable_all().build().ok().and_then(|runtime| {
        runtime.block_on(async {
            let asked = async {
                let settings = settings()?;
                list(Channel::connect(&settings, PATIENCE).await.ok()?).await
            };
            tokio::time::timeout(PATIENCE, asked).await.ok()?
        })
    });
    ids.unwrap_or_default().into_iter().filter(|id| is_harmless(id)).map(CompletionCandidate::new).collect()
}

/// The settings, with the flags of the command line that is being completed.
fn settings() -> Option<Settings> {
    let flag = |flag: &str| std::env::args().skip_while(|it| it != flag).nth(1).filter(|it| !it.is_empty());
    let names = [
        ("--url", names::HTTP_BASE_URL),
        ("--context", names::CONTEXT),
        ("--token", names::TOKEN),
        ("--token-file", names::TOKEN_FILE),
        ("--ca", names::CA),
        ("--cert", names::CLIENT_CERT),
        ("--key", names::CLIENT_KEY),
    ];
    let flags = names.into_iter().filter_map(|(name, setting)| Some((setting, flag(name)?))).collect();
    let mut raw = Raw::read(&flags, |name| std::env::var_os(name), Path::new("."));
    contexts::apply(&mut raw).ok()?;
    Settings::resolve(&raw).ok()
}

/// A shell puts candidates into its command line: none may mean anything there.
fn is_harmless(id: &str) -> bool {
    !id.is_empty() && !id.starts_with('-') && id.bytes().all(|it| it.is_ascii_alphanumeric() || b"._:@-".contains(&it))
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
