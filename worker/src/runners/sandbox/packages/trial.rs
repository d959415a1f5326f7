//! Tries whether packages can be imported, in a jailed process that ends with the trial.

use std::collections::BTreeMap;
use std::sync::Arc;

use openskill_proto::v1::{ErrorCode, SkillError};
use serde_json::json;

use super::jailed::{Jails, Step};
use super::record::{FILES, Found, Wheel};
use super::work::Work;
use crate::environment::path_text;
use crate::manifest::{Manifest, Network};
use crate::runners::python::environments::reason::clean;
use crate::runners::python::environments::store::Store;
use crate::runners::python::interpreter::Interpreter;

/// The program of the process.
const PROGRAM: &str = include_str!("trial.py");

/// How long the import of one package may take.
const SECONDS: u64 = 30;

/// The largest file that an import may write, in bytes.
const MAX_FILE_BYTES: u64 = 64 * 1024 * 1024;

/// Imports each of these wheels, with all of them to be found.
///
/// # Errors
/// The process could not be run.
pub(super) async fn tried(
    jails: &Jails,
    (interpreter, limits_of): (&Interpreter, &Manifest),
    (store, wheels): (&Store, &[Wheel]),
    work: &Arc<Work>,
) -> Result<Vec<Found>, SkillError> {
    let folders: Vec<_> = wheels.iter().map(|it| store.path().join(&it.sha256).join(FILES)).collect();
    let packages: Vec<_> = wheels.iter().map(|it| json!({"name": it.name, "modules": it.tried()})).collect();
    let step = Step {
        interpreter,
        limits_of,
        args: ["-I", "-B", "-c", PROGRAM].map(str::to_owned).into(),
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
    // Memory that runs out is a reason too.
    let told = match jails.run(step, vec![Arc::clone(work)]).await {
        Ok(finished) => serde_json::from_slice::<BTreeMap<String, Option<String>>>(&finished.stdout).ok(),
        Err(error) if error.code() == ErrorCode::ExecutionError => None,
        Err(error) => return Err(error),
    };
    let told = told.unwrap_or_default();
    let hidden = path_text(store.path());
    let fault = |wheel: &Wheel| match told.get(&wheel.name) {
        Some(None) => None,
        Some(Some(reason)) => Some(clean(reason, &[&hidden])),
        None => Some("its import ended the process that tried it".to_owned()),
    };
    Ok(wheels.iter().map(|it| Found { sha256: it.sha256.clone(), fault: fault(it) }).collect())
}
