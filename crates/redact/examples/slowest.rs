//! Looks for the text that is redacted most slowly, for so many seconds (60): it joins, changes and repeats pieces, and goes
//! on with what was slowest. One core; build it with `--release`.
#![allow(clippy::print_stdout, reason = "it is what an example is for")]

use std::time::{Duration, Instant};

use openskill_redact::Redactor;
use openskill_redact::testing::{Random, hostile, planted, typical};

/// How long a text is.
const LENGTH: usize = 32 << 10;
/// How many texts are kept.
const KEPT: usize = 48;
/// How long the part is that is repeated.
const LONGEST: usize = 96;

/// What this thread has used: other programs don't count.
fn cpu_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), time.tv_nsec as u32)
}

/// Nanoseconds for a byte: the least of some runs.
fn cost(redactor: &Redactor, text: &str, runs: usize) -> f64 {
    let once = |_| {
        let start = cpu_time();
        std::hint::black_box(redactor.text(std::hint::black_box(text)));
        cpu_time().saturating_sub(start)
    };
    (0..runs).map(once).min().unwrap_or_default().as_nanos() as f64 / text.len() as f64
}

fn filled(part: &str) -> String {
    part.repeat(LENGTH / part.len().max(1) + 1)
}

/// A part made of others: joined, cut, doubled, or with a byte changed.
fn changed(random: &mut Random, parts: &[String]) -> String {
    let mut part = random.pick(parts).clone();
    for _ in 0..=random.below(3) {
        let at = part.floor_char_boundary(random.below(part.len() + 1));
        match random.below(5) {
            0 => part.insert_str(at, &random.pick(parts).clone()),
            1 => part.truncate(at),
            2 => part.insert(at, char::from(32 + random.below(95) as u8)),
            3 if at < part.len() => drop(part.remove(at)),
            _ => part = [&part[..at], &part].concat(),
        }
    }
    part.truncate(part.floor_char_boundary(LONGEST));
    if part.is_empty() { "x".to_owned() } else { part }
}

fn main() {
    let seconds = std::env::args().nth(1).and_then(|it| it.parse().ok()).unwrap_or(60);
    let seed = std::env::args().nth(2).and_then(|it| it.parse().ok()).unwrap_or(1);
    let (redactor, mut random) = (Redactor::default(), Random::new(seed));
    let usual: Vec<f64> = typical(1 << 20).iter().map(|(_, text)| cost(&redactor, text, 5)).collect();
    let usual = usual.iter().sum::<f64>() / usual.len() as f64;
    let secrets = planted(seed, 200).into_iter().map(|it| it.text);
    let short = |text: String| text[..text.floor_char_boundary(LONGEST)].to_owned();
    let mut parts: Vec<_> = hostile(1).into_iter().map(|(_, text)| text).chain(secrets).map(short).collect();
    parts.retain(|part| !part.is_empty());
    let mut slowest: Vec<(f64, String)> = Vec::new();
    let (end, mut tried) = (Instant::now() + Duration::from_secs(seconds), 0_u64);
    while Instant::now() < end {
        let kept: Vec<_> = slowest.iter().map(|(_, part)| part.clone()).collect();
        let from = if kept.is_empty() || random.below(3) == 0 { &parts } else { &kept };
        let part = changed(&mut random, from);
        tried += 1;
        let is_slow = |cost: f64| slowest.len() < KEPT || slowest.last().is_some_and(|(least, _)| cost > *least);
        let text = filled(&part);
        // Most are quick, which one run tells.
        if !is_slow(cost(&redactor, &text, 1)) || kept.contains(&part) {
            continue;
        }
        slowest.push((cost(&redactor, &text, 5), part));
        slowest.sort_by(|a, b| b.0.total_cmp(&a.0));
        slowest.truncate(KEPT);
    }
    println!("{tried} texts; usual: {:.0} MB/s", 1e3 / usual);
    for (cost, part) in slowest.iter().take(16) {
        println!("{:6.0} MB/s  {:4.1} times slower  {part:?}", 1e3 / cost, cost / usual);
    }
}
