//! What preparing a call's arguments costs, beside parsing them: `cargo bench -p openskill-gateway`.
#![allow(missing_docs, clippy::unwrap_used, reason = "a benchmark")]

use std::collections::BTreeMap;
use std::hint::black_box;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use openskill_gateway::arguments::{Definition, Policy, Rules};
use serde_json::Value;

use sample::{VALID, schema};

#[path = "instructions/sample.rs"]
mod sample;

fn arguments(criterion: &mut Criterion) {
    let aliases = BTreeMap::from([("query".to_owned(), "task".to_owned())]);
    let definition = Definition::compile(&schema().to_string(), Rules { aliases, ..Rules::default() }, &[]).unwrap();
    assert_eq!(VALID.len(), 200, "the call is 200 bytes");
    let mut group = criterion.benchmark_group("arguments");
    group.throughput(Throughput::Bytes(VALID.len() as u64));
    group.bench_function("parse alone", |bencher| {
        bencher.iter(|| serde_json::from_str::<Value>(black_box(VALID)).unwrap());
    });
    group.bench_function("prepare, valid", |bencher| {
        bencher.iter(|| definition.prepare(black_box(VALID), Policy::Repair).unwrap());
    });
    let cases = [
        ("prepare, one type repaired", VALID.replace("25", "\"25\"")),
        ("prepare, alias and unknown key", VALID.replace("\"task\"", "\"query\"").replace("\"mode\"", "\"colour\"")),
        ("prepare, python literals", VALID.replace('"', "'").replace("true", "True")),
        ("refuse with feedback", VALID.replace("25", "\"many\"")),
    ];
    for (name, call) in &cases {
        group.bench_function(*name, |bencher| {
            bencher.iter(|| definition.prepare(black_box(call), Policy::Repair).is_ok());
        });
    }
    group.bench_function("compile the schema", |bencher| {
        let schema = schema().to_string();
        bencher.iter(|| Definition::compile(black_box(&schema), Rules::default(), &[]).unwrap());
    });
    group.finish();
}

criterion_group!(benches, arguments);
criterion_main!(benches);
