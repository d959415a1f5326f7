//! The APIs of search engines: what is asked, what becomes of it, and what does not.

use std::time::{Duration, Instant};

use futures_util::StreamExt as _;
use openskill_tests::port::Port;

use super::*;

const RHINE: &str = "The Rhine rises in Switzerland. It flows into the North Sea after 1,230 kilometres.";

fn rhine(seen: &Seen) -> Reply {
    match seen.path() {
        _ if is_search(seen) => results(seen, &[("/rhine", "The Rhine", "A river that flows uphill to the Moon.")]),
        "/rhine" => page("The Rhine", RHINE),
        _ => Reply::new(404, "text/plain", "not found"),
    }
}

#[tokio::test]
async fn each_engine_finds_pages_and_the_pages_are_quoted() {
    let backend = Backend::start(rhine).await;
    for provider in ["searxng", "brave", "tavily"] {
        let setup = with_provider(provider).with("OPENSKILL_RESEARCH_URL", backend.url("/api"));
        let setup = setup.with("OPENSKILL_RESEARCH_ALLOW", backend.address).with("OPENSKILL_LOG", "debug");
        let system = setup.with("OPENSKILL_RESEARCH_API_KEY", "k3y-of-the-test").start().await;
        let answer = ask(&system, "Where does the Rhine rise?").await;
        assert_eq!(quotes(&answer), [RHINE], "{provider}: {answer}");
        let citation = &answer["citations"][0];
        assert_eq!((&citation["n"], &citation["url"]), (&json!(1), &json!(backend.url("/rhine"))));
        assert_eq!(citation["title"], "The Rhine");
        assert_eq!(citation["fetched_at"].as_str().unwrap().len(), "2026-01-01T00:00:00Z".len());
        assert_eq!(answer["answer"], format!("“{RHINE}” [1]"));
        assert_eq!((&answer["loops"], &answer["pages_read"], &answer["warnings"]), (&json!(1), &json!(1), &json!([])));
        let asked = backend.seen().into_iter().rfind(is_search).unwrap();
        assert_eq!(query(&asked), "Where does the Rhine rise?");
        let key = format!("{}{}", asked.header("x-subscription-token"), asked.header("authorization"));
        let expected = ["", "k3y-of-the-test", "Bearer k3y-of-the-test"];
        assert!(expected.contains(&key.as_str()) && (provider == "searxng" || !key.is_empty()), "{provider}: {key}");
        assert!(
            !backend.last().headers.values().any(|it| it.to_str().unwrap().contains("k3y")),
            "no page gets the key"
        );
        assert!(!system.process.log.text().contains("k3y-of-the-test") && !answer.to_string().contains("k3y"));
    }
}

#[tokio::test]
async fn results_are_marked_as_untrusted_and_progress_is_reported() {
    let backend = Backend::start(rhine).await;
    let system = with_engine(&backend).start().await;
    let described = system.get("/skills/quick_research").await.json();
    assert_eq!(described["untrusted"], true, "{described}");
    let request = request("quick_research", json!({ "question": "Where does the Rhine rise?" }));
    let events = system.skills().await.invoke_stream(request).await.unwrap().into_inner();
    let said: Vec<String> = events
        .filter_map(|it| async move {
            match it.unwrap().event {
                Some(openskill_proto::v1::invoke_event::Event::Progress(it)) => Some(it.message),
                _ => None,
            }
        })
        .collect()
        .await;
    assert_eq!(said, ["searching: Where does the Rhine rise?", "reading 1 of 1"]);
}

#[tokio::test]
async fn what_an_engine_invents_is_not_cited() {
    let backend = Backend::start(|seen| match seen.path() {
        _ if is_search(seen) => results(
            seen,
            &[
                ("/invented", "The mayor of Atlantis", "The mayor of Atlantis is Neptune."),
                ("javascript:alert(1)", "The mayor of Atlantis", "The mayor of Atlantis is Neptune."),
                ("/other", "The mayor of Atlantis", "The mayor of Atlantis is Neptune."),
            ],
        ),
        "/other" => page("Recipes", "Mix flour and water, and bake it for an hour."),
        _ => Reply::new(404, "text/plain", "The mayor of Atlantis is Neptune."),
    })
    .await;
    let system = with_engine(&backend).start().await;
    let answer = ask(&system, "Who is the mayor of Atlantis?").await;
    assert!(is_nothing(&answer), "{answer}");
    assert!(warnings(&answer).contains("/invented was not read: the server answered with status 404"), "{answer}");
}

