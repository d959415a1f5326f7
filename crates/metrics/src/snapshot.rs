//! The value of every series at one moment: what a scrape writes as text, and what is exported.

use crate::instruments::{Counter, Distribution, Histogram};
use crate::metric::Metric;
use crate::skills::{SkillSeries, Skills};

/// All families, in the order in which they were added.
#[derive(Debug, Default)]
pub struct Snapshot {
    families: Vec<Family>,
}

/// All series of one metric.
#[derive(Debug)]
pub struct Family {
    /// The metric.
    pub metric: &'static Metric,
    /// Its series.
    pub series: Vec<Series>,
}

/// One series.
#[derive(Debug)]
pub struct Series {
    /// The values of the metric's labels, in their order.
    pub labels: Vec<String>,
    /// The value.
    pub value: Value,
}

/// The value of a series.
#[derive(Debug)]
pub enum Value {
    /// Of a counter.
    Count(u64),
    /// Of a gauge, or of a counter of something that has fractions.
    Number(f64),
    /// Of a histogram.
    Durations(Box<Distribution>),
}

impl Snapshot {
    /// The families so far.
    pub fn families(&self) -> &[Family] {
        &self.families
    }

    /// How many series there are, where each bucket of a histogram is one.
    pub fn series(&self) -> usize {
        let samples = |value: &Value| match value {
            Value::Durations(it) => it.counts.len() + 2,
            Value::Count(_) | Value::Number(_) => 1,
        };
        self.families.iter().flat_map(|family| &family.series).map(|series| samples(&series.value)).sum()
    }

    /// Leaves the series whose label of this name has a wanted value, and no others.
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

    /// Adds a series with a number.
    pub fn number(&mut self, metric: &'static Metric, labels: &[&str], number: f64) {
        self.add(metric, labels, Value::Number(number));
    }

    /// Adds the series of a histogram.
    pub fn durations(&mut self, metric: &'static Metric, labels: &[&str], histogram: &Histogram) {
        self.add(metric, labels, Value::Durations(Box::new(histogram.read())));
    }

    /// Adds a series.
    pub fn add(&mut self, metric: &'static Metric, labels: &[&str], value: Value) {
        debug_assert_eq!(labels.len(), metric.labels.len(), "{}", metric.name);
        let series = Series { labels: labels.iter().map(|it| (*it).to_owned()).collect(), value };
        // Families are added one after the other, so it is the last one or new.
        match self.families.iter_mut().rev().find(|family| std::ptr::eq(family.metric, metric)) {
            Some(family) => family.series.push(series),
            None => self.families.push(Family { metric, series: vec![series] }),
        }
    }

    /// Adds what is counted by skill: calls, durations, errors by code and blame.
    pub fn skills(&mut self, skills: &Skills, [calls, durations, errors]: [&'static Metric; 3]) -> Vec<String> {
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
