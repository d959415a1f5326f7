//! Counts spans and recordings of this process that were delivered, dropped or failed. The span queue, the
//! exporters and the recorder report here. The counters are global because the exporters are.

use crate::metrics::instruments::Counter;
use crate::metrics::snapshot::Snapshot;
use crate::metrics::table;

/// The counters of this process.
pub static TELEMETRY: Telemetry = Telemetry {
    spans: [const { Counter::new() }; 3],
    recordings: [const { Counter::new() }; 3],
    recorded_bytes: Counter::new(),
    exports: [const { Counter::new() }; 2],
};

/// The counters of spans, recordings and exports.
#[derive(Debug)]
pub struct Telemetry {
    /// The spans by outcome, in the order of [`ENDS`].
    spans: [Counter; 3],
    recordings: [Counter; 3],
    recorded_bytes: Counter,
    /// Metric exports that succeeded, and that failed.
    exports: [Counter; 2],
}

/// The outcomes of a span or a recording: delivered or written; dropped because the queue was full; failed.
const ENDS: [&str; 3] = ["ok", "dropped", "failed"];

impl Telemetry {
    /// Counts spans that the collector accepted.
    pub fn spans_exported(&self, count: u64) {
        self.spans[0].add(count);
    }

    /// Counts spans that were dropped because the queue was full or time ran out.
    pub(crate) fn spans_dropped(&self, count: u64) {
        self.spans[1].add(count);
    }

    /// Counts spans that the collector did not accept.
    pub(crate) fn spans_failed(&self, count: u64) {
        self.spans[2].add(count);
    }

    /// Counts calls that the recorder wrote, and their total size in bytes.
    pub fn recorder_written(&self, count: u64, bytes: u64) {
        self.recordings[0].add(count);
        self.recorded_bytes.add(bytes);
    }

    /// Counts calls that were dropped because the recorder's queue was full.
    pub fn recorder_dropped(&self, count: u64) {
        self.recordings[1].add(count);
    }

    /// Counts calls that the recorder could not write.
    pub fn recorder_failed(&self, count: u64) {
        self.recordings[2].add(count);
    }

    /// Counts a metrics export.
    pub fn metrics_exported(&self, succeeded: bool) {
        self.exports[usize::from(!succeeded)].inc();
    }

    /// Adds the counters of spans and exports, which every process exposes.
    pub fn add_export_counters(&self, snapshot: &mut Snapshot) {
        for (end, count) in ENDS.iter().zip(&self.spans) {
            snapshot.count(&table::SPANS, &[end], count);
        }
        for (end, count) in [ENDS[0], ENDS[2]].iter().zip(&self.exports) {
            snapshot.count(&table::METRIC_EXPORTS, &[end], count);
        }
    }

    /// Adds the counters of the recorder, which only gateways expose.
    pub fn add_recording_counters(&self, snapshot: &mut Snapshot) {
        for (end, count) in ENDS.iter().zip(&self.recordings) {
            snapshot.count(&table::RECORDINGS, &[end], count);
        }
        snapshot.count(&table::RECORDED_BYTES, &[], &self.recorded_bytes);
    }
}
