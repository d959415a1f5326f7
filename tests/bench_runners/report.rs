//! What was found, as tables.

use std::time::Duration;

use crate::measure::Figures;
use crate::rounds::{Found, IN_FLIGHT, Stage};
use crate::settings::Settings;

/// What a fresh interpreter is compared with.
const WARM: [(&str, &str); 2] = [("fork", "warm fork"), ("shared", "shared interpreter")];

pub(crate) fn print(settings: &Settings, stages: &[Stage], found: &Found) {
    let seconds = settings.time.as_secs_f64();
    println!("Medians of {} rounds, {seconds} s a cell in each.", settings.rounds);
    for (index, stage) in stages.iter().enumerate() {
        println!("\nPython: {}\n", stage.python);
        costs(index, stage, found);
        ratios(index, stage, found);
    }
}

fn costs(index: usize, stage: &Stage, found: &Found) {
    println!("| runner | jail | calls/s at 1 | p50 | p99 | at 8 | p50 | p99 | at 32 | p50 | p99 |");
    println!("|---|---|---|---|---|---|---|---|---|---|---|");
    for contender in &stage.contenders {
        let cells = IN_FLIGHT.map(|callers| found.get(index, &contender.skill, callers));
        let cells =
            cells.map(|cell| cell.map_or_else(|reason| format!("not measured: {reason} |  | "), |it| text(&it)));
        println!("| {} | {} | {} |", contender.name, contender.jail, cells.join(" | "));
    }
}

fn text(figures: &Figures) -> String {
    format!("{} | {} | {}", rate(figures.per_second), millis(figures.p50), millis(figures.p99))
}

/// How many times as quick as a fresh interpreter the warm ones are.
fn ratios(index: usize, stage: &Stage, found: &Found) {
    let mut lines = Vec::new();
    for (skill, name) in WARM {
        for (jail, suffix) in [("on", ""), ("off", "_bare")] {
            let per_second = |skill: &str, callers| Some(found.get(index, skill, callers).ok()?.per_second);
            let ratio = |callers| {
                let fresh = per_second(&format!("process{suffix}"), callers)?;
                Some(format!("{:.1}", per_second(&format!("{skill}{suffix}"), callers)? / fresh))
            };
            if let [Some(one), Some(eight), Some(many)] = IN_FLIGHT.map(ratio) {
                lines.push(format!("| {name} | {jail} | {one} | {eight} | {many} |"));
            }
        }
    }
    if !lines.is_empty() && !stage.contenders.is_empty() {
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
