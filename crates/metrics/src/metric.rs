//! What a metric is.

/// The label value of everything that has no series of its own.
pub const OTHER: &str = "_other";

/// A metric.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Metric {
    /// The name, with the suffix `_total` if it is a counter.
    pub name: &'static str,
    /// What kind of value it has.
    pub kind: Kind,
    /// The names of its labels.
    pub labels: &'static [&'static str],
    /// The processes that have it.
    pub of: Process,
    /// What it says, in Markdown.
    pub help: &'static str,
}

/// The kind of a metric.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Only grows, from zero when the process starts.
    Counter,
    /// The state at the moment of the scrape.
    Gauge,
    /// Counts observations by their size.
    Histogram,
}

/// Which processes have a metric.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Process {
    /// Gateways.
    Gateway,
    /// Workers.
    Worker,
    /// Both.
    Both,
}

impl Metric {
    /// The base unit that ends the name, if the metric has one: `seconds` or `bytes`.
    pub fn unit(&self) -> Option<&'static str> {
        ["seconds", "bytes"].into_iter().find(|unit| self.family().ends_with(&format!("_{unit}")))
    }

    /// The name without `_total`: what OpenMetrics calls the family.
    pub fn family(&self) -> &'static str {
        match self.kind {
            Kind::Counter => self.name.strip_suffix("_total").unwrap_or(self.name),
            Kind::Gauge | Kind::Histogram => self.name,
        }
    }

    /// The help as text, without the marks of Markdown: of `[a jail](jail.md)` it keeps the words.
    pub fn plain_help(&self) -> String {
        let (mut plain, mut rest) = (String::new(), self.help);
        while let Some((before, (words, after))) = link(rest) {
            plain += before;
            plain += words;
            rest = after;
        }
        plain += rest;
        plain.replace('`', "")
    }
}

impl Kind {
    /// The word for it in the text formats.
    pub fn word(self) -> &'static str {
        match self {
            Self::Counter => "counter",
            Self::Gauge => "gauge",
            Self::Histogram => "histogram",
        }
    }
}

impl Process {
    /// The word for it in the reference.
    pub fn word(self) -> &'static str {
        match self {
            Self::Gateway => "gateway",
            Self::Worker => "worker",
            Self::Both => "gateway, worker",
        }
    }
}

/// The first link in a text: what is before it, its words, and what is after it.
fn link(text: &str) -> Option<(&str, (&str, &str))> {
    let (before, rest) = text.split_once('[')?;
    let (words, rest) = rest.split_once("](")?;
    let (_, after) = rest.split_once(')')?;
    Some((before, (words, after)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_help_keeps_the_words_of_links() {
        let help = "Calls by [jail](a.md) and `code`, of [skills](b.md).";
        let metric = Metric { name: "a_total", kind: Kind::Counter, labels: &[], of: Process::Both, help };
        assert_eq!(metric.plain_help(), "Calls by jail and code, of skills.");
        assert_eq!((metric.family(), metric.unit()), ("a", None));
    }
}
