//! How cost grows with what there is: payload, skills, sessions, workers, exported tools. Each size runs as a system of its
//! own; those of an axis are measured in turn, the others stopped, and what stands in the table are medians.

use std::sync::Arc;
use std::time::Duration;

use openskill_tests::folder::Folder;
use openskill_tests::system::request;
use serde_json::json;

use crate::caller::{Ask, Target};
use crate::contenders::{SCHEMA, TEXT, echo};
use crate::load::{Cell, Timing, exhaust, measure};
use crate::median::of_cells;
use crate::place::Running;
use crate::place::openskill::{shipped, started};

/// Callers of each axis but the export's, and rounds.
const CALLERS: usize = 16;
const ROUNDS: usize = 3;

/// What is measured in a cell.
const SECONDS: f64 = 0.5;

const KIB: usize = 1000;

/// What is made larger.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Axis {
    Payload,
    Skills,
    Sessions,
    Workers,
    Tools,
}

pub(crate) const AXES: [Axis; 5] = [Axis::Payload, Axis::Skills, Axis::Sessions, Axis::Workers, Axis::Tools];

impl Axis {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Payload => "payload, bytes",
            Self::Skills => "skills in the catalog",
            Self::Sessions => "sessions",
            Self::Workers => "workers",
            Self::Tools => "tools in one export",
        }
    }

    pub(crate) fn what(self) -> &'static str {
        match self {
            Self::Payload => "`Invoke` of an echo whose text is so long",
            Self::Skills => "`Invoke` of each skill in turn",
            Self::Sessions => {
                "`Invoke` of a skill with affinity, each call in the next of so many sessions, which are known"
            }
            Self::Workers => "`Invoke` of an echo, `up --workers N`",
            Self::Tools => "`ExportTools` of the whole catalog, one call at a time",
        }
    }

    fn sizes(self) -> &'static [usize] {
        match self {
            Self::Payload => &[100, KIB, 10 * KIB, 100 * KIB, 1000 * KIB],
            Self::Skills => &[10, 100, 1000, 10_000],
            Self::Sessions => &[1, 100, 1000, 10_000, 100_000],
            Self::Workers => &[1, 2, 4, 8, 16],
            Self::Tools => &[40, 200, 1000, 2000],
        }
    }

    fn callers(self) -> usize {
        if self == Self::Tools { 1 } else { CALLERS }
    }

    /// A system of this size, and what is called there.
    async fn start(self, size: usize) -> Result<(Running, Target), String> {
        let folder = Folder::new();
        let skills = if matches!(self, Self::Skills | Self::Tools) { size } else { 1 };
        for number in 0..skills {
            folder.write(&format!("skills/{}.yaml", skill(number)), self.manifest(number));
        }
        let workers = if self == Self::Workers { size } else { 1 };
        // Sizes of one axis share nothing but the binary.
        let running = started(shipped(&folder, workers), Vec::new(), folder, "echo-0").await?;
        let ask: Ask = match self {
            Self::Payload => long(size),
            Self::Skills => Arc::new(move |call| request(&skill(call as usize % size), json!({ "text": TEXT }))),
            Self::Sessions => in_sessions(size),
            Self::Workers | Self::Tools => echo("echo-0"),
        };
        let address = running.address;
        match self {
            Self::Tools => return Ok((running, Target::Export(address, size))),
            Self::Sessions => exhaust(Target::Many(address, Arc::clone(&ask)), 64, size).await?,
            _ => {}
        }
        Ok((running, Target::Unary(address, ask)))
    }

    fn manifest(self, number: usize) -> String {
        let about = format!("description: Gives a text back, as number {number} of many.\n");
        let affinity = if self == Self::Sessions { "affinity: session\n" } else { "" };
        format!("id: {}\ntype: inproc\nentry: echo\n{about}{affinity}{SCHEMA}", skill(number))
    }
}

fn skill(number: usize) -> String {
    format!("echo-{number}")
}

fn long(bytes: usize) -> Ask {
    let asked = request("echo-0", json!({"text": "x".repeat(bytes.saturating_sub(r#"{"text":""}"#.len()))}));
    Arc::new(move |_| asked.clone())
}

fn in_sessions(sessions: usize) -> Ask {
    let asked = request("echo-0", json!({ "text": TEXT }));
    Arc::new(move |call| {
        let session_id = format!("session-{}", call as usize % sessions);
        openskill_proto::v1::InvokeRequest { session_id, ..asked.clone() }
    })
}

/// One size of an axis.
#[derive(Debug, Clone)]
pub(crate) struct Point {
    pub(crate) size: usize,
    pub(crate) cell: Cell,
    /// Of the gateway, when it was over.
    pub(crate) gateway_rss_kib: u64,
}

/// What was found on an axis, or why there is nothing.
#[derive(Debug)]
pub(crate) struct Line {
    pub(crate) axis: Axis,
    pub(crate) points: Vec<Point>,
    pub(crate) failure: Option<String>,
}

impl Line {
    /// How many times the first point's: size, p50, processor time.
    pub(crate) fn factors(&self, point: &Point) -> (f64, f64, f64) {
        let first = &self.points[0];
        let ratio = |now: Duration, then: Duration| now.as_secs_f64() / then.as_secs_f64().max(1e-9);
        let size = point.size as f64 / first.size as f64;
        (size, ratio(point.cell.p50, first.cell.p50), ratio(point.cell.cpu, first.cell.cpu))
    }
}

pub(crate) async fn run(seconds: Option<f64>) -> Vec<Line> {
    let mut lines = Vec::new();
    for axis in AXES {
        eprintln!("growth: {}", axis.name());
        let (points, failure) = match line(axis, seconds.unwrap_or(SECONDS)).await {
            Ok(points) => (points, None),
            Err(reason) => (Vec::new(), Some(reason)),
        };
        if let Some(reason) = &failure {
            eprintln!("{}: {reason}", axis.name());
        }
        lines.push(Line { axis, points, failure });
    }
    lines
}

async fn line(axis: Axis, seconds: f64) -> Result<Vec<Point>, String> {
    let measured = Duration::from_secs_f64(seconds);
    let timing = Timing { warm: measured / 4, measured };
    let mut systems = Vec::new();
    for size in axis.sizes() {
        let (running, target) = axis.start(*size).await.map_err(|reason| format!("at {size}: {reason}"))?;
        running.stop().await;
        systems.push((*size, (running, target)));
    }
    let mut cells = vec![Vec::new(); systems.len()];
    for _ in 0..ROUNDS {
        for (index, (size, (running, target))) in systems.iter().enumerate() {
            running.go_on().await;
            let cell = measure(target.clone(), axis.callers(), timing, running.roots.clone()).await;
            running.stop().await;
            cells[index].push(cell.map_err(|reason| format!("at {size}: {reason}"))?);
        }
    }
    let points = systems.iter().zip(&cells).map(|((size, (running, _)), cells)| {
        let memory = running.memory();
        let gateway = memory.iter().find(|(part, _)| *part == "gateway");
        let gateway_rss_kib = gateway.map_or(0, |(_, memory)| memory.rss_kib);
        Point { size: *size, cell: of_cells(cells), gateway_rss_kib }
    });
    Ok(points.collect())
}
