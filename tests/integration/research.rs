//! `quick_research`, `research` and `comprehensive_research`: searched, read and quoted over real connections.

use bytes::Bytes;
use openskill_proto::v1::{InvokeRequest, SkillResult};
use openskill_tests::backend::{Backend, Reply, Seen};
use openskill_tests::system::{Setup, System, code, data, request};
use serde_json::{Value, json};

mod engines;
mod folder;
mod limits;
mod model;
mod site;
mod walls;

/// A page.
fn page(title: &str, text: &str) -> Reply {
    let html = format!("<html><head><title>{title}</title></head><body><main><p>{text}</p></main></body></html>");
    Reply::new(200, "text/html; charset=utf-8", html)
}

/// The answer of any of the three engines, with these pages. A path is one of the server itself.
fn results(seen: &Seen, pages: &[(&str, &str, &str)]) -> Reply {
    let url =
        |it: &str| if it.starts_with('/') { format!("http://{}{it}", seen.header("host")) } else { it.to_owned() };
    let one = |(to, title, snippet): &(&str, &str, &str)| json!({ "url": url(to), "title": title, "content": snippet, "description": snippet });
    let pages: Vec<Value> = pages.iter().map(one).collect();
    Reply::json(200, &json!({ "results": pages, "web": { "results": pages } }))
}

fn is_search(seen: &Seen) -> bool {
    seen.path().ends_with("/search")
}

/// The words that were searched for.
fn query(seen: &Seen) -> String {
    if seen.method == http::Method::POST {
        return seen.json()["query"].as_str().unwrap().to_owned();
    }
    let query = seen.target.split("q=").nth(1).unwrap().split('&').next().unwrap();
    query.replace('+', " ").replace("%3F", "?")
}

/// A worker whose engine and pages are this server.
fn with_engine(backend: &Backend) -> Setup {
    with_provider("searxng")
        .with("OPENSKILL_RESEARCH_URL", backend.url(""))
        .with("OPENSKILL_RESEARCH_ALLOW", backend.address)
}

fn with_provider(provider: &str) -> Setup {
    Setup::shipped().flag("--workers", 1).with("OPENSKILL_RESEARCH_PROVIDER", provider)
}

async fn call(system: &System, skill: &str, input: Value) -> SkillResult {
    system.invoke(InvokeRequest { timeout_ms: 30_000, ..request(skill, input) }).await
}

/// The data of a call that succeeds.
async fn found(system: &System, skill: &str, input: Value) -> Value {
    let result = call(system, skill, input.clone()).await;
    assert_eq!(code(&result), "", "{skill} {input}: {result:?}\n{}", system.process.log.text());
    data(&result)
}

async fn ask(system: &System, question: &str) -> Value {
    found(system, "quick_research", json!({ "question": question })).await
}

fn quotes(answer: &Value) -> Vec<String> {
    answer["citations"].as_array().unwrap().iter().map(|it| it["quote"].as_str().unwrap().to_owned()).collect()
}

fn warnings(answer: &Value) -> String {
    answer["warnings"].as_array().unwrap().iter().map(|it| it.as_str().unwrap().to_owned() + "\n").collect()
}

fn is_nothing(answer: &Value) -> bool {
    answer["answer"] == "nothing found" && answer["citations"] == json!([])
}

/// A PDF file with one line of text.
pub(crate) fn pdf(text: &str) -> Bytes {
    let content = format!("BT /F1 12 Tf 72 720 Td ({text}) Tj ET");
    let objects = [
        "<< /Type /Catalog /Pages 2 0 R >>".to_owned(),
        "<< /Type /Pages /Kids [3 0 R] /Count 1 >>".to_owned(),
        "<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Contents 4 0 R /Resources << /Font << /F1 5 0 R >> >> >>".to_owned(),
        format!("<< /Length {} >>\nstream\n{content}\nendstream", content.len()),
        "<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica /Encoding /WinAnsiEncoding >>".to_owned(),
    ];
    pdf_of(&objects)
}

/// A PDF file of these objects, the first of which is its catalog.
fn pdf_of(objects: &[String]) -> Bytes {
    let (mut file, mut places) = ("%PDF-1.4\n".to_owned(), String::new());
    for (number, object) in objects.iter().enumerate() {
        places += &format!("{:010} 00000 n \n", file.len());
        file += &format!("{} 0 obj\n{object}\nendobj\n", number + 1);
    }
    let (table, size) = (file.len(), objects.len() + 1);
    file += &format!(
        "xref\n0 {size}\n0000000000 65535 f \n{places}trailer\n<< /Size {size} /Root 1 0 R >>\nstartxref\n{table}\n%%EOF\n"
    );
    file.into()
}

#[tokio::test]
async fn without_a_provider_the_tools_are_unavailable_and_say_why() {
    let system = Setup::shipped().start().await;
    for tool in ["quick_research", "research", "comprehensive_research"] {
        let described = system.get(&format!("/skills/{tool}")).await.json();
        assert_eq!(described["status"], "unavailable", "{described}");
        assert!(described["status_reason"].as_str().unwrap().contains("OPENSKILL_RESEARCH_PROVIDER"), "{described}");
    }
}

#[tokio::test]
async fn doctor_names_the_source_and_misses_none() {
    let skills = openskill_tests::repository().join("worker/skills");
    let folder = openskill_tests::folder::Folder::new();
    let data = folder.path().join("data");
    std::fs::create_dir(&data).unwrap();
    for (provider, expected) in
        [("", "set OPENSKILL_RESEARCH_PROVIDER"), ("folder", "folder: /srv/documents; answers consist of")]
    {
        let ran = tokio::process::Command::new(openskill_tests::binary())
            .args(["doctor", "--json", "--skills-dir"])
            .arg(&skills)
            .arg("--allowed-root")
            .arg(&data)
            .current_dir(folder.path())
            .env("OPENSKILL_RESEARCH_PROVIDER", provider)
            .env("OPENSKILL_RESEARCH_FOLDER", "/srv/documents")
            .output()
            .await
            .unwrap();
        let found: Value = serde_json::from_slice(&ran.stdout).unwrap_or_else(|_| panic!("{ran:?}"));
        let research = found["machine"].as_array().unwrap().iter().find(|it| it["topic"] == "research").unwrap();
        assert!(research["text"].as_str().unwrap().contains(expected), "{research}");
        let skills = found["skills"].as_array().unwrap();
        assert_eq!(skills.iter().any(|it| it["topic"] == "quick_research"), !provider.is_empty(), "{found}");
        assert!(!skills.iter().any(|it| it["topic"] == "quick_research" && it["status"] != "ok"), "{found}");
    }
}
