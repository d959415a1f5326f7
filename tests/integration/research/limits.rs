//! Budgets hold exactly, and a page without end or a bomb costs no more than they say.

use std::io::Write as _;
use std::time::{Duration, Instant};

use flate2::Compression;
use flate2::write::GzEncoder;
use futures_util::StreamExt as _;
use openskill_tests::system::PATIENCE;
use openskill_tests::wait::until_true;

use super::*;

/// Twenty pages that all have the words.
fn many(seen: &Seen, page: impl Fn() -> Reply) -> Reply {
    if !is_search(seen) {
        return page();
    }
    let paths: Vec<String> = (0..20).map(|it| format!("/page-{it}")).collect();
    results(seen, &paths.iter().map(|it| (it.as_str(), "Rivers", "")).collect::<Vec<_>>())
}

fn pages(backend: &Backend) -> usize {
    backend.seen().iter().filter(|it| !is_search(it)).count()
}

#[tokio::test]
async fn no_more_pages_are_requested_than_the_budget_has() {
    let backend = Backend::start(|seen| many(seen, || page("Rivers", "The Rhine is a river."))).await;
    let system = with_engine(&backend).with("OPENSKILL_RESEARCH_MAX_PAGES", 3).start().await;
    let input = json!({ "question": "Which river is the Rhine of Atlantis, and why?", "max_loops": 50 });
    let answer = found(&system, "research", input).await;
    assert_eq!(pages(&backend), 3, "{answer}");
    assert_eq!(answer["budget"]["pages"], json!({ "used": 3, "limit": 3 }));
    assert_eq!(answer["budget"]["loops"]["limit"], 5, "the operator's limit holds");
    assert!(warnings(&answer).contains("the budget of pages was used up after 3 rounds"), "{answer}");
}

#[tokio::test]
async fn no_more_bytes_are_received_than_the_budget_has() {
    let long = "The Rhine is a river. ".repeat(500);
    let backend = Backend::start(move |seen| many(seen, || page("Rivers", &long))).await;
    let system = with_engine(&backend).with("OPENSKILL_RESEARCH_MAX_BYTES", 20_000).start().await;
    let answer = ask(&system, "What is the Rhine?").await;
    assert_eq!(answer["budget"]["bytes"], json!({ "used": 20_000, "limit": 20_000 }));
    assert!(quotes(&answer)[0].contains("The Rhine is a river."), "{answer}");
}

#[tokio::test]
async fn a_body_without_end_is_cut_and_its_connection_closed() {
    let piece = Bytes::from("<p>The Rhine is a river of Europe.</p>".repeat(2000));
    let backend = Backend::start(move |seen| match is_search(seen) {
        true => results(seen, &[("/endless", "Rivers", "")]),
        false => Reply::pieces("text/html", futures_util::stream::repeat(piece.clone()).boxed()),
    })
    .await;
    let system = with_engine(&backend).start().await;
    let answer = ask(&system, "What is the Rhine?").await;
    assert!(quotes(&answer)[0].contains("The Rhine is a river of Europe."), "{answer}");
    assert!(answer["budget"]["bytes"]["used"].as_u64().unwrap() < 9 << 20, "{answer}");
    until_true("the connection is closed", PATIENCE, || backend.open_connections() <= 1).await;
}

#[tokio::test]
async fn a_bomb_unpacks_to_no_more_than_a_page() {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(b"<p>The Rhine is a river of Europe.</p><p>").unwrap();
    for _ in 0..64 {
        encoder.write_all(&[b'a'; 1 << 20]).unwrap();
    }
    let bomb = Bytes::from(encoder.finish().unwrap());
    let backend = Backend::start(move |seen| match seen.path() {
        _ if is_search(seen) => results(seen, &[("/bomb", "Rivers", ""), ("/brotli", "Rivers", "")]),
        "/bomb" => Reply::new(200, "text/html", bomb.clone()).with("content-encoding", "gzip"),
        _ => Reply::new(200, "text/html", "x").with("content-encoding", "br"),
    })
    .await;
    let system = with_engine(&backend).start().await;
    let begun = Instant::now();
    let answer = ask(&system, "What is the Rhine?").await;
    assert!(quotes(&answer)[0].contains("The Rhine is a river of Europe."), "{answer}");
    assert!(warnings(&answer).contains("/brotli was not read: the answer is compressed"), "{answer}");
    assert!(begun.elapsed() < Duration::from_secs(20), "{:?}", begun.elapsed());
}

