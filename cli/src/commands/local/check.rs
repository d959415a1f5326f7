//! `openskill check`: validates skills and runs their examples.

use std::process::ExitCode;

use openskill_worker::check::{CheckError, Findings};
use openskill_worker::manifest::RunnerSpec;

use crate::args::CheckArgs;
use crate::commands::runtime::block_on;
use crate::exit::{FAILED, Failure};
use crate::serve;
use crate::settings::{RawSettings, Settings};
use crate::terminal::{print_err, print_out};

pub(super) fn run(args: &CheckArgs, settings: &Settings, raw: &RawSettings) -> Result<ExitCode, Failure> {
    let mut config = serve::worker::config(settings, raw)?;
    config.packages.progress = |step| print_err(&format!("{step}\n"));
    block_on(async {
        let findings = match openskill_worker::check::check(config, args.skill_id.as_deref()).await {
            Ok(findings) => findings,
            Err(error @ CheckError::NotFound { .. }) => return Err(Failure::Usage(error.to_string())),
            Err(CheckError::System(source)) => {
                return Err(Failure::System { what: "setting up the sandbox".to_owned(), source });
            }
            Err(error @ CheckError::BadManifest(_)) => {
                print_err(&format!("{error}\n"));
                return Ok(ExitCode::from(FAILED));
            }
        };
        if findings.is_empty() {
            let folders: Vec<_> = settings.worker.skill_dirs.iter().map(|it| it.display().to_string()).collect();
            print_err(&format!("no skills in {}: `openskill new ID` creates one\n", folders.join(", ")));
            return Ok(ExitCode::from(FAILED));
        }
        let failed = findings.iter().filter(|it| !show(it)).count();
        Ok(if failed == 0 { ExitCode::SUCCESS } else { ExitCode::from(FAILED) })
    })
}

/// Prints the findings of one skill. Returns whether the skill passed.
fn show(findings: &Findings) -> bool {
    let manifest = &findings.manifest;
    let runner = if manifest.runner.is_empty() { "no runner" } else { &manifest.runner };
    print_out(&format!("{} {} ({runner})\n  ok    manifest\n", manifest.id, manifest.version));
    if let Some(reason) = findings.switched_off() {
        print_out(&format!("  note  unavailable: {reason}\n"));
        return true;
    }
    if let Err(reason) = &findings.runner {
        print_out(&format!("  FAIL  cannot run on this machine: {}\n", reason.replace('\n', "\n        ")));
        return false;
    }
    if matches!(&manifest.how, RunnerSpec::Python(python) if !python.needs.is_nothing()) {
        print_out("  ok    environment\n");
    }
    for (name, outcome) in &findings.examples {
        match outcome {
            Ok(()) => print_out(&format!("  ok    example: {name}\n")),
            Err(reason) => {
                print_out(&format!("  FAIL  example: {name}\n        {}\n", reason.replace('\n', "\n        ")))
            }
        }
    }
    if findings.examples.is_empty() {
        print_out("  note  no examples: the skill was not run\n");
    }
    for reason in &findings.not_warm {
        print_out(&format!("  note  not warm: {reason}\n"));
    }
    findings.examples.iter().all(|(_, outcome)| outcome.is_ok())
}
