//! The metrics of gateway and workers.
//!
//! ```text
//! call ──> instruments (atomics) ──┐
//! state of the process at a scrape ┴─> Snapshot ──> text: GET /metrics
//!                                               └─> source: the OTLP export of the process
//! ```
//!
//! - [`table`]: every metric by name; [`metric`]: the description of a metric; [`mod@reference`]: the table as
//!   documentation
//! - [`instruments`]: counters and histograms, with the trace of a recent call in each bucket
//! - [`labelled`]: counters with one label whose values are known in advance
//! - [`skills`]: a limited number of series by skill, and its errors by code and blame
//! - [`snapshot`]: the value of every series at one moment; [`text`]: the text formats of Prometheus and
//!   OpenMetrics
//! - [`process`]: memory, CPU time and descriptors of this process; [`telemetry`]: how many of its spans and
//!   recordings were delivered
//! - [`source`]: gives the rest of the process access to its metrics
//!
//! This crate is independent of calls, gateways and workers.

pub mod instruments;
pub mod labelled;
pub mod metric;
pub mod process;
pub mod reference;
pub mod skills;
pub mod snapshot;
pub mod source;
pub mod table;
pub mod telemetry;
pub mod text;

pub use instruments::{Counter, Histogram};
pub use labelled::LabelledCounters;
pub use metric::{Metric, MetricKind, OTHER, ProcessKind};
pub use skills::{SkillMetrics, SkillSeries};
pub use snapshot::{Snapshot, Value};
