//! The value of every series at one moment, for scrapes and exports.

use crate::metrics::instruments::{Counter, Distribution, Histogram};
use crate::metrics::metric::Metric;
use crate::metrics::skills::{SkillMetrics, SkillSeries};

/// All families, in the order of their addition.
#[derive(Debug, Default)]
pub struct Snapshot {
    families: Vec<Family>,
}

/// A metric and all its series.
#[derive(Debug)]
pub struct Family {
    /// The name, type and help text.
    pub metric: &'static Metric,
    /// All series of the metric.
    pub series: Vec<Series>,
}

/// One combination of label values, with its value.
#[derive(Debug)]
pub struct Series {
    /// The label values, in the order of the metric's labels.
    pub labels: Vec<String>,
    /// The value at the moment of the snapshot.
    pub value: Value,
}

/// What a series measured, by metric type.
#[derive(Debug)]
pub enum Value {
    /// The value of a counter.
    Count(u64),
    /// The value of a gauge, or of a counter with fractional values.
    Number(f64),
    /// The value of a histogram.
    Durations(Box<Distribution>),
}

impl Snapshot {
    /// Returns the families, in the order of their addition.
    pub fn families(&self) -> &[Family] {
        &self.families
    }

    /// Returns the number of series. Each bucket of a histogram counts as one.
    pub fn series(&self) -> usize {
        let samples = |value: &Value| match value {
            Value::Durations(it) => it.counts.len() + 2,
            Value::Count(_) | Value::Number(_) => 1,
        };
        self.families.iter().flat_map(|family| &family.series).map(|series| samples(&series.value)).sum()
    }

    /// Keeps only the series that have this label with a wanted value.
    pub fn keep_only(&mut self, label: &str, wanted: impl Fn(&str) -> bool) {
        self.families.retain_mut(|family| {
            let Some(place) = family.metric.labels.iter().position(|it| *it == label) else { return false };
            family.series.retain(|series| series.labels.get(place).is_some_and(|value| wanted(value)));
            !family.series.is_empty()
        });
    }

    /// Adds the series of a counter.
    pub fn count(&mut self, metric: &'static Metric, labels: &[&str], counter: &Counter) {
        self.add(metric, labels, Value::Count(counter.get()));
    }

    /// Adds a series with a numeric value.
    pub fn number(&mut self, metric: &'static Metric, labels: &[&str], number: f64) {
        self.add(metric, labels, Value::Number(number));
    }

    /// Adds the series of a histogram.
    pub fn durations(&mut self, metric: &'static Metric, labels: &[&str], histogram: &Histogram) {
        self.add(metric, labels, Value::Durations(Box::new(histogram.read())));
    }

    /// Adds a series, and its family if it is new.
    pub fn add(&mut self, metric: &'static Metric, labels: &[&str], value: Value) {
        debug_assert_eq!(labels.len(), metric.labels.len(), "{}", metric.name);
        let series = Series { labels: labels.iter().map(|it| (*it).to_owned()).collect(), value };
        // The series of a family are added consecutively, so the family is the last one or new.
        match self.families.iter_mut().rev().find(|family| std::ptr::eq(family.metric, metric)) {
            Some(family) => family.series.push(series),
            None => self.families.push(Family { metric, series: vec![series] }),
        }
    }

    /// Adds the series by skill: calls, durations, errors by code and blame.
    pub fn skills(&mut self, skills: &SkillMetrics, [calls, durations, errors]: [&'static Metric; 3]) -> Vec<String> {
        let all = skills.all();
        all.iter().for_each(|it| self.count(calls, &it.labels(), &it.calls));
        all.iter().for_each(|it| self.durations(durations, &it.labels(), &it.durations));
        all.iter().for_each(|it| self.errors(it, errors));
        all.iter().map(|it| it.labels()[0].to_owned()).collect()
    }

    fn errors(&mut self, skill: &SkillSeries, metric: &'static Metric) {
        let [name, runner] = skill.labels();
        for (code, blame, count) in skill.errors.read() {
            self.add(metric, &[name, runner, code, blame], Value::Count(count));
        }
    }
}
