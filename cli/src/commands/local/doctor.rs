//! `openskill doctor`: reports what this machine supports and what skills require.

use std::process::ExitCode;

use openskill_worker::doctor::{Examination, Finding, Status, examine};
use serde_json::{Value, json};

mod gateway;

use crate::args::DoctorArgs;
use crate::commands::runtime::block_on;
use crate::exit::{FAILED, Failure};
use crate::serve;
use crate::settings::{RawSettings, Settings};
use crate::terminal::{print_out, print_value};

pub(super) fn run(args: &DoctorArgs, settings: &Settings, raw: &RawSettings) -> Result<ExitCode, Failure> {
    let config = serve::worker::config(settings, raw)?;
    block_on(async {
        let mut found = examine(config).await.map_err(Failure::system("setting up the sandbox"))?;
        found.machine.extend(gateway::certificate(settings).await);
        if args.json {
            print_value(&to_json(&found));
        } else {
            show(&found);
        }
        Ok(if found.is_good() { ExitCode::SUCCESS } else { ExitCode::from(FAILED) })
    })
}

fn show(found: &Examination) {
    let line = |it: &Finding| {
        print_out(&format!("{:<5} {:<13} {}\n", it.status.word(), it.topic, it.text.replace('\n', " ")));
    };
    found.machine.iter().for_each(line);
    let (good, rest): (Vec<_>, Vec<_>) = found.skills.iter().partition(|it| it.status == Status::Ok);
    let (available, unavailable, good) = (found.available, found.unavailable, good.len());
    print_out(&format!(
        "{:<5} {:<13} {available} available, {unavailable} unavailable; {good} meet all requirements of their manifests\n",
        "ok", "skills"
    ));
    rest.into_iter().for_each(line);
}

fn to_json(found: &Examination) -> Value {
    let list = |findings: &[Finding]| {
        let one = |it: &Finding| json!({ "topic": it.topic, "status": it.status.word(), "text": it.text });
        findings.iter().map(one).collect::<Vec<_>>()
    };
    json!({ "good": found.is_good(), "machine": list(&found.machine), "skills": list(&found.skills),
        "available": found.available, "unavailable": found.unavailable })
}
