//! The tables, as Markdown.

use std::process::Command;
use std::time::Duration;

use openskill_tests::repository;

use crate::load::Cell;
use crate::rounds::Entry;
use crate::settings::Settings;
use crate::usage::Memory;

pub(crate) fn text(entries: &[Entry], in_flight: &[usize], settings: &Settings) -> String {
    let mut text = about(settings);
    for callers in in_flight {
        text += &format!("\n## {callers} in flight\n\n| | calls/s | p50 | p99 | CPU per call |{}\n", head(settings));
        text +=
            &format!("|---|---:|---:|---:|---:|{}\n", if settings.before.is_some() { "---:|---:|---:|" } else { "" });
        for entry in entries.iter().filter(|entry| !entry.is_before) {
            text += &format!("| {} | {} |\n", name(entry, settings), calls(entry, entries, *callers, settings));
        }
    }
    text + &ratios(entries, in_flight, settings) + &memory(entries, settings)
}

fn head(settings: &Settings) -> &'static str {
    if settings.before.is_some() { " calls/s before | calls/s, ratio | CPU, ratio |" } else { "" }
}

fn name(entry: &Entry, settings: &Settings) -> String {
    let several = entry.row.is_script && settings.python.len() > 1;
    let python = if several { format!(", {}", entry.python.display()) } else { String::new() };
    format!("{}{python}", entry.row.name)
}

fn before<'a>(entry: &Entry, entries: &'a [Entry]) -> Option<&'a Entry> {
    entries.iter().find(|it| it.is_before && it.row.id == entry.row.id && it.python == entry.python)
}

fn calls(entry: &Entry, entries: &[Entry], callers: usize, settings: &Settings) -> String {
    let Some(cell) = entry.cell(callers) else {
        let reason: String = entry.failure(callers).chars().take(80).collect();
        return format!(
            "{} | | |{}",
            reason.replace(['|', '\n'], " "),
            if settings.before.is_some() { " | | |" } else { "" }
        );
    };
    let cut = if cell.is_cut { "> " } else { "" };
    let Cell { per_second, p50, p99, cpu, .. } = cell;
    let mut text = format!("{} | {cut}{} | {cut}{} | {}", rate(per_second), time(p50), time(p99), time(cpu));
    if settings.before.is_some() {
        text += &match before(entry, entries).and_then(|it| Some((it, it.cell(callers)?))) {
            Some((before, cell)) => {
                let pairs = || entry.rounds(callers).iter().zip(before.rounds(callers));
                let rates = ratio(pairs().map(|(now, then)| now.per_second / then.per_second).collect());
                let used = |cell: &Cell| cell.cpu.as_secs_f64().max(1e-9);
                let cpu = ratio(pairs().map(|(now, then)| used(now) / used(then)).collect());
                format!(" | {} | {rates} | {cpu}", rate(cell.per_second))
            }
            None => " | | |".to_owned(),
        };
    }
    text
}

/// The median and range of the ratios of each round, whose two builds were measured one right after the other.
fn ratio(mut rounds: Vec<f64>) -> String {
    rounds.sort_unstable_by(f64::total_cmp);
    let (least, most) = (rounds[0], rounds[rounds.len() - 1]);
    let median = (rounds[(rounds.len() - 1) / 2] + rounds[rounds.len() / 2]) / 2.0;
    format!("{median:.2} ({least:.2} to {most:.2})")
}

/// Calls per second divided by another row's, such as a fork's by a fresh interpreter's.
fn ratios(entries: &[Entry], in_flight: &[usize], settings: &Settings) -> String {
    let mut lines = String::new();
    for entry in entries {
        let of_same = |it: &&Entry| it.is_before == entry.is_before && it.python == entry.python;
        for id in &entry.row.bases {
            let Some(base) = entries.iter().filter(of_same).find(|it| it.row.id == *id) else {
                continue;
            };
            let ratio = |callers: &usize| {
                let both = entry.cell(*callers).zip(base.cell(*callers));
                both.map_or_else(String::new, |(it, base)| format!("{:.2}", it.per_second / base.per_second))
            };
            let cells: Vec<_> = in_flight.iter().map(ratio).collect();
            let build = if entry.is_before { ", before" } else { "" };
            lines += &format!("| {}{build} | {} | {} |\n", name(entry, settings), base.row.name, cells.join(" | "));
        }
    }
    let head: String = in_flight.iter().map(|callers| format!(" at {callers} |")).collect();
    let rule = "---:|".repeat(in_flight.len());
    if lines.is_empty() {
        lines
    } else {
        format!("\n## Ratios of calls/s\n\n| of | to |{head}\n|---|---|{rule}\n{lines}")
    }
}

