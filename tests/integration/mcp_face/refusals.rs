//! Requests that are refused, each with its status and its code.

use openskill_tests::system::{Setup, System};
use serde_json::{Value, json};

use super::{BOTH, JSON, NEWEST, ask, meta, start};

/// The status, the code and the id of the answer to a body with these headers.
async fn send(system: &System, headers: &[(&str, &str)], body: impl ToString) -> (u16, i64, Value) {
    let headers = [&[BOTH, JSON], headers].concat();
    let answer = system.post("/mcp", &headers, body.to_string()).await;
    let json = answer.json();
    (answer.status, json["error"]["code"].as_i64().unwrap_or_default(), json["id"].clone())
}

fn list(params: Value) -> Value {
    json!({"jsonrpc": "2.0", "id": 7, "method": "tools/list", "params": params})
}

#[tokio::test]
async fn each_fault_of_a_newest_request_has_its_code() {
    let system = start().await;
    let version = ("mcp-protocol-version", NEWEST);
    let method = ("mcp-method", "tools/list");
    let with = |field: &str, value: Value| {
        let mut meta = meta();
        meta[field] = value;
        list(json!({"_meta": meta}))
    };
    let without_capabilities = json!({"_meta": {"io.modelcontextprotocol/protocolVersion": NEWEST}});
    let unknown = with("io.modelcontextprotocol/protocolVersion", json!("v999"));
    for (headers, body, expected) in [
        (&[version, method][..], list(json!({})), (400, -32602)),
        (&[version, method], list(without_capabilities), (400, -32602)),
        (&[("mcp-protocol-version", "v999"), method], unknown.clone(), (400, -32022)),
        (&[version, method], unknown, (400, -32020)),
        (&[method], list(json!({"_meta": meta()})), (400, -32020)),
        (&[version], list(json!({"_meta": meta()})), (400, -32020)),
        (&[version, method, method], list(json!({"_meta": meta()})), (400, -32020)),
        (&[version, version, method], list(json!({"_meta": meta()})), (400, -32020)),
        (&[version, ("mcp-method", "TOOLS/LIST")], list(json!({"_meta": meta()})), (400, -32020)),
        (&[version, method], list(json!({"_meta": meta(), "cursor": "made-up"})), (400, -32602)),
    ] {
        assert_eq!(send(&system, headers, &body).await, (expected.0, expected.1, json!(7)), "{headers:?} {body}");
    }
    for method in ["initialize", "ping", "logging/setLevel", "unknown/method"] {
        let answer = ask(&system, method, json!({})).await;
        assert_eq!((answer.status, &answer.json()["error"]["code"]), (404, &json!(-32601)), "{method}");
    }
}

#[tokio::test]
async fn a_header_of_a_parameter_has_to_be_its_argument() {
    let system = start().await;
    let call = async |region: &str, header: &[(&str, &str)]| {
        let params = json!({"name": "test_x_mcp_header", "arguments": {"region": region}, "_meta": meta()});
        let body = json!({"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": params});
        let own =
            [("mcp-protocol-version", NEWEST), ("mcp-method", "tools/call"), ("mcp-name", "  test_x_mcp_header ")];
        send(&system, &[&own[..], header].concat(), body).await
    };
    assert_eq!(call("Hello", &[("mcp-param-region", "=?base64?SGVsbG8=?=")]).await.0, 200);
    for header in [&[][..], &[("mcp-param-region", "other")], &[("mcp-param-region", "=?base64?SGVsbG8?=")]] {
        assert_eq!(call("Hello", header).await, (400, -32020, json!(7)), "{header:?}");
    }
}

#[tokio::test]
async fn what_is_no_message_is_refused_and_others_feel_nothing() {
    let system = start().await;
    let deep =
        format!(r#"{{"jsonrpc":"2.0","id":7,"method":"ping","params":{}1{}}}"#, "[".repeat(500), "]".repeat(500));
    let huge_id = json!({"jsonrpc": "2.0", "id": "x".repeat(10_000), "method": "ping"});
    for (body, code) in [
        ("{".to_owned(), -32700),
        (String::new(), -32700),
        ("[]".to_owned(), -32600),
        (json!({"jsonrpc": "2.0", "id": null, "method": "ping"}).to_string(), -32600),
        (huge_id.to_string(), -32600),
        (deep, -32600),
    ] {
        let (status, found, id) = send(&system, &[], &body).await;
        assert_eq!((status, found, id), (400, code, Value::Null), "{}", body.chars().take(80).collect::<String>());
    }
    let large = system.post("/mcp", &[BOTH, JSON], "x".repeat(20_000_000)).await;
    assert_eq!(large.status, 413);
    let no_json = system.post("/mcp", &[BOTH, ("content-type", "text/plain")], "{}").await;
    assert_eq!(no_json.status, 415);
    let no_answer = system.post("/mcp", &[JSON, ("accept", "text/html")], "{}").await;
    assert_eq!(no_answer.status, 406);
    assert_eq!(ask(&system, "server/discover", json!({})).await.status, 200);
}

#[tokio::test]
async fn pages_of_other_sites_are_refused_and_allowed_ones_may_read_the_session() {
    let app = "https://app.example.com";
    let system = Setup::up().with("OPENSKILL_ALLOWED_ORIGINS", app).start().await;
    let body = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"protocolVersion": "2025-06-18"}});
    let from = async |origin: &str| system.post("/mcp", &[BOTH, JSON, ("origin", origin)], body.to_string()).await;
    assert_eq!(from("http://evil.example").await.status, 403);
    let allowed = from(app).await;
    assert_eq!((allowed.status, allowed.header("access-control-allow-origin")), (200, app));
    assert!(allowed.header("access-control-expose-headers").contains("mcp-session-id"), "{allowed:?}");
}

#[tokio::test]
async fn requests_are_counted_by_revision_and_method() {
    let system = start().await;
    ask(&system, "tools/list", json!({})).await;
    ask(&system, "made/up", json!({})).await;
    let metrics = String::from_utf8(system.get("/metrics").await.body.into()).unwrap();
    for method in ["tools/list", "other"] {
        let series = format!(r#"openskill_mcp_requests_total{{view="",protocol="2026-07-28",method="{method}"}} 1"#);
        assert!(metrics.contains(&series), "{series} in {metrics}");
    }
    assert!(!metrics.contains("made/up"));
}
