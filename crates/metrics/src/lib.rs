//! The metrics of gateway and workers.
//!
//! ```text
//! call ──> instruments (atomics) ──┐
//! state of the process at a scrape ┴─> Snapshot ──> text: GET /metrics
//!                                               └─> source: the OTLP export of the process
//! ```
//!
//! - [`table`]: every metric there is, by name; [`metric`]: what one is; [`mod@reference`]: the table as documentation
//! - [`instruments`]: counters and histograms; [`buckets`]: those of all histograms; [`exemplars`]: the trace of a recent
//!   call in each
//! - [`labelled`]: counters with one label whose values are known
//! - [`skills`]: series by skill, of which there are only so many; [`errors`]: errors by code and blame
//! - [`snapshot`]: the value of every series at one moment; [`text`]: as Prometheus and OpenMetrics text
//! - [`process`]: what the system says of this process; [`telemetry`]: what became of its traces and recordings
//! - [`source`]: where the rest of the process finds its metrics
//!
//! Nothing here knows what a call, a gateway or a worker is.

pub mod buckets;
pub mod errors;
pub mod exemplars;
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
pub use labelled::Labelled;
pub use metric::{Kind, Metric, OTHER, Process};
pub use skills::{SkillSeries, Skills};
pub use snapshot::{Snapshot, Value};
