//! One answer of `GET /metrics`, read.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use http::Method;
use openskill_tests::rest;
use openskill_tests::system::System;

/// The answer to a scrape.
pub(super) struct Scraped {
    pub(super) text: String,
    /// The value of each series, by its name and labels as they are written.
    pub(super) series: BTreeMap<String, f64>,
}

pub(super) async fn scrape_gateway(system: &System) -> Scraped {
    scrape(system.address).await
}

pub(super) async fn scrape(address: SocketAddr) -> Scraped {
    let answer = rest::send(address, Method::GET, "/metrics", &[], "").await;
    assert_eq!(answer.status, 200);
    Scraped::read(String::from_utf8(answer.body.to_vec()).unwrap())
}

impl Scraped {
    pub(super) fn read(text: String) -> Self {
        let mut series = BTreeMap::new();
        for line in text.lines().filter(|line| !line.starts_with('#')) {
            let (name, value) = line.rsplit_once(' ').unwrap_or_else(|| panic!("a series and its value: {line}"));
            let value = value.replace("+Inf", "inf").parse().unwrap_or_else(|_| panic!("a number: {line}"));
            assert!(series.insert(name.to_owned(), value).is_none(), "{name} is there twice");
        }
        Self { text, series }
    }

    /// The value of a series, if it is there.
    pub(super) fn find(&self, series: &str) -> Option<f64> {
        self.series.get(series).copied()
    }

    /// The value of a series.
    #[track_caller]
    pub(super) fn value(&self, series: &str) -> f64 {
        self.find(series).unwrap_or_else(|| panic!("{series} is missing in:\n{}", self.text))
    }

    /// All values of a label, once each.
    pub(super) fn labels(&self, name: &str) -> Vec<String> {
        let begin = format!("{name}=\"");
        let value = |series: &String| {
            let (_, labels) = series.split_once('{')?;
            let (_, rest) = labels.split_once(&begin)?;
            Some(rest.split('"').next()?.to_owned())
        };
        let all: std::collections::BTreeSet<_> = self.series.keys().filter_map(value).collect();
        all.into_iter().collect()
    }
}
