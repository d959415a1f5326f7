//! `openskill check`: validates skills and runs their examples. `openskill pin`: pins the tools of an MCP server.

use openskill_worker::check::{CheckError, CheckReport, Findings, PinError};
use openskill_worker::manifest::RunnerSpec;

use crate::args::{CheckArgs, PinArgs};
use crate::exit::Failure;
use crate::runtime::block_on;
use crate::serve;
use crate::settings::{RawSettings, Settings};
use crate::terminal::{pluralize, print_err, print_out};

pub(super) fn run(args: &CheckArgs, settings: &Settings, raw: &RawSettings) -> Result<(), Failure> {
    let mut config = serve::worker::config(settings, raw)?;
    config.packages.progress = |step| print_err(&format!("{step}\n"));
    block_on(async {
        let checked = openskill_worker::check::check(config, args.skill_id.as_deref()).await;
        let CheckReport { skills, invalid } = checked.map_err(|error| match error {
            CheckError::NotFound { .. } => Failure::Usage(error.to_string()),
            CheckError::System(source) => Failure::system("setting up the sandbox")(source),
        })?;
        if skills.is_empty() && invalid.is_empty() {
            let folders = &settings.worker.config.skill_dirs;
            let folders: Vec<_> = folders.iter().map(|it| it.display().to_string()).collect();
            let reason = format!("no skills in {}: `openskill new ID` creates one", folders.join(", "));
            return Err(Failure::printed(&reason));
        }
        let failed = skills.iter().filter(|it| !show(it)).count();
        invalid.iter().for_each(|error| print_err(&format!("{error}\n")));
        if failed == 0 && invalid.is_empty() { Ok(()) } else { Err(Failure::Reported) }
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
    for (name, missing) in &findings.skipped {
        print_out(&format!("  note  example not run, because {} is missing: {name}\n", missing.display()));
    }
    if findings.examples.is_empty() {
        print_out("  note  no examples: the skill was not run\n");
    }
    for reason in &findings.not_warm {
        print_out(&format!("  note  not warm: {reason}\n"));
    }
    findings.examples.iter().all(|(_, outcome)| outcome.is_ok())
}

/// Pins the current tools of an MCP server.
pub(super) fn pin(args: &PinArgs, settings: &Settings, raw: &RawSettings) -> Result<(), Failure> {
    let config = serve::worker::config(settings, raw)?;
    block_on(async {
        let pinned = openskill_worker::check::pin(config, &args.server).await;
        let (file, tools) = pinned.map_err(|error| match error {
            PinError::NotFound { .. } => Failure::Usage(error.to_string()),
            PinError::System(source) => Failure::system("setting up the sandbox")(source),
            error => Failure::printed(&error),
        })?;
        let tools = pluralize(tools, "tool");
        print_out(&format!("pinned {tools} of {} in {}\n", args.server, file.display()));
        Ok(())
    })
}
