//! What openskill has to be, beside what was measured. These are figures: nothing fails if one does not hold.

use std::time::Duration;

use crate::growth::Line;
use crate::memory::{MANY, Part};
use crate::rounds::Throughput;
use crate::settings::IN_FLIGHT;
use crate::usage::Memory;

/// One thing that has to hold.
#[derive(Debug)]
pub(crate) struct Claim {
    pub(crate) claim: String,
    pub(crate) figure: String,
    pub(crate) held: String,
}

/// Cost may grow by so much more than the size before it is called superlinear: what two measurements differ by.
const NOISE: f64 = 1.15;

fn claim(claim: &str, figure: String, held: bool) -> Claim {
    Claim { claim: claim.to_owned(), figure, held: if held { "held" } else { "not held" }.to_owned() }
}

pub(crate) fn of_throughput(found: &Throughput) -> Vec<Claim> {
    let rate = |id| found.get((id, 64)).ok().map(|cell| cell.per_second);
    let p50 = |id| found.get((id, 1)).ok().map(|cell| cell.p50.as_secs_f64());
    let mut claims = Vec::new();
    if let (Some(own), Some(bare)) = (rate("invoke"), rate("bare2-current")) {
        let words = "at 64 in flight, at least 75 % of the bare two-hop forwarder of the same flavour";
        claims.push(claim(words, format!("{:.0} %", 100.0 * own / bare), own >= 0.75 * bare));
    }
    if let (Some(own), Some(bare)) = (rate("invoke"), rate("bare2-multi")) {
        let words = "at 64 in flight, above the bare forwarder of two threads";
        claims.push(claim(words, format!("{:.0} %", 100.0 * own / bare), own > bare));
    }
    if let (Some(own), Some(bare)) = (p50("invoke"), p50("bare2-current")) {
        let words = "at one in flight, p50 at most 1.3 times the bare forwarder's";
        claims.push(claim(words, format!("{:.2} times", own / bare), own <= 1.3 * bare));
    }
    let fastapi = ["fastapi-1", "fastapi-2"];
    claims.extend(times(found, "fork", &fastapi, 11.0, "`isolation: fork`, at least 11 times FastAPI's calls/s"));
    claims.extend(quicker(found, "fork", &fastapi));
    claims.extend(times(found, "shared", &fastapi, 150.0, "`isolation: shared`, at least 150 times FastAPI's calls/s"));
    let words = "an echo in the worker, more than 30 times mcpo's calls/s";
    claims.extend(times(found, "invoke", &["mcpo"], 30.0, words));
    claims.extend(times(found, "rest", &["mcpo"], 30.0, &format!("{words}, by REST as mcpo's")));
    for (id, over) in [("proxy-http", "HTTP"), ("proxy-stdio", "stdio")] {
        let words =
            format!("an echo in the worker, 1000 times the calls/s of the FastMCP proxy before a server over {over}");
        claims.extend(times(found, "invoke", &[id], 1000.0, &words));
        claims.extend(times(found, "many", &[id], 1000.0, &format!("{words}, by `InvokeMany`")));
    }
    claims
}

/// How many times the calls of the best of `others`, at each number of callers.
fn times(found: &Throughput, own: &'static str, others: &[&'static str], least: f64, words: &str) -> Option<Claim> {
    let ratios = at_each(|callers| {
        let rate = |id| found.get((id, callers)).ok().map(|cell| cell.per_second);
        let best = others.iter().filter_map(|id| rate(*id)).fold(0.0, f64::max);
        (best > 0.0).then(|| rate(own).map(|own| own / best)).flatten()
    });
    let tell = |ratio: f64| if ratio < 10.0 { format!("{ratio:.1}") } else { format!("{ratio:.0}") };
    at_all(words, &ratios, tell, |ratio| ratio >= least)
}

/// Whether the slowest calls are quicker than those of the best of `others`.
fn quicker(found: &Throughput, own: &'static str, others: &[&'static str]) -> Option<Claim> {
    let ratios = at_each(|callers| {
        let p99 = |id| found.get((id, callers)).ok().map(|cell| cell.p99);
        let best: Duration = others.iter().filter_map(|id| p99(*id)).min()?;
        Some(p99(own)?.as_secs_f64() / best.as_secs_f64())
    });
    let words = "`isolation: fork`, p99 as a share of FastAPI's, below 1";
    at_all(words, &ratios, |ratio| format!("{ratio:.2}"), |ratio| ratio < 1.0)
}

fn at_each(ratio: impl Fn(usize) -> Option<f64>) -> Vec<(usize, f64)> {
    IN_FLIGHT.into_iter().filter_map(|callers| Some((callers, ratio(callers)?))).collect()
}

fn at_all(
    words: &str,
    ratios: &[(usize, f64)],
    tell: impl Fn(f64) -> String,
    holds: impl Fn(f64) -> bool,
) -> Option<Claim> {
    let list = |wanted: bool| -> Vec<_> {
        let some = ratios.iter().filter(|(_, ratio)| holds(*ratio) == wanted);
        some.map(|(callers, _)| callers.to_string()).collect()
    };
    let held = match (list(true), list(false)) {
        (held, not) if held.is_empty() && not.is_empty() => return None,
        (_, not) if not.is_empty() => "held".to_owned(),
        (held, _) if held.is_empty() => "not held".to_owned(),
        (held, not) => format!("held at {}; not at {}", held.join(", "), not.join(", ")),
    };
    let figures: Vec<_> = ratios.iter().map(|(callers, ratio)| format!("{} at {callers}", tell(*ratio))).collect();
    Some(Claim { claim: words.to_owned(), figure: figures.join(", "), held })
}

pub(crate) fn of_memory(parts: &[Part]) -> Vec<Claim> {
    let find = |id: &str, part: &str| parts.iter().find(|it| it.id == id && it.part == part);
    // With all it shares: a page that others have too is not free where there are no others.
    let limit = |what: &str, memory: Memory, most: f64| {
        let megabytes = |kib: u64| kib as f64 * 1024.0 / 1e6;
        let (pss, rss) = (megabytes(memory.pss_kib), megabytes(memory.rss_kib));
        let figure = format!("{rss:.1} MB; {pss:.1} if it has only its share of what it shares");
        claim(&format!("{what}, less than {most} MB"), figure, rss < most)
    };
    let mut claims = Vec::new();
    if let Some(part) = find("invoke", "gateway") {
        claims.push(limit("gateway at rest", part.rest, 30.0));
    }
    if let Some(part) = find("many-calls", "gateway") {
        claims.push(limit(&format!("gateway with {MANY} calls in flight"), part.load, 200.0));
    }
    if let Some(part) = find("invoke", "worker") {
        claims.push(limit("worker at rest", part.rest, 20.0));
    }
    claims
}

pub(crate) fn of_growth(lines: &[Line]) -> Vec<Claim> {
    lines.iter().filter_map(line).collect()
}

/// Between each size and the first.
fn line(line: &Line) -> Option<Claim> {
    let last = line.points.last()?;
    let within = |(size, p50, cpu): (f64, f64, f64)| p50 <= size * NOISE && cpu <= size * NOISE;
    let (size, p50, cpu) = line.factors(last);
    let figure = format!("{size:.0} times the size: p50 {p50:.1} times, CPU per call {cpu:.1} times");
    let words = format!("{}: nothing superlinear", line.axis.name());
    Some(claim(&words, figure, line.points.iter().all(|point| within(line.factors(point)))))
}
