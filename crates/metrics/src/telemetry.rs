//! What became of the traces and recordings of this process. Exporters and recorder report here; the counters are the
//! process's own, as its exporters are.

use crate::instruments::Counter;
use crate::snapshot::Snapshot;
use crate::table;

/// The counters of this process.
pub static TELEMETRY: Telemetry = Telemetry {
    spans: [const { Counter::new() }; 3],
    recordings: [const { Counter::new() }; 3],
    recorded_bytes: Counter::new(),
    exports: [const { Counter::new() }; 2],
};

/// See [`TELEMETRY`].
#[derive(Debug)]
pub struct Telemetry {
    /// In the order of [`ENDS`].
    spans: [Counter; 3],
    recordings: [Counter; 3],
    recorded_bytes: Counter,
    /// Succeeded, failed.
    exports: [Counter; 2],
}

/// What becomes of a span or a recording: delivered or written; dropped for lack of room; failed.
const ENDS: [&str; 3] = ["ok", "dropped", "failed"];

impl Telemetry {
    /// The collector took this many spans.
    pub fn spans_exported(&self, count: u64) {
        self.spans[0].add(count);
    }

    /// There was no room for this many spans, or no time.
    pub fn spans_dropped(&self, count: u64) {
        self.spans[1].add(count);
    }

    /// The collector did not take this many spans.
    pub fn spans_failed(&self, count: u64) {
        self.spans[2].add(count);
    }

    /// The recorder wrote this many calls, with this many bytes together.
    pub fn recorder_written(&self, count: u64, bytes: u64) {
        self.recordings[0].add(count);
        self.recorded_bytes.add(bytes);
    }

    /// This many calls found the recorder's queue full.
    pub fn recorder_dropped(&self, count: u64) {
        self.recordings[1].add(count);
    }

    /// The recorder could not write this many calls.
    pub fn recorder_failed(&self, count: u64) {
        self.recordings[2].add(count);
    }

    /// Metrics were exported, or could not be.
    pub fn metrics_exported(&self, succeeded: bool) {
        self.exports[usize::from(!succeeded)].inc();
    }

    /// Adds the counters of spans and exports, which every process has.
    pub fn exported(&self, snapshot: &mut Snapshot) {
        for (end, count) in ENDS.iter().zip(&self.spans) {
            snapshot.count(&table::SPANS, &[end], count);
        }
        for (end, count) in [ENDS[0], ENDS[2]].iter().zip(&self.exports) {
            snapshot.count(&table::METRIC_EXPORTS, &[end], count);
        }
    }

    /// Adds the counters of the recorder, which gateways have.
    pub fn recorded(&self, snapshot: &mut Snapshot) {
        for (end, count) in ENDS.iter().zip(&self.recordings) {
            snapshot.count(&table::RECORDINGS, &[end], count);
        }
        snapshot.count(&table::RECORDED_BYTES, &[], &self.recorded_bytes);
    }
}