/// A PDF file whose content draws itself, without end.
fn hostile_pdf() -> Bytes {
    let form = "<< /Type /XObject /Subtype /Form /BBox [0 0 9 9] /Resources << /XObject << /F 4 0 R >> >> /Length 5 >>";
    let objects = [
        "<< /Type /Catalog /Pages 2 0 R >>".to_owned(),
        "<< /Type /Pages /Kids [3 0 R] /Count 1 >>".to_owned(),
        "<< /Type /Page /Parent 2 0 R /MediaBox [0 0 9 9] /Contents 5 0 R /Resources << /XObject << /F 4 0 R >> >> >>"
            .to_owned(),
        format!("{form}\nstream\n/F Do\nendstream"),
        "<< /Length 5 >>\nstream\n/F Do\nendstream".to_owned(),
    ];
    pdf_of(&objects)
}

#[tokio::test]
async fn a_hostile_pdf_file_ends_its_own_process_alone() {
    let backend = Backend::start(|seen| match seen.path() {
        _ if is_search(seen) => results(seen, &[("/hostile.pdf", "Rhine", ""), ("/good.pdf", "Rhine", "")]),
        "/hostile.pdf" => Reply::new(200, "application/pdf", hostile_pdf()),
        _ => Reply::new(200, "application/pdf", pdf("The Rhine is a river of Europe.")),
    })
    .await;
    let system = with_engine(&backend).start().await;
    for _ in 0..2 {
        let answer = ask(&system, "What is the Rhine?").await;
        assert_eq!(quotes(&answer), ["The Rhine is a river of Europe."], "{answer}");
        assert!(warnings(&answer).contains("/hostile.pdf was not read: its PDF text cannot be read"), "{answer}");
    }
}

#[tokio::test]
async fn slow_pages_are_given_up_in_time_and_the_rest_is_quoted() {
    let backend = Backend::start(|seen| match seen.path() {
        _ if is_search(seen) => {
            results(seen, &[("/slow", "Rhine", ""), ("/quick", "Rhine", ""), ("/drip", "Rhine", "")])
        }
        "/quick" => page("Rivers", "The Rhine is a river of Europe."),
        "/slow" => Reply::pieces("text/html", futures_util::stream::pending()),
        _ => {
            let drip = futures_util::stream::unfold((), |()| async {
                tokio::time::sleep(Duration::from_millis(50)).await;
                Some((Bytes::from_static(b"<p>drip"), ()))
            });
            Reply::pieces("text/html", drip)
        }
    })
    .await;
    let system = with_engine(&backend).with("OPENSKILL_RESEARCH_MAX_SECONDS", 2).start().await;
    let answer = ask(&system, "What is the Rhine?").await;
    assert_eq!(quotes(&answer), ["The Rhine is a river of Europe."], "{answer}");
    assert!(warnings(&answer).contains("/slow was not read: the budget of time is used up"), "{answer}");
    let seconds = answer["budget"]["seconds"]["used"].as_f64().unwrap();
    assert!((1.9..15.0).contains(&seconds), "{answer}");
}

#[tokio::test]
async fn a_deadline_gives_a_partial_answer_before_it() {
    let backend = Backend::start(|seen| match seen.path() {
        _ if is_search(seen) => results(seen, &[("/slow", "Rhine", ""), ("/quick", "Rhine", "")]),
        "/quick" => page("Rivers", "The Rhine is a river of Europe."),
        _ => Reply::pieces("text/html", futures_util::stream::pending()),
    })
    .await;
    let system = with_engine(&backend).start().await;
    let asked = request("quick_research", json!({ "question": "What is the Rhine?" }));
    let result = system.invoke(InvokeRequest { timeout_ms: 6000, ..asked }).await;
    assert_eq!(code(&result), "", "{result:?}");
    assert_eq!(quotes(&data(&result)), ["The Rhine is a river of Europe."]);
}

#[tokio::test]
async fn a_call_that_is_cancelled_closes_its_connections() {
    let backend = Backend::start(|seen| match is_search(seen) {
        true => results(
            seen,
            &[("/1", "Rhine", ""), ("/2", "Rhine", ""), ("/3", "Rhine", ""), ("/4", "Rhine", ""), ("/5", "Rhine", "")],
        ),
        false => Reply::pieces("text/html", futures_util::stream::pending()),
    })
    .await;
    let system = with_engine(&backend).start().await;
    let mut client = system.skills().await;
    let asked = request("quick_research", json!({ "question": "What is the Rhine?" }));
    let running = tokio::spawn(async move { client.invoke(InvokeRequest { timeout_ms: 30_000, ..asked }).await });
    until_true("pages are being read", PATIENCE, || pages(&backend) == 4).await;
    running.abort();
    until_true("the pages' connections are closed", PATIENCE, || backend.open_connections() <= 1).await;
    assert_eq!(pages(&backend), 4, "no further page is requested");
}
