//! The ways on which callers, skills and servers bring a text into the system.

use openskill_proto::v1::InvokeRequest;
use openskill_proto::v1::invoke_request::Arguments;
use openskill_proto::v1::skill_service_client::SkillServiceClient;
use openskill_redact::testing::Planted;
use openskill_tests::backend::{Backend, Reply};
use openskill_tests::folder::Folder;
use openskill_tests::port::Port;
use openskill_tests::system::{System, request};
use openskill_tests::{fixtures, repository};
use serde_json::{Value, json};
use tonic::Request;
use tonic::transport::Channel;

/// All ways. Most are told to the skill `tells`.
pub(super) const WAYS: [&str; 25] = [
    "argument",
    "argument of its own shape",
    "argument of another type",
    "raw call",
    "raw call in XML",
    "broken body",
    "headers and path",
    "ids",
    "stderr",
    "stderr in pieces",
    "exception",
    "output",
    "error",
    "text",
    "log",
    "log in pieces",
    "progress",
    "progress in pieces",
    "partial",
    "partial in pieces",
    "HTTP service",
    "HTTP service that streams",
    "unreachable HTTP service",
    "MCP error and stderr",
    "MCP line that is no message",
];

/// The servers that skills call, and the skills.
pub(super) struct Place {
    pub(super) skills: Folder,
    _backend: Backend,
    _nobody: Port,
}

impl Place {
    pub(super) async fn new() -> Self {
        // It says what it was asked, and fails.
        let backend = Backend::start(|seen| {
            let body = String::from_utf8_lossy(&seen.body).into_owned();
            let said = seen.json()["text"].as_str().unwrap_or_default().to_owned();
            match seen.path() {
                "/stream" => Reply::new(200, "text/event-stream", format!("data: {body}\n\ndata: {said}\n\n")),
                _ => Reply::json(500, &json!({ "message": said, "asked": seen.target, "body": body })),
            }
        });
        let (skills, backend, nobody) = (Folder::new(), backend.await, Port::reserve());
        std::fs::copy(repository().join("tests/fixtures/secrets/tells.py"), skills.path().join("tells.py")).unwrap();
        skills.write("tells.yaml", "id: tells\ntype: cli\nruntime: python\nentry: tells.py\n");
        for (id, address, path) in [
            ("fails", backend.address.to_string(), "/fails/{text}?token={text}"),
            ("streams", backend.address.to_string(), "/stream"),
            ("nowhere", nobody.address().to_string(), "/{text}?api_key={text}"),
        ] {
            let http = format!("http: {{allow: ['{address}'], body: {{text: '{{text}}', again: ['{{text}}']}}}}\n");
            skills.write(
                &format!("{id}.yaml"),
                format!("id: {id}\ntype: http\nentry: 'http://{address}{path}'\n{http}parameters:\n  text: {{type: string, required: true}}\n"),
            );
        }
        let server = fixtures().with_file_name("mcp").join("servers/mcp_server.py");
        skills.write("own.yaml", format!("id: own\ntype: mcp\nruntime: stdio\nentry: {}\n", server.display()));
        Self { skills, _backend: backend, _nobody: nobody }
    }
}

/// Whether the way exists for a secret. Ids are known by what they look like alone, and are visible ASCII.
pub(super) fn leads(way: &str, planted: &Planted) -> bool {
    match way {
        "argument of its own shape" => planted.is_json,
        "ids" => planted.secret.is_known_by_look && is_header(&planted.secret.text) && planted.secret.text.len() <= 128,
        _ => true,
    }
}

fn is_header(text: &str) -> bool {
    text.bytes().all(|byte| matches!(byte, b'!'..=b'~'))
}

/// Brings a text into the system, and returns the trace id by which the call is found.
pub(super) async fn send(
    system: &System,
    skills: &SkillServiceClient<Channel>,
    way: &str,
    planted: &Planted,
    number: usize,
) -> String {
    let (text, trace) = (planted.text.as_str(), format!("secret-{number}"));
    let tells = |how: &str| request("tells", json!({ "text": text, "how": how, "size": 3 + number % 20 }));
    let raw = |skill: &str, arguments| InvokeRequest { arguments: Some(arguments), ..request(skill, json!({})) };
    let call = match way {
        "argument" => request("in_echo", json!({ "text": text, "list": [text] })),
        "argument of its own shape" => {
            request("in_echo", json!({ "value": serde_json::from_str::<Value>(text).unwrap() }))
        }
        "argument of another type" => request("typed", json!({ "task": { "text": text }, "max_steps": text })),
        "raw call" => raw("in_echo", Arguments::Call(text.to_owned())),
        "raw call in XML" => raw("", Arguments::Call(format!("<a><in_echo>{}</in_echo></a>", json!({ "text": text })))),
        "HTTP service" => request("fails", json!({ "text": text })),
        "HTTP service that streams" => request("streams", json!({ "text": text })),
        "unreachable HTTP service" => request("nowhere", json!({ "text": text })),
        "MCP error and stderr" => request("own__says", json!({ "text": text })),
        "MCP line that is no message" => request("own__breaks", json!({ "text": text })),
        "broken body" | "headers and path" => return over_rest(system, way, planted, trace).await,
        "ids" => return with_ids(skills, &planted.secret.text).await,
        how => tells(how),
    };
    run(skills, &trace, call).await;
    trace
}

/// Runs a call to its end. Its result is its caller's.
pub(super) async fn run(skills: &SkillServiceClient<Channel>, trace: &str, call: InvokeRequest) {
    let mut request = Request::new(call);
    request.metadata_mut().insert("x-trace-id", trace.parse().unwrap());
    let mut events = skills.clone().invoke_stream(request).await.unwrap().into_inner();
    while events.message().await.unwrap().is_some() {}
}

/// A secret as every id of a call.
async fn with_ids(skills: &SkillServiceClient<Channel>, secret: &str) -> String {
    let id = || secret.to_owned();
    let ids = InvokeRequest { call_id: id(), session_id: id(), idempotency_key: id(), ..request("in_echo", json!({})) };
    run(skills, secret, ids).await;
    id()
}

async fn over_rest(system: &System, way: &str, planted: &Planted, trace: String) -> String {
    let secret = planted.secret.text.replace(|it: char| !it.is_ascii_graphic(), "");
    let bearer = format!("Bearer {secret}");
    let cookie = format!("session={secret}; theme=dark");
    let member = format!("vendor={secret}");
    let headers = [
        ("x-trace-id", trace.as_str()),
        ("authorization", &bearer),
        ("cookie", &cookie),
        ("x-api-key", &secret),
        ("tracestate", &member),
        ("baggage", &member),
        ("traceparent", &secret),
        ("content-type", "application/json"),
    ];
    let encoded: String = planted.text.bytes().map(|byte| format!("%{byte:02X}")).collect();
    if way == "broken body" {
        system.post("/skills/in_echo:invoke", &headers, format!("{{\"input\": {{\"text\": {}", planted.text)).await;
    } else {
        system.post(&format!("/skills/in_echo:invoke?token={encoded}"), &headers, r#"{"input": {}}"#).await;
        system.get(&format!("/skills/{encoded}")).await;
    }
    trace
}
