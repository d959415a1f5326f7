//! A worker on which every call fails: the gateway leaves it out, tries it again now and then, and uses it again soon
//! after it is well.
//!
//! - `python`: an interpreter that can be taken away
//! - `watch`: what the gateway says of the worker

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

/// The worker that goes bad.
const BAD: usize = 3;

/// Calls a second: well below what four workers can do.
const LOAD: f64 = 16.0;

/// So many failures in a row make a worker be left out.
const THRESHOLD: usize = 5;

/// Until no call goes there any more.
const LET_GO: Duration = Duration::from_secs(1);

/// How long it is bad: long enough to be left out several times.
const BAD_FOR: Duration = Duration::from_secs(12);

/// The longest a worker is left out, and how much later it is used again.
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
    crate::explain("calls beside a bad worker", calls.iter().filter(|it| !it.is_ok()));
    let failed = calls.iter().filter(|it| !it.is_ok()).count();
    let times: Vec<_> = ejections.iter().map(|it| milliseconds(it.length())).collect();
    let mut rows = vec![
        Row::must("the worker is used before it goes bad", used_before, "true", used_before),
        Row::told("calls, failed ones among them", format!("{}, {failed}", calls.len())),
        Row::told("left out for", times.join(", ")),
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

/// The log of the calls that ended at the bad worker.
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

    /// The end of the first success there of a call that began after `moment`. None if there is none for too long.
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

/// No call goes to a worker that failed so often, until it is to be tried again.
fn left_out(lines: &[Line], ejections: &[Ejection], bad_since: Duration) -> Vec<Row> {
    let what = "last call there after the failure that was one too many";
    let (Some(due), Some(first)) = (enough_failures(lines, bad_since), ejections.first()) else {
        return vec![Row::must(what, "it was never left out", "< 1000 ms", false)];
    };
    let sent = |from: Duration, to: Duration| lines.iter().map(Line::begun).filter(move |it| *it > from && *it < to);
    let last = sent(due, first.until).max().map_or(Duration::ZERO, |last| last - due);
    let later = ejections.iter().skip(1).map(|it| sent(it.seen, it.until).count()).sum();
    vec![
        Row::must(what, milliseconds(last), "< 1000 ms", last < LET_GO),
        Row::none("calls sent there while it was left out again", later),
    ]
}

/// When the failure came that makes so many in a row.
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
    Row::must("used again after it is well", figure, wanted, took.is_some_and(|it| it <= most))
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
