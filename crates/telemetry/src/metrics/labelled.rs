//! Counters for a few label values known in advance. Every series exists from the start, at zero.

use crate::metrics::instruments::Counter;
use crate::metrics::metric::Metric;
use crate::metrics::snapshot::Snapshot;

/// The counters of one metric with one label.
#[derive(Debug)]
pub struct LabelledCounters(Box<[(&'static str, Counter)]>);

impl LabelledCounters {
    /// Creates a counter for each of these label values.
    pub fn new(values: impl IntoIterator<Item = &'static str>) -> Self {
        Self(values.into_iter().map(|value| (value, Counter::new())).collect())
    }

    /// Adds one to the counter of this label value. Ignores unknown values.
    pub fn inc(&self, value: &str) {
        if let Some((_, counter)) = self.0.iter().find(|(it, _)| *it == value) {
            counter.inc();
        }
    }

    /// Adds all series to a snapshot.
    pub fn read(&self, snapshot: &mut Snapshot, metric: &'static Metric) {
        self.read_after(snapshot, metric, &[]);
    }

    /// Adds all series of a metric whose first labels have the values `first`.
    pub fn read_after(&self, snapshot: &mut Snapshot, metric: &'static Metric, first: &[&str]) {
        for (value, counter) in &self.0 {
            snapshot.count(metric, &[first, &[*value]].concat(), counter);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::snapshot::Value;
    use crate::metrics::table;

    #[test]
    fn every_known_value_has_a_series_and_no_other_has() {
        let levels = LabelledCounters::new(["strict", "off"]);
        levels.inc("off");
        levels.inc("made up");
        let mut snapshot = Snapshot::default();
        levels.read(&mut snapshot, &table::JAILED);
        let read: Vec<_> = snapshot.families()[0]
            .series
            .iter()
            .map(|it| (it.labels[0].as_str(), matches!(it.value, Value::Count(1))))
            .collect();
        assert_eq!(read, [("strict", false), ("off", true)]);
    }
}
