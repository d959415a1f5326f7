//! How fast text is redacted: as it usually is, and at worst. One core; build it with `--release`.
#![allow(clippy::print_stdout, reason = "it is what an example is for")]

use std::time::Duration;

use openskill_redact::Redactor;
use openskill_redact::testing::{hostile, typical};

const LENGTH: usize = 1 << 20;
/// What takes longer than this is measured once.
const SLOW: Duration = Duration::from_millis(200);

/// What this thread has used: other programs don't count.
fn cpu_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), time.tv_nsec as u32)
}

/// The least time of some runs.
fn time(redactor: &Redactor, text: &str, runs: usize) -> Duration {
    let once = || {
        let start = cpu_time();
        std::hint::black_box(redactor.text(std::hint::black_box(text)));
        cpu_time().saturating_sub(start)
    };
    let first = once();
    if first > SLOW { first } else { (0..runs).map(|_| once()).min().unwrap_or(first) }
}

fn megabytes(text: &str, time: Duration) -> f64 {
    text.len() as f64 / time.as_secs_f64() / 1e6
}

fn main() {
    // An argument is another length, in bytes.
    let length = std::env::args().nth(1).and_then(|length| length.parse().ok()).unwrap_or(LENGTH);
    let redactor = Redactor::default();
    let mut total = (0, Duration::ZERO);
    for (name, text) in typical(length) {
        let time = time(&redactor, &text, 9);
        let note = if redactor.text(&text) == text { "" } else { "  (redacted)" };
        println!("{:8.0} MB/s  {name}{note}", megabytes(&text, time));
        total = (total.0 + text.len(), total.1 + time);
    }
    let usual = total.0 as f64 / total.1.as_secs_f64() / 1e6;
    println!("{usual:8.0} MB/s  all of these\n");
    let mut slow: Vec<_> =
        hostile(length).into_iter().map(|(name, text)| (megabytes(&text, time(&redactor, &text, 7)), name)).collect();
    slow.sort_by(|a, b| a.0.total_cmp(&b.0));
    for (speed, name) in slow.iter().take(24) {
        println!("{speed:8.0} MB/s  {:4.1} times slower  {name}", usual / speed);
    }
}
