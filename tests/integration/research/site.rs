//! A site that is read page by page.

use openskill_tests::system::PATIENCE;
use openskill_tests::wait::until_true;

use super::*;

fn with_site(backend: &Backend) -> Setup {
    with_provider("site").with("OPENSKILL_RESEARCH_URL", backend.url("/start"))
}

fn links(to: &[&str]) -> Reply {
    let links: String = to.iter().map(|it| format!("<a href='{it}'>x</a> ")).collect();
    Reply::new(200, "text/html", format!("<body><nav>{links}</nav><p>Contents of this site.</p></body>"))
}

fn paths(backend: &Backend) -> Vec<String> {
    backend.seen().iter().map(|it| it.path().to_owned()).collect()
}

#[tokio::test]
async fn a_site_is_read_as_its_robots_txt_allows_and_is_kept() {
    let other = Backend::start(|_| page("Other", "The keeper of the lighthouse is Mallory.")).await;
    let elsewhere = other.url("/");
    let backend = Backend::start(move |seen| match seen.path() {
        "/robots.txt" => Reply::new(
            200,
            "text/plain",
            format!("User-agent: *\nDisallow: /private\nSitemap: http://{}/map.xml\n", seen.header("host")),
        ),
        "/map.xml" => {
            let url = format!("http://{}/of-the-map", seen.header("host"));
            Reply::new(200, "application/xml", format!("<urlset><url><loc>{url}</loc></url></urlset>"))
        }
        "/start" => links(&["/keeper", "private/x", "/keeper#again", &elsewhere, "/picture.png", "/moved"]),
        "/keeper" => page("Keepers", "The keeper of the lighthouse is Ada. She has two boats."),
        "/of-the-map" => page("Boats", "The boats of the lighthouse are red."),
        "/moved" => Reply::redirect(302, "/private/y"),
        other => page("Private", &format!("The keeper of the lighthouse at {other} is Eve.")),
    })
    .await;
    let system = with_site(&backend).start().await;
    let answer = ask(&system, "Who is the keeper of the lighthouse?").await;
    assert_eq!(quotes(&answer)[0], "The keeper of the lighthouse is Ada. She has two boats.", "{answer}");
    assert_eq!(answer["citations"][0]["url"], backend.url("/keeper"));
    assert!(!answer.to_string().contains("Eve") && !answer.to_string().contains("Mallory"), "{answer}");
    let boats = ask(&system, "What colour are the boats of the lighthouse?").await;
    assert!(quotes(&boats)[0].contains("red"), "{boats}");
    let mut read = paths(&backend);
    read.sort();
    assert_eq!(read, ["/keeper", "/map.xml", "/moved", "/of-the-map", "/robots.txt", "/start"], "each once");
    assert_eq!(other.connections(), 0);
    assert!(backend.seen()[0].header("user-agent").starts_with("openskill/"));
}

#[tokio::test]
async fn a_site_whose_robots_txt_fails_is_not_read() {
    let backend = Backend::start(|seen| match seen.path() {
        "/robots.txt" => Reply::new(503, "text/plain", ""),
        _ => page("Keepers", "The keeper of the lighthouse is Ada."),
    })
    .await;
    let answer = ask(&with_site(&backend).start().await, "Who is the keeper of the lighthouse?").await;
    assert!(is_nothing(&answer) && warnings(&answer).contains("robots.txt"), "{answer}");
    assert!(!paths(&backend).contains(&"/start".to_owned()));
}

#[tokio::test]
async fn no_more_pages_are_read_than_the_setting_says() {
    let backend = Backend::start(|seen| match seen.path() {
        "/robots.txt" | "/sitemap.xml" => Reply::new(404, "text/plain", ""),
        path => {
            let number = path.len();
            let next: Vec<String> = (0..3).map(|it| format!("{path}{it}")).collect();
            let links: String = next.iter().map(|it| format!("<a href='{it}'>x</a>")).collect();
            Reply::new(200, "text/html", format!("<p>The keeper number {number} is Ada.</p>{links}"))
        }
    })
    .await;
    let system = with_site(&backend).with("OPENSKILL_RESEARCH_SITE_PAGES", 10).start().await;
    let answer = ask(&system, "Who is the keeper?").await;
    assert!(quotes(&answer)[0].contains("Ada"), "{answer}");
    assert_eq!(backend.seen().len(), 10 + 2, "{:?}", paths(&backend));
}

#[tokio::test]
async fn a_call_goes_on_where_a_cancelled_one_stopped() {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};
    let is_slow = Arc::new(AtomicBool::new(true));
    let slow = Arc::clone(&is_slow);
    let backend = Backend::start(move |seen| match seen.path() {
        "/robots.txt" | "/sitemap.xml" => Reply::new(404, "text/plain", ""),
        "/start" => links(&["/first", "/second"]),
        "/second" if slow.load(Ordering::SeqCst) => Reply::pieces("text/html", futures_util::stream::pending()),
        path => page("Keepers", &format!("The keeper of {} is Ada.", path.trim_matches('/'))),
    })
    .await;
    let system = with_site(&backend).start().await;
    let mut client = system.skills().await;
    let asked = request("quick_research", json!({ "question": "Who is the keeper of second?" }));
    let running = tokio::spawn(async move { client.invoke(InvokeRequest { timeout_ms: 30_000, ..asked }).await });
    until_true("the second page is being read", PATIENCE, || paths(&backend).contains(&"/second".to_owned())).await;
    until_true("the first page was read", PATIENCE, || paths(&backend).contains(&"/first".to_owned())).await;
    running.abort();
    is_slow.store(false, Ordering::SeqCst);
    let answer = ask(&system, "Who is the keeper of second?").await;
    assert!(quotes(&answer)[0].contains("The keeper of second is Ada."), "{answer}");
    assert_eq!(paths(&backend).iter().filter(|it| *it == "/start").count(), 1, "{:?}", paths(&backend));
}
