//! Benchmarks of the built binary over the wire: throughput, latency, processor time and memory, everything in one run on
//! one machine. `make bench` compares openskill with what a user would choose instead, `make bench-runners` compares its
//! runners with each other, `make bench-mcp` its MCP face with other servers, and `--before PATH` two builds of openskill.
//!
//! - [`settings`]: the command line
//! - [`agent`]: conversations beside plain calls; [`operations`]: stored calls beside plain ones
//! - [`rows`]: what is measured; [`site`], [`hosts`], [`child`]: the processes that serve it
//! - [`caller`], [`load`], [`usage`]: the load generator and what it observes
//! - [`rounds`], [`report`]: the order of measurements, and the tables
//! - [`startup`]: how soon a server on stdio answers
//! - [`forwarder`]: tonic alone, which this binary becomes when it is started again

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stderr, clippy::print_stdout)]

mod agent;
mod caller;
mod child;
mod forwarder;
mod hosts;
mod load;
mod operations;
mod report;
mod rounds;
mod rows;
mod settings;
mod site;
mod startup;
mod usage;

use std::process::ExitCode;

use clap::Parser as _;
use openskill_tests::interrupt::interrupted;

use rounds::Entry;
use settings::{Cli, Command, Settings};

/// The allocator of openskill, so that allocators are not what is compared.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let ended = match Cli::parse().command {
        Command::Calls(settings) => bench(settings, Suite::Calls),
        Command::Runners(settings) => bench(settings, Suite::Runners),
        Command::Mcp(settings) => bench(settings, Suite::Mcp),
        Command::Agent(settings) => {
            agent::run(&settings);
            Ok(ExitCode::SUCCESS)
        }
        Command::Operations(settings) => operations::run(&settings).map(|()| ExitCode::SUCCESS),
        Command::Forwarder(settings) => forwarder::run(&settings).map(|()| ExitCode::SUCCESS),
    };
    ended.unwrap_or_else(|reason| {
        eprintln!("{reason}");
        ExitCode::FAILURE
    })
}

/// Which rows are measured.
#[derive(Clone, Copy)]
enum Suite {
    Calls,
    Runners,
    Mcp,
}

fn bench(settings: Settings, suite: Suite) -> Result<ExitCode, String> {
    let settings = settings.resolve();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime starts");
    let ended = runtime.block_on(async {
        tokio::select! {
            ended = run(&settings, suite) => Some(ended),
            () = interrupted() => None,
        }
    });
    // The processes that tasks started end with them.
    drop(runtime);
    match ended {
        Some(ended) => ended.map(|()| ExitCode::SUCCESS),
        None => {
            eprintln!("interrupted");
            Ok(ExitCode::from(130))
        }
    }
}

async fn run(settings: &Settings, suite: Suite) -> Result<(), String> {
    let (rows, all) = match suite {
        Suite::Calls => (rows::calls(settings), &rows::CALLS_IN_FLIGHT[..]),
        Suite::Runners => (rows::runners().await, &rows::RUNNERS_IN_FLIGHT[..]),
        Suite::Mcp => (rows::mcp(), &rows::MCP_IN_FLIGHT[..]),
    };
    let in_flight = if settings.in_flight.is_empty() { all } else { &settings.in_flight };
    let mut entries = Entry::of_rows(&rows.all, settings);
    let has_startup = matches!(suite, Suite::Mcp) && settings.wants(startup::ID);
    if entries.is_empty() && !has_startup {
        return Err("--only names no row".to_owned());
    }
    if !settings.no_memory {
        rounds::memory(&mut entries, settings).await;
    }
    rounds::throughput(&mut entries, in_flight, settings).await;
    println!("{}", report::text(&entries, in_flight, settings));
    if has_startup {
        println!("{}", startup::text(settings).await?);
    }
    Ok(())
}
