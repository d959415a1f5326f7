//! What was found, as tables.

use std::time::Duration;

use crate::contenders::{WAYS, bare};
use crate::measure::Figures;
use crate::rounds::{Found, IN_FLIGHT, LONG, LONG_ROUNDS, Stage};
use crate::settings::Settings;

pub(crate) fn print(settings: &Settings, stages: &[Stage], found: &Found) {
    let seconds = settings.time.as_secs_f64();
    println!("Medians of {} rounds, {seconds} s a cell in each.", settings.rounds);
    println!("Of {LONG_ROUNDS} rounds where calls are so long that a cell takes {LONG} times as long.");
    println!("p99: where a cell has fewer than a hundred calls, its slowest.");
    for (index, stage) in stages.iter().enumerate() {
        println!("\nPython: {}\n", stage.python);
        costs(index, stage, found);
        ratios(index, found);
    }
}

fn costs(index: usize, stage: &Stage, found: &Found) {
    println!("| runner | jail | calls/s at 1 | p50 | p99 | at 8 | p50 | p99 | at 32 | p50 | p99 |");
    println!("|---|---|---|---|---|---|---|---|---|---|---|");
    for contender in &stage.contenders {
        let cells = IN_FLIGHT.map(|callers| found.get(index, &contender.skill, callers));
        let cells = cells.map(|cell| cell.map_or_else(|reason| format!("{reason} | - | -"), |it| text(&it)));
        println!("| {} | {} | {} |", contender.name, contender.jail, cells.join(" | "));
    }
}

fn text(figures: &Figures) -> String {
    format!("{} | {} | {}", rate(figures.per_second), millis(figures.p50), millis(figures.p99))
}

/// How many times as quick as a fresh interpreter the warm ones are.
fn ratios(index: usize, found: &Found) {
    let mut lines = Vec::new();
    let [(fresh, _), warm @ ..] = WAYS;
    for (way, name) in warm {
        for (jail, skill, fresh) in [("on", way.to_owned(), fresh.to_owned()), ("off", bare(way), bare(fresh))] {
            let per_second = |skill: &str, callers| Some(found.get(index, skill, callers).ok()?.per_second);
            let ratio = |callers| Some(format!("{:.1}", per_second(&skill, callers)? / per_second(&fresh, callers)?));
            if let [Some(one), Some(eight), Some(many)] = IN_FLIGHT.map(ratio) {
                lines.push(format!("| {name} | {jail} | {one} | {eight} | {many} |"));
            }
        }
    }
    if !lines.is_empty() {
        println!(
            "\n| times a fresh interpreter | jail | at 1 | at 8 | at 32 |\n|---|---|---|---|---|\n{}",
            lines.join("\n")
        );
    }
}

fn rate(per_second: f64) -> String {
    if per_second < 100.0 { format!("{per_second:.1}") } else { format!("{per_second:.0}") }
}

fn millis(time: Duration) -> String {
    format!("{:.2} ms", time.as_secs_f64() * 1000.0)
}
