//! Measures how fast files are redacted. Their paths are read from standard input. Prints the total and the slowest files.
//! One core; build it with `--release`.
#![allow(clippy::print_stdout, reason = "it is what an example is for")]

use std::time::Duration;

use openskill_redact::Redactor;

/// Shorter files are not measured.
const SHORTEST: usize = 30_000;
const RUNS: usize = 3;
/// How many of the slowest are shown.
const SHOWN: usize = 10;

/// What this thread has used: other programs don't count.
fn cpu_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), time.tv_nsec as u32)
}

fn main() {
    let redactor = Redactor::default();
    let once = |text: &str| {
        let start = cpu_time();
        std::hint::black_box(redactor.text(std::hint::black_box(text)));
        cpu_time().saturating_sub(start)
    };
    let speed = |bytes: usize, time: Duration| bytes as f64 / time.as_secs_f64() / 1e6;
    let (mut files, mut bytes, mut time) = (Vec::new(), 0, Duration::ZERO);
    for path in std::io::stdin().lines().map_while(Result::ok) {
        let Ok(text) = std::fs::read_to_string(&path) else { continue };
        if text.len() >= SHORTEST {
            let least = (0..RUNS).map(|_| once(&text)).min().unwrap_or_default();
            (bytes, time) = (bytes + text.len(), time + least);
            files.push((speed(text.len(), least), path));
        }
    }
    files.sort_by(|a, b| a.0.total_cmp(&b.0));
    println!("{:8.0} MB/s  all {} files of {SHORTEST} bytes or more", speed(bytes, time), files.len());
    for (speed, path) in files.iter().take(SHOWN) {
        println!("{speed:8.0} MB/s  {path}");
    }
}
