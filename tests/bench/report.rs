//! What was found, as Markdown.

use std::time::Duration;

use crate::contenders::Contender;
use crate::growth::{Axis, Line, Point};
use crate::memory::Part;
use crate::rounds::Throughput;
use crate::settings::IN_FLIGHT;
use crate::usage::Memory;
use crate::verdict::{self, Claim};

/// With fewer, one spoilt round makes a figure.
const FULL_ROUNDS: usize = 5;

/// Everything.
#[derive(Default)]
pub(crate) struct Found {
    pub(crate) about: Vec<(&'static str, String)>,
    pub(crate) contenders: Vec<Contender>,
    pub(crate) memory: Vec<Part>,
    pub(crate) growth: Vec<Line>,
    pub(crate) throughput: Throughput,
}

pub(crate) fn text(found: &Found) -> String {
    let about: String = found.about.iter().map(|(what, value)| format!("| {what} | {value} |\n")).collect();
    let mut text = format!("# What `make bench` measured\n\n| | |\n|---|---|\n{about}");
    let mut claims = verdict::of_throughput(&found.throughput);
    claims.extend(verdict::of_memory(&found.memory));
    claims.extend(verdict::of_growth(&found.growth));
    if (1..FULL_ROUNDS).contains(&found.throughput.rounds) {
        text.push_str("\nA short run, to see that everything works: no figures to keep.\n");
    }
    text.push_str(&verdicts(&claims));
    if !found.throughput.is_empty() {
        text.push_str(&throughput(&found.contenders, &found.throughput));
    }
    if !found.memory.is_empty() {
        text.push_str(&memory(&found.memory));
    }
    if !found.growth.is_empty() {
        text.push_str(&growth(&found.growth));
    }
    text
}

fn verdicts(claims: &[Claim]) -> String {
    let mut text = "\n## What it has to show\n\n| what | figure | |\n|---|---|---|\n".to_owned();
    for Claim { claim, figure, held } in claims {
        text.push_str(&format!("| {claim} | {figure} | {held} |\n"));
    }
    text
}

/// A table for each number of callers.
fn throughput(contenders: &[Contender], found: &Throughput) -> String {
    let (rounds, seconds) = (found.rounds, found.seconds);
    let mut text = format!(
        "\n## Calls\n\nRounds: {rounds}, of which these are medians; at least {seconds:.2} s measured in each.\n"
    );
    for callers in IN_FLIGHT {
        text.push_str(&format!("\n### {callers} in flight\n\n"));
        text.push_str("| | calls/s | p50 | p99 | CPU per call |\n|---|---:|---:|---:|---:|\n");
        for contender in contenders {
            let key = (contender.id, callers);
            let figures = match found.get(key) {
                Ok(cell) => {
                    let cut = if found.was_cut(key) { "> " } else { "" };
                    let (p50, p99) = (time(cell.p50), time(cell.p99));
                    let refused = if cell.refused > 0.005 {
                        format!(" ({:.2} refusals each)", cell.refused)
                    } else {
                        String::new()
                    };
                    format!("{}{refused} | {cut}{p50} | {cut}{p99} | {}", rate(cell.per_second), time(cell.cpu))
                }
                Err(reason) => format!("{} | | | ", cut(&reason)),
            };
            text.push_str(&format!("| {} | {figures} |\n", contender.what));
        }
    }
    text
}

fn memory(parts: &[Part]) -> String {
    let mut text =
        "\n## Memory\n\nIn MiB, each alone on the machine; under load: 256 calls in flight, if the row says no other. \
                    PSS counts shared pages by share, RSS in full.\n\n\
                    | | processes | PSS at rest | RSS at rest | PSS under load | RSS under load |\n\
                    |---|---|---:|---:|---:|---:|\n"
            .to_owned();
    let figures = |memory: Memory| format!("{} | {}", mib(memory.pss_kib), mib(memory.rss_kib));
    for part in parts {
        let line = format!("{} | {} | {} | {}", part.what, part.part, figures(part.rest), figures(part.load));
        text.push_str(&format!("| {line} |\n"));
    }
    text
}

fn growth(lines: &[Line]) -> String {
    let mut text = "\n## How cost grows\n\n16 calls in flight, if it does not say otherwise.\n".to_owned();
    for line in lines {
        text.push_str(&format!("\n### By {}\n\n{}.\n\n", line.axis.name(), line.axis.what()));
        if let Some(failure) = &line.failure {
            text.push_str(&format!("Not measured: {}\n", cut(failure)));
            continue;
        }
        let more = if line.axis == Axis::Payload { "CPU per KB" } else { "CPU for each" };
        let head = format!("size | p50 | CPU per call | {more} | size grew | p50 grew | CPU grew | gateway, RSS");
        text.push_str(&format!("| {head} |\n|---:|---:|---:|---:|---:|---:|---:|---:|\n"));
        for point in &line.points {
            text.push_str(&format!("| {} |\n", point_line(line, point)));
        }
    }
    text
}

fn point_line(line: &Line, point: &Point) -> String {
    let (size, p50, cpu) = line.factors(point);
    let units = if line.axis == Axis::Payload { point.size as f64 / 1000.0 } else { point.size as f64 };
    let each = point.cell.cpu.div_f64(units);
    let grew = format!("{size:.0} x | {p50:.2} x | {cpu:.2} x");
    let (median, used) = (time(point.cell.p50), time(point.cell.cpu));
    format!("{} | {median} | {used} | {} | {grew} | {} MiB", point.size, time(each), mib(point.gateway_rss_kib))
}

fn mib(kib: u64) -> String {
    format!("{:.1}", kib as f64 / 1024.0)
}

/// A reason, short enough for a table.
fn cut(reason: &str) -> String {
    reason.chars().filter(|it| *it != '|' && !it.is_control()).take(80).collect()
}

pub(crate) fn rate(per_second: f64) -> String {
    match per_second {
        100.0.. => format!("{per_second:.0}"),
        10.0..100.0 => format!("{per_second:.1}"),
        _ => format!("{per_second:.2}"),
    }
}

pub(crate) fn time(time: Duration) -> String {
    let ms = time.as_secs_f64() * 1000.0;
    match ms {
        100.0.. => format!("{ms:.0} ms"),
        10.0..100.0 => format!("{ms:.1} ms"),
        1.0..10.0 => format!("{ms:.2} ms"),
        _ => format!("{:.0} µs", ms * 1000.0),
    }
}
