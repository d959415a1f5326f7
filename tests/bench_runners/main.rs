//! What a call costs on each runner: calls per second and latencies through gateway and worker, in one run on one machine.
//! `make bench-runners`.
//!
//! - [`settings`]: what was asked for
//! - [`contenders`]: the skills, the same small task for each
//! - [`rounds`]: all of them in turn, again and again; [`mod@measure`]: a closed loop of so many callers
//! - [`report`]: the tables

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stderr, clippy::print_stdout)]

mod contenders;
mod measure;
mod report;
mod rounds;
mod settings;

use std::process::ExitCode;

use openskill_tests::folder::Folder;
use openskill_tests::interrupt::interrupted;
use openskill_tests::system::{Setup, System};

use contenders::{Contender, Field};
use rounds::Stage;
use settings::{Settings, USAGE};

#[tokio::main]
async fn main() -> ExitCode {
    let settings = match Settings::read(std::env::args().skip(1)) {
        Ok(settings) => settings,
        Err(reason) => {
            eprintln!("{reason}\n\n{USAGE}");
            return ExitCode::from(2);
        }
    };
    tokio::select! {
        ended = run(&settings) => match ended {
            Ok(()) => ExitCode::SUCCESS,
            Err(reason) => {
                eprintln!("{reason}");
                ExitCode::FAILURE
            }
        },
        () = interrupted() => {
            eprintln!("interrupted: everything that was started is ended");
            ExitCode::from(130)
        }
    }
}

async fn run(settings: &Settings) -> Result<(), String> {
    let folder = Folder::new();
    let field = Field::write(&folder).await;
    let mut stages = Vec::new();
    for python in &settings.pythons {
        // All of it with the first one.
        let wanted = |it: &&Contender| settings.wants(&it.skill) && (stages.is_empty() || it.is_script());
        let contenders: Vec<_> = field.contenders.iter().filter(wanted).cloned().collect();
        if contenders.is_empty() {
            return Err(format!("there is nothing to measure with {python}: see --only"));
        }
        stages.push(Stage { python: named(python).await?, system: start(&folder, python).await, contenders });
    }
    let found = rounds::run(settings, &stages).await;
    report::print(settings, &stages, &found);
    Ok(())
}

/// An interpreter with its version.
async fn named(python: &str) -> Result<String, String> {
    let program = "import platform; print(platform.python_version())";
    let asked = tokio::process::Command::new(python).args(["-c", program]).output().await;
    let version = asked.map_err(|error| format!("{python} can't be started: {error}"))?.stdout;
    Ok(format!("{} ({python})", String::from_utf8_lossy(&version).trim()))
}

async fn start(folder: &Folder, python: &str) -> System {
    let skills = folder.path().display().to_string();
    Setup::command(&["up", "--listen", "127.0.0.1:0", "--workers", "1", "--skills-dir", &skills])
        .at_its_own_pace()
        // As many as are in flight at most: what is measured is the runners, not the wait for a place.
        .with("OPENSKILL_WORKER_CONCURRENCY", 32)
        .with("OPENSKILL_LOG", "warn")
        .with("OPENSKILL_PYTHON", python)
        .start()
        .await
}