#[tokio::test]
async fn an_engine_that_refuses_more_queries_leaves_a_partial_answer() {
    let backend = Backend::start(|seen| match query_or_path(seen).as_str() {
        "second" => Reply::new(429, "text/plain", "slow down").with("retry-after", "60"),
        _ => rhine(seen),
    })
    .await;
    let system = with_engine(&backend).start().await;
    let input = json!({ "question": "Where does the Rhine rise?", "initial_queries": ["first", "second", "third"] });
    let answer = found(&system, "research", input).await;
    assert_eq!(quotes(&answer), [RHINE]);
    assert!(warnings(&answer).contains("the search for 'second' failed: the server refuses more requests"), "{answer}");
    assert_eq!(answer["queries"], json!(["first", "second"]), "it is not asked again");
}

fn query_or_path(seen: &Seen) -> String {
    if is_search(seen) { query(seen) } else { seen.path().to_owned() }
}

#[tokio::test]
async fn an_engine_that_is_slow_down_or_broken_is_a_warning_in_time() {
    let silent = Backend::start(|_| Reply::pieces("application/json", futures_util::stream::pending())).await;
    let broken = Backend::start(|_| Reply::new(200, "text/html", "<html>Please log in</html>")).await;
    let failing = Backend::start(|_| Reply::new(500, "text/plain", "no")).await;
    let nobody = Port::reserve();
    for (url, warning) in [
        (silent.url(""), "there was no answer within"),
        (broken.url(""), "the provider's answer does not match its API"),
        (failing.url(""), "the server answered with status 500"),
        (format!("http://{}", nobody.address()), "the server cannot be reached"),
    ] {
        let setup = with_provider("searxng").with("OPENSKILL_RESEARCH_URL", url);
        let system = setup.with("OPENSKILL_RESEARCH_MAX_SECONDS", 2).start().await;
        let begun = Instant::now();
        let answer = ask(&system, "Where does the Rhine rise?").await;
        assert!(is_nothing(&answer) && warnings(&answer).contains(warning), "{answer}");
        assert!(begun.elapsed() < Duration::from_secs(20), "{:?}", begun.elapsed());
    }
}

#[tokio::test]
async fn what_no_quote_covers_is_searched_for_next() {
    let backend = Backend::start(|seen| match query_or_path(seen).as_str() {
        "/tower" => page("The Eiffel Tower", "The Eiffel Tower was designed by Maurice Koechlin."),
        "/paint" => page("Paint", "The railings were painted yellow in 1899 by some workers."),
        asked if is_search(seen) && asked.starts_with("Who designed") => {
            results(seen, &[("/tower", "The Eiffel Tower", "")])
        }
        asked if is_search(seen) && asked.contains("yellow") => results(seen, &[("/paint", "Paint", "")]),
        other => panic!("{other}"),
    })
    .await;
    let system = with_engine(&backend).start().await;
    let question = "Who designed the Eiffel Tower and painted railings yellow?";
    let answer = found(&system, "research", json!({ "question": question, "max_loops": 2 })).await;
    assert_eq!(answer["loops"], 2, "{answer}");
    assert_eq!(answer["queries"][0], question);
    assert!(answer["queries"][1].as_str().unwrap().contains("railings"), "{answer}");
    let quotes = quotes(&answer).join("\n");
    assert!(quotes.contains("Koechlin") && quotes.contains("1899"), "{answer}");
    let once = found(&system, "research", json!({ "question": question, "max_loops": 1 })).await;
    assert_eq!((&once["loops"], once["queries"].as_array().unwrap().len()), (&json!(1), 1));
}

#[tokio::test]
async fn a_model_that_is_not_configured_is_a_warning() {
    let backend = Backend::start(rhine).await;
    let system = with_engine(&backend).start().await;
    let input = json!({ "question": "Where does the Rhine rise?", "reasoning_model": "some-model" });
    let answer = found(&system, "research", input).await;
    assert_eq!(answer["warnings"], json!(["no model is configured; the answer is extractive"]));
    assert_eq!(quotes(&answer), [RHINE]);
}