fn memory(entries: &[Entry], settings: &Settings) -> String {
    let mut lines = String::new();
    for entry in entries.iter().filter(|it| !it.is_before) {
        let then = before(entry, entries).map(Entry::memory).unwrap_or_default();
        for (part, rest, load) in entry.memory().into_iter().filter(|(.., load)| load.rss > 0) {
            let figures = [rest.pss, rest.rss, load.pss, load.rss].map(mib).join(" | ");
            lines += &format!("| {} | {part} | {figures} |", name(entry, settings));
            if settings.before.is_some() {
                let then = then.iter().find(|(name, ..)| *name == part);
                let ratio = |now: Memory, then: Memory| format!("{:.2}", now.rss as f64 / then.rss.max(1) as f64);
                lines += &then.map_or_else(
                    || " | | |".to_owned(),
                    |(_, at_rest, loaded)| {
                        format!(" {} | {} | {} |", mib(at_rest.rss), ratio(rest, *at_rest), ratio(load, *loaded))
                    },
                );
            }
            lines += "\n";
        }
    }
    if lines.is_empty() {
        return lines;
    }
    let (more, rule) = match settings.before {
        Some(_) => (" RSS at rest before | at rest, ratio | under load, ratio |", "---:|---:|---:|"),
        None => ("", ""),
    };
    format!(
        "\n## Memory\n\nIn MiB, each row alone on the machine; under load: 256 calls in flight. RSS counts shared pages in full, PSS divides them.\n\n\
         | | processes | PSS at rest | RSS at rest | PSS under load | RSS under load |{more}\n\
         |---|---|---:|---:|---:|---:|{rule}\n{lines}"
    )
}

/// Where, when and of what.
fn about(settings: &Settings) -> String {
    let text = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = text.lines().find_map(|line| line.strip_prefix("model name")?.split(':').nth(1)).unwrap_or_default();
    let git = |arguments: &[&str]| first_line(Command::new("git").args(arguments).current_dir(repository()));
    let changed = !git(&["status", "--porcelain", "--untracked-files=no"]).is_empty();
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let mut lines = vec![
        ("date", first_line(Command::new("date").args(["-u", "+%Y-%m-%d %H:%M UTC"]))),
        ("commit", git(&["rev-parse", "--short", "HEAD"]) + if changed { ", with changes" } else { "" }),
        ("machine", format!("{cores} cores of {}, shared with the client", model.trim())),
        ("rounds", format!("{}, {} s a cell; the tables show medians", settings.rounds, settings.seconds)),
    ];
    for python in &settings.python {
        lines
            .push(("scripts", format!("{} ({})", first_line(Command::new(python).arg("--version")), python.display())));
    }
    if let Some(before) = &settings.before {
        lines.push(("before", before.display().to_string()));
    }
    let lines: String = lines.into_iter().map(|(what, value)| format!("| {what} | {value} |\n")).collect();
    format!("# What the benchmark measured\n\n| | |\n|---|---|\n{lines}")
}

fn first_line(command: &mut Command) -> String {
    let output = command.output().map(|output| output.stdout).unwrap_or_default();
    String::from_utf8_lossy(&output).lines().next().unwrap_or_default().trim().to_owned()
}

fn mib(kib: u64) -> String {
    format!("{:.1}", kib as f64 / 1024.0)
}

fn rate(per_second: f64) -> String {
    if per_second < 100.0 { format!("{per_second:.1}") } else { format!("{per_second:.0}") }
}

fn time(time: Duration) -> String {
    let ms = time.as_secs_f64() * 1000.0;
    match ms {
        100.0.. => format!("{ms:.0} ms"),
        1.0..100.0 => format!("{ms:.2} ms"),
        _ => format!("{:.0} µs", ms * 1000.0),
    }
}
