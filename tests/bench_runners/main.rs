//! What a call costs on each runner: calls per second and latencies through gateway and worker, in one run on one machine.
//! `make bench-runners`.
//!
//! - [`contenders`]: the skills, the same small task for each
//! - [`mod@measure`]: a closed loop of so many callers

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stderr, clippy::print_stdout)]

mod contenders;
mod measure;

use std::time::Duration;

use openskill_tests::folder::Folder;
use openskill_tests::system::Setup;

use contenders::{Contender, Field};
use measure::{Figures, measure};

/// Callers at once.
const IN_FLIGHT: [usize; 3] = [1, 8, 32];

#[tokio::main]
async fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let seconds = option(&arguments, "--seconds").and_then(|it| it.parse().ok()).unwrap_or(5.0);
    let only = option(&arguments, "--only");
    let python = std::env::var("OPENSKILL_PYTHON").unwrap_or_else(|_| "python3".to_owned());
    let folder = Folder::new();
    let field = Field::write(&folder).await;
    let skills = folder.path().display().to_string();
    let system = Setup::command(&["up", "--listen", "127.0.0.1:0", "--workers", "1", "--skills-dir", &skills])
        .at_its_own_pace()
        // As many as are in flight at most: what is measured is the runners, not the wait for a place.
        .with("OPENSKILL_WORKER_CONCURRENCY", 32)
        .with("OPENSKILL_LOG", "warn")
        .with("OPENSKILL_PYTHON", &python)
        .start()
        .await;
    println!("Python: {python}; seconds each: {seconds}\n");
    println!("| runner | jail | calls/s at 1 | p50 | p99 | at 8 | p50 | p99 | at 32 | p50 | p99 |");
    println!("|---|---|---|---|---|---|---|---|---|---|---|");
    for contender in field.contenders.iter().filter(|it| only.is_none_or(|only| it.skill.contains(only))) {
        match row(&system, contender, Duration::from_secs_f64(seconds)).await {
            Ok(row) => println!("{row}"),
            Err(reason) => println!("| {} | {} | not measured: {reason} |", contender.name, contender.jail),
        }
    }
}

async fn row(
    system: &openskill_tests::system::System,
    contender: &Contender,
    time: Duration,
) -> Result<String, String> {
    // The tools of a server come a moment later than the rest.
    system.has_skill(&contender.skill).await;
    // Once, so that what is kept warm is warm, and to see that it works.
    measure::once(system, contender).await?;
    let mut row = format!("| {} | {} |", contender.name, contender.jail);
    for callers in IN_FLIGHT {
        let Figures { per_second, p50, p99 } = measure(system, contender, callers, time).await?;
        row.push_str(&format!(" {} | {} | {} |", rate(per_second), millis(p50), millis(p99)));
    }
    Ok(row)
}

fn rate(per_second: f64) -> String {
    if per_second < 100.0 { format!("{per_second:.1}") } else { format!("{per_second:.0}") }
}

fn millis(time: Duration) -> String {
    format!("{:.2} ms", time.as_secs_f64() * 1000.0)
}

fn option<'a>(arguments: &'a [String], name: &str) -> Option<&'a str> {
    let index = arguments.iter().position(|it| it == name)?;
    arguments.get(index + 1).map(String::as_str)
}
