//! openskill beside what it is made of and what it replaces: throughput, latency, processor time and memory, in one run on
//! one machine. `make bench`; `docs/performance.md` says what is measured and how to read it.
//!
//! - [`contenders`], [`place`], [`stage`]: who is measured, and the processes that belong to them
//! - [`caller`], [`load`], [`usage`]: what calls them and what is looked at meanwhile
//! - [`memory`], [`growth`], [`rounds`]: the parts
//! - [`bare`], [`sink`]: what this binary is when it is started again
//! - [`verdict`], [`report`], [`plot`], [`save`]: what is told of it

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stderr, clippy::print_stdout)]

mod bare;
mod caller;
mod child;
mod contenders;
mod growth;
mod load;
mod machine;
mod median;
mod memory;
mod place;
mod plot;
mod report;
mod rounds;
mod save;
mod settings;
mod sink;
mod stage;
mod usage;
mod verdict;

use std::process::ExitCode;
use std::time::Instant;

use openskill_tests::interrupt::interrupted;

use contenders::Contender;
use report::Found;
use settings::{Settings, USAGE};

/// As openskill has it, so that what is compared is not the allocator.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let name = arguments.first().map(String::as_str).unwrap_or_default();
    if matches!(name, "bare-server" | "bare-forwarder" | "otlp-sink") {
        return serve(name, &arguments);
    }
    match Settings::read(arguments.into_iter()) {
        Ok(settings) => bench(&settings),
        Err(reason) => {
            eprintln!("{reason}\n{USAGE}");
            ExitCode::from(2)
        }
    }
}

/// What this binary is as a contender.
fn serve(name: &str, arguments: &[String]) -> ExitCode {
    let option = |name: &str| {
        let index = arguments.iter().position(|it| it == name)?;
        arguments.get(index + 1).map(String::as_str)
    };
    let listen = option("--listen").unwrap_or("127.0.0.1:0");
    let runtime = bare::runtime(option("--flavour").unwrap_or("current")).expect("a runtime starts");
    let ended = match name {
        "otlp-sink" => runtime.block_on(sink::serve(listen)),
        _ => runtime.block_on(bare::serve(listen, option("--to"))),
    };
    if let Err(error) = &ended {
        eprintln!("{name}: {error}");
    }
    if ended.is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn bench(settings: &Settings) -> ExitCode {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime starts");
    let ended = runtime.block_on(async {
        tokio::select! {
            found = run(settings) => Some(found),
            () = interrupted() => None,
        }
    });
    // With its tasks go the processes they started.
    drop(runtime);
    match ended {
        Some(found) => {
            let text = report::text(&found);
            println!("{text}");
            let saved = settings.save.as_ref().map_or(Ok(()), |folder| save::write(folder, &found, &text));
            if let Err(error) = &saved {
                eprintln!("not saved: {error}");
            }
            if saved.is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
        }
        None => {
            eprintln!("interrupted: everything that was started is ended");
            ExitCode::from(130)
        }
    }
}

async fn run(settings: &Settings) -> Found {
    let until = Instant::now() + settings.budget;
    let pythons = settings.pythons.clone();
    let wanted = |it: &Contender| settings.wants(it.id) && (pythons.hosts.is_some() || !it.place.needs_packages());
    let contenders: Vec<_> = contenders::all().into_iter().filter(wanted).collect();
    let mut found = Found { contenders, about: machine::describe(settings), ..Found::default() };
    // Throughput comes last: it takes what time there is.
    if settings.has_part("memory") {
        found.memory = memory::run(&found.contenders, &pythons).await;
    }
    if settings.has_part("growth") {
        found.growth = growth::run(settings.seconds).await;
    }
    if settings.has_part("throughput") {
        found.throughput = rounds::run(settings, &pythons, &found.contenders, until).await;
    }
    found
}
