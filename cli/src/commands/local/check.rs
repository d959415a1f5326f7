//! `openskill check`.

use std::process::ExitCode;

use openskill_worker::check::{CheckError, Findings};
use openskill_worker::manifest::How;

use crate::args::Check;
use crate::commands::runtime::block_on;
use crate::exit::{FAILED, Failure};
use crate::serve;
use crate::settings::{Raw, Settings};
use crate::terminal::{complain, say};

pub(super) fn run(args: &Check, settings: &Settings, raw: &Raw) -> Result<ExitCode, Failure> {
    let mut config = serve::worker::config(settings, raw)?;
    config.packages.progress = |step| complain(&format!("{step}\n"));
    block_on(async {
        let findings = match openskill_worker::check::check(config, args.skill_id.as_deref()).await {
            Ok(findings) => findings,
            Err(error @ CheckError::NotFound { .. }) => return Err(Failure::Usage(error.to_string())),
            Err(CheckError::System(source)) => {
                return Err(Failure::System { what: "setting up the sandbox".to_owned(), source });
            }
            Err(error @ CheckError::BadManifest(_)) => {
                complain(&format!("{error}\n"));
                return Ok(ExitCode::from(FAILED));
            }
        };
        if findings.is_empty() {
            let folders: Vec<_> = settings.worker.skill_dirs.iter().map(|it| it.display().to_string()).collect();
            complain(&format!("no skills in {}: `openskill new ID` creates one\n", folders.join(", ")));
            return Ok(ExitCode::from(FAILED));
        }
        let failed = findings.iter().filter(|it| !show(it)).count();
        Ok(if failed == 0 { ExitCode::SUCCESS } else { ExitCode::from(FAILED) })
    })
}

/// Prints the findings of one skill, and returns whether it passed.
fn show(findings: &Findings) -> bool {
    let manifest = &findings.manifest;
    let runner = if manifest.runner.is_empty() { "no runner" } else { &manifest.runner };
    say(&format!("{} {} ({runner})\n  ok    manifest\n", manifest.id, manifest.version));
    if let Some(reason) = findings.switched_off() {
        say(&format!("  note  unavailable: {reason}\n"));
        return true;
    }
    if let Err(reason) = &findings.runner {
        say(&format!("  FAIL  cannot run here: {}\n", reason.replace('\n', "\n        ")));
        return false;
    }
    if matches!(&manifest.how, How::Python(python) if !python.needs.is_nothing()) {
        say("  ok    environment\n");
    }
    for (name, outcome) in &findings.examples {
        match outcome {
            Ok(()) => say(&format!("  ok    example: {name}\n")),
            Err(reason) => say(&format!("  FAIL  example: {name}\n        {}\n", reason.replace('\n', "\n        "))),
        }
    }
    if findings.examples.is_empty() {
        say("  note  no examples: the skill was not run\n");
    }
    for reason in &findings.not_warm {
        say(&format!("  note  not warm: {reason}\n"));
    }
    findings.examples.iter().all(|(_, outcome)| outcome.is_ok())
}
