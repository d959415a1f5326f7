//! Imports packages as a trial, in a jailed process that ends afterwards.

use std::collections::BTreeMap;
use std::sync::Arc;

use openskill_proto::v1::{ErrorCode, SkillError};
use openskill_sandbox::jail::Network;
use serde_json::json;

use super::jailed::{JailedInterpreter, JailedStep, Jails};
use super::record::{FILES, ImportOutcome, Wheel};
use super::work::Work;
use crate::environment::path_text;
use crate::runners::python::environments::reason::clean;
use crate::runners::python::environments::store::Store;

/// The source of the trial's program.
const PROGRAM: &str = include_str!("trial.py");

/// The timeout for importing one package, in seconds.
const SECONDS: u64 = 30;

/// The maximum size of a file that an import writes, in bytes.
const MAX_FILE_BYTES: u64 = 64 * 1024 * 1024;

/// Imports each of these wheels as a trial, with all others available.
///
/// # Errors
/// Fails if the process could not run.
pub(super) async fn try_imports(
    jails: &Jails,
    python: JailedInterpreter<'_>,
    store: &Store,
    wheels: &[Wheel],
    work: &Arc<Work>,
) -> Result<Vec<ImportOutcome>, SkillError> {
    let folders: Vec<_> = wheels.iter().map(|it| store.path().join(&it.sha256).join(FILES)).collect();
    let packages: Vec<_> = wheels.iter().map(|it| json!({"name": it.name, "modules": it.trial_modules()})).collect();
    let step = JailedStep {
        python,
        program: PROGRAM,
        args: Vec::new(),
        input: json!({
            "paths": folders.iter().map(|it| path_text(it)).collect::<Vec<_>>(),
            "packages": packages,
            "seconds": SECONDS,
        }),
        env: [("MPLBACKEND".to_owned(), "Agg".to_owned())].into(),
        readable: folders.clone(),
        writable: None,
        network: Network::None,
        most_file_bytes: MAX_FILE_BYTES,
    };
    // Running out of memory also counts as a failed import.
    let faults = match jails.run(step, vec![Arc::clone(work)]).await {
        Ok(finished) => serde_json::from_slice::<BTreeMap<String, Option<String>>>(&finished.stdout).ok(),
        Err(error) if error.code() == ErrorCode::ExecutionError => None,
        Err(error) => return Err(error),
    };
    let faults = faults.unwrap_or_default();
    let hidden = path_text(store.path());
    let fault = |wheel: &Wheel| match faults.get(&wheel.name) {
        Some(None) => None,
        Some(Some(reason)) => Some(clean(reason, &[&hidden])),
        None => Some("its import ended the process that tried it".to_owned()),
    };
    Ok(wheels.iter().map(|it| ImportOutcome { sha256: it.sha256.clone(), fault: fault(it) }).collect())
}
