//! A worker on which every call fails: the gateway ejects it, retries it now and then, and uses it again soon after it
//! has recovered.
//!
//! - `python`: an interpreter that can be removed
//! - `watch`: the ejections that the gateway reports

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::json;

use crate::call::{Caller, Job, any_session};
use crate::gateway_log::{self, Line, now};
use crate::load::{Mix, OpenLoad};
use crate::random::Random;
use crate::settings::Settings;
use crate::skills;
use crate::stage::{Plan, Stage, worker_id};
use crate::table::{Row, milliseconds};

mod python;
mod watch;

use python::Python;
use watch::{Ejection, Watch};

/// The worker that fails.
const BAD: usize = 3;

/// Calls per second, well below the capacity of four workers.
const LOAD: f64 = 16.0;

/// This many consecutive failures eject a worker.
const THRESHOLD: usize = 5;

/// How soon no call goes to an ejected worker any more.
const LET_GO: Duration = Duration::from_secs(1);

/// How long the worker fails: long enough to be ejected several times.
const BAD_FOR: Duration = Duration::from_secs(12);

/// The longest ejection, and how much later the worker is used again.
const LONGEST: Duration = Duration::from_secs(30);
const USED_AGAIN: Duration = Duration::from_secs(1);

pub(crate) async fn run(settings: Settings) -> Vec<Row> {
    let python = Python::find();
    let plan = Plan::without_circuits().worker(BAD, "OPENSKILL_PYTHON", python.link().display());
    let stage = Stage::start(plan).await;
    let caller = Caller::new(crate::prefix("ejection"), stage.links(4));
    let load = OpenLoad::start(&caller, &mix(), LOAD, Random::new(settings.seed, "ejection"));
    let log = Log { file: stage.gateway_log(), prefix: caller.prefix().to_owned() };
    let used_before = log.until_used_after(Duration::ZERO).await.is_some();
    let watch = Watch::start(Arc::clone(&stage), BAD);
    python.take_away();
    let bad_since = now();
    tokio::time::sleep(BAD_FOR).await;
    python.put_back();
    let well_since = now();
    let used_again = log.until_used_after(well_since).await;
    let calls = load.stop().await.finish().await;
    let ejections = watch.stop().await;
    crate::explain("calls beside a failing worker", calls.iter().filter(|it| !it.is_ok()));
    let failed = calls.iter().filter(|it| !it.is_ok()).count();
    let times: Vec<_> = ejections.iter().map(|it| milliseconds(it.length())).collect();
    let mut rows = vec![
        Row::must("the worker gets calls before it fails", used_before, "true", used_before),
        Row::info("calls, and failures among them", format!("{}, {failed}", calls.len())),
        Row::info("ejected for", times.join(", ")),
    ];
    rows.extend(left_out(&log.lines(), &ejections, bad_since));
    rows.push(back(&ejections, well_since, used_again));
    rows
}

fn mix() -> Mix {
    Arc::new(|random| Job {
        skill: skills::WORK,
        input: json!({}),
        session: any_session(random),
        deadline: Duration::from_secs(5),
        streamed: false,
        patience: Duration::ZERO,
    })
}

/// The logged calls of the failing worker.
struct Log {
    file: PathBuf,
    prefix: String,
}

impl Log {
    fn lines(&self) -> Vec<Line> {
        let mut lines = gateway_log::read(&self.file, &self.prefix);
        lines.retain(|line| line.worker == worker_id(BAD));
        lines
    }

    /// When the first call that started after `moment` succeeded there. None if none did for too long.
    async fn until_used_after(&self, moment: Duration) -> Option<Duration> {
        let begun = Instant::now();
        while begun.elapsed() < LONGEST + USED_AGAIN * 2 {
            let used = self.lines().into_iter().find(|line| line.success && line.begun() > moment);
            if let Some(line) = used {
                return Some(line.ended);
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        None
    }
}

/// No call goes to an ejected worker until it is retried.
fn left_out(lines: &[Line], ejections: &[Ejection], bad_since: Duration) -> Vec<Row> {
    let what = "last call to the worker after the failure that ejected it";
    let (Some(due), Some(first)) = (enough_failures(lines, bad_since), ejections.first()) else {
        return vec![Row::must(what, "it was never ejected", "< 1000 ms", false)];
    };
    let sent = |from: Duration, to: Duration| lines.iter().map(Line::begun).filter(move |it| *it > from && *it < to);
    let last = sent(due, first.until).max().map_or(Duration::ZERO, |last| last - due);
    let later = ejections.iter().skip(1).map(|it| sent(it.seen, it.until).count()).sum();
    vec![
        Row::must(what, milliseconds(last), "< 1000 ms", last < LET_GO),
        Row::none("calls sent to the worker while it was ejected again", later),
    ]
}

/// When the failure came that ejects the worker.
fn enough_failures(lines: &[Line], since: Duration) -> Option<Duration> {
    let mut in_row = 0;
    for line in lines.iter().filter(|line| line.ended > since) {
        in_row = if line.success { 0 } else { in_row + 1 };
        if in_row == THRESHOLD {
            return Some(line.ended);
        }
    }
    None
}

fn back(ejections: &[Ejection], well_since: Duration, used: Option<Duration>) -> Row {
    let in_force = ejections.iter().rfind(|it| it.seen <= well_since);
    let most = in_force.map_or(LONGEST, Ejection::length).min(LONGEST) + USED_AGAIN;
    let took = used.map(|used| used.saturating_sub(well_since));
    let figure = took.map_or("never".to_owned(), milliseconds);
    let wanted = format!("<= {}", milliseconds(most));
    Row::must("used again after it recovered", figure, wanted, took.is_some_and(|it| it <= most))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_failures_in_a_row_count() {
        let line = |second, success| Line { ended: Duration::from_secs(second), success, ..Line::default() };
        let mut lines: Vec<_> = (1..5).map(|second| line(second, false)).collect();
        lines.push(line(5, true));
        assert_eq!(enough_failures(&lines, Duration::ZERO), None);
        lines.extend((6..12).map(|second| line(second, false)));
        assert_eq!(enough_failures(&lines, Duration::ZERO), Some(Duration::from_secs(10)));
    }
}
