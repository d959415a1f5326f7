//! The descriptions of metrics.

/// The label value for all values without a separate series.
pub const OTHER: &str = "_other";

/// The static description of a metric.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Metric {
    /// The name. Counters end with `_total`.
    pub name: &'static str,
    /// Counter, gauge or histogram.
    pub kind: MetricKind,
    /// The label names, in the order of the label values.
    pub labels: &'static [&'static str],
    /// The types of process that expose it.
    pub process: ProcessKind,
    /// Its help text, in Markdown.
    pub help: &'static str,
}

/// How the values of a metric change over time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MetricKind {
    /// Starts at zero with the process and never decreases.
    Counter,
    /// A value at the moment of the scrape.
    Gauge,
    /// Counts observations in buckets.
    Histogram,
}

/// The types of process that expose a metric.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProcessKind {
    /// Only gateways.
    Gateway,
    /// Only workers.
    Worker,
    /// Gateways and workers.
    Both,
}

impl Metric {
    /// Returns the base unit that ends the name: `seconds` or `bytes`. `None` if the metric has no unit.
    pub fn unit(&self) -> Option<&'static str> {
        ["seconds", "bytes"].into_iter().find(|unit| self.family().ends_with(&format!("_{unit}")))
    }

    /// Returns the name without `_total`, which OpenMetrics calls the family.
    pub fn family(&self) -> &'static str {
        match self.kind {
            MetricKind::Counter => self.name.strip_suffix("_total").unwrap_or(self.name),
            MetricKind::Gauge | MetricKind::Histogram => self.name,
        }
    }

    /// Returns the help text without Markdown. Replaces a link such as `[a jail](jail.md)` with its text.
    pub fn plain_help(&self) -> String {
        let link = |text: &'static str| {
            let (words, target) = text.split_once("](")?;
            Some([words, target.split_once(')')?.1])
        };
        let mut parts = self.help.split('[');
        let before = parts.next().unwrap_or_default();
        let plain =
            parts.flat_map(|part| link(part).unwrap_or(["[", part])).fold(before.to_owned(), |all, it| all + it);
        plain.replace('`', "")
    }
}

impl MetricKind {
    /// Returns the name of the type in the text formats.
    pub fn word(self) -> &'static str {
        match self {
            Self::Counter => "counter",
            Self::Gauge => "gauge",
            Self::Histogram => "histogram",
        }
    }
}

impl ProcessKind {
    /// Returns the name of the process type in the reference.
    pub fn word(self) -> &'static str {
        match self {
            Self::Gateway => "gateway",
            Self::Worker => "worker",
            Self::Both => "gateway, worker",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_help_keeps_the_words_of_links() {
        let help = "Calls by [jail](a.md) and `code`, of [skills](b.md).";
        let metric =
            Metric { name: "a_total", kind: MetricKind::Counter, labels: &[], process: ProcessKind::Both, help };
        assert_eq!(metric.plain_help(), "Calls by jail and code, of skills.");
        assert_eq!((metric.family(), metric.unit()), ("a", None));
    }
}
