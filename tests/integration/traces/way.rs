//! The way of a trace: from the caller over gateway and worker to a server, with nothing secret in it.

use openskill_proto::trace::TraceContext;
use openskill_tests::backend::{Backend, Reply};
use openskill_tests::folder::Folder;
use openskill_tests::system::{Setup, System};
use opentelemetry_proto::tonic::trace::v1::span::SpanKind;
use serde_json::json;

use super::collector::{Collector, attribute, failed};
use super::{EXECUTE, EXECUTE_STREAM, PARENT, REST_INVOKE, parent, traced};

const SECRET: &str = "s3cr3t";

/// A system with a skill that calls this server.
pub(super) async fn with_http_skill(server: &Backend, endpoint: &str, more: &str) -> (System, Folder) {
    let (folder, host) = (Folder::new(), server.address);
    folder.write(
        "asks.yaml",
        format!(
            "id: asks\ntype: http\nentry: '{}'\nenv: [TOKEN]\n{more}\
             http: {{method: GET, allow: ['{host}'], headers: {{Authorization: 'Bearer ${{TOKEN}}'}}, query: {{key: '${{TOKEN}}', city: '{{city}}'}}}}\n",
            server.url("/weather")
        ),
    );
    let skills = folder.path().display().to_string();
    let setup = Setup::command(&["up", "--listen", "127.0.0.1:0", "--workers", "1", "--skills-dir", &skills]);
    (traced(setup, endpoint).with("TOKEN", SECRET).start().await, folder)
}

#[tokio::test]
async fn a_call_is_one_trace_from_its_caller_to_the_back_end() {
    let server = Backend::start(|_| Reply::json(200, &json!({"degrees": 12}))).await;
    let (collector, endpoint) = Collector::listen().await;
    let (system, _folder) = with_http_skill(&server, &endpoint, "").await;
    let headers = [("traceparent", PARENT), ("tracestate", "a=1"), ("authorization", SECRET)];
    let body = json!({"input": {"city": SECRET}}).to_string();
    let answer = system.post("/skills/asks:invoke", &headers, body).await.json();
    assert_eq!(answer["success"], true, "{answer}");
    let trace = collector.trace(parent().trace_id, 5).await;
    trace.is_whole(&parent());
    let way = [
        trace.span(REST_INVOKE),
        trace.span("execute_tool asks"),
        trace.of("gateway", EXECUTE),
        trace.of("worker", EXECUTE),
        trace.span("GET"),
    ];
    assert_eq!(trace.0.len(), way.len(), "{:?}", trace.names());
    assert_eq!(way[0].parent_span_id, parent().span_id);
    assert!(way.windows(2).all(|pair| pair[1].parent_span_id == pair[0].span_id), "{way:?}");
    assert!(way.iter().all(|span| !failed(span)), "{way:?}");
    let kinds = [SpanKind::Server, SpanKind::Internal, SpanKind::Client, SpanKind::Server, SpanKind::Client];
    assert_eq!(way.map(|span| span.kind()), kinds);
    // A child is within its parent, as far as two clocks of one machine agree.
    for pair in way.windows(2) {
        assert!(pair[1].start_time_unix_nano + 1_000_000 >= pair[0].start_time_unix_nano, "{pair:?}");
        assert!(pair[1].end_time_unix_nano <= pair[0].end_time_unix_nano + 1_000_000, "{pair:?}");
    }
    let sent = TraceContext::parse(server.last().header("traceparent")).unwrap();
    assert_eq!((sent.trace_id, &sent.span_id[..], sent.flags), (parent().trace_id, &way[4].span_id[..], 1));
    assert_eq!(server.last().header("tracestate"), "a=1");
    for (span, key, value) in [
        (0, "http.request.method", "POST"),
        (0, "http.route", "/skills/{id}:invoke"),
        (0, "url.path", "/skills/{id}:invoke"),
        (0, "http.response.status_code", "200"),
        (1, "gen_ai.operation.name", "execute_tool"),
        (1, "gen_ai.tool.name", "asks"),
        (1, "gen_ai.tool.type", "function"),
        (1, "openskill.runner", "http"),
        (1, "openskill.attempts", "1"),
        (2, "openskill.attempt", "1"),
        (2, "openskill.worker.id", "worker-1"),
        (2, "rpc.method", EXECUTE),
        (2, "rpc.response.status_code", "OK"),
        (3, "rpc.system.name", "grpc"),
        (3, "rpc.response.status_code", "OK"),
        (4, "http.request.method", "GET"),
        (4, "http.response.status_code", "200"),
        (4, "server.address", "127.0.0.1"),
        (4, "server.port", &server.address.port().to_string()),
    ] {
        assert_eq!(attribute(way[span], key), value, "{key} of {}", way[span].name);
    }
    assert!(attribute(way[3], "openskill.queue_ms").parse::<f64>().is_ok(), "{:?}", way[3]);
    let target = server.last().target;
    assert!(target.contains(SECRET), "the server got it: {target}");
    let all = format!("{trace:?}");
    assert!(!all.contains(SECRET) && !all.contains("weather") && !all.contains("degrees"), "{all}");
}

#[tokio::test]
async fn a_call_of_an_mcp_tool_has_a_client_span_that_its_server_sees() {
    let server = Backend::start(|seen| {
        if seen.method != "POST" {
            return Reply::new(405, "text/plain", "");
        }
        let message = seen.json();
        let result = match message["method"].as_str() {
            Some("initialize") => json!({"protocolVersion": message["params"]["protocolVersion"],
                "capabilities": {"tools": {}}, "serverInfo": {"name": "odd", "version": "1"}}),
            Some("tools/list") => json!({"tools": [{"name": "odd", "inputSchema": {"type": "object"}}]}),
            Some("tools/call") => json!({"content": [{"type": "text", "text": "no"}], "isError": true}),
            _ => return Reply::new(202, "text/plain", ""),
        };
        Reply::json(200, &json!({"jsonrpc": "2.0", "id": message["id"], "result": result}))
    })
    .await;
    let (collector, endpoint) = Collector::listen().await;
    let folder = Folder::new();
    let (url, host) = (server.url("/mcp"), server.address);
    folder.write("web.yaml", format!("id: web\ntype: mcp\nruntime: http\nentry: {url}\nmcp: {{allow: ['{host}']}}\n"));
    let skills = folder.path().display().to_string();
    let setup = Setup::command(&["up", "--listen", "127.0.0.1:0", "--workers", "1", "--skills-dir", &skills]);
    let system = traced(setup, &endpoint).start().await;
    system.has_skill("web__odd").await;
    system.post("/skills/web__odd:invoke", &[("traceparent", PARENT)], "{}").await;
    let trace = collector.trace(parent().trace_id, 5).await;
    trace.is_whole(&parent());
    let client = trace.span("tools/call odd");
    assert_eq!(client.parent_span_id, trace.of("worker", EXECUTE).span_id);
    assert_eq!(attribute(client, "mcp.method.name"), "tools/call");
    assert_eq!(attribute(client, "gen_ai.tool.name"), "odd");
    assert!(failed(client) && attribute(client, "error.type").starts_with("MCP_"), "{client:?}");
    let called = server.seen().into_iter().find(|it| it.body.windows(10).any(|it| it == b"tools/call")).unwrap();
    let told = called.json()["params"]["_meta"]["traceparent"].as_str().map(str::to_owned).unwrap();
    assert_eq!(TraceContext::parse(&told).unwrap().span_id[..], client.span_id);
}

#[tokio::test]
async fn a_call_of_mcp_with_events_has_the_route_of_its_view_and_the_name_of_the_rpc() {
    let (folder, (collector, endpoint)) = (Folder::new(), Collector::listen().await);
    let views = folder.write("views.toml", "[views.all]\n");
    let setup = traced(Setup::up(), &endpoint).with("OPENSKILL_MCP_VIEWS_FILE", views.display());
    let system = setup.start().await;
    let headers = [("accept", "application/json, text/event-stream"), ("traceparent", PARENT)];
    let params = json!({"name": "in_echo", "arguments": {}, "_meta": {"progressToken": 1}});
    let body = json!({"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": params}).to_string();
    assert_eq!(system.post("/mcp/all", &headers, body).await.status, 200);
    let trace = collector.trace(parent().trace_id, 5).await;
    trace.is_whole(&parent());
    let server = trace.span("POST /mcp/{view}");
    assert_eq!(attribute(server, "http.route"), "/mcp/{view}");
    assert_eq!(attribute(server, "mcp.method.name"), "tools/call");
    let (client, worker) = (trace.of("gateway", EXECUTE_STREAM), trace.of("worker", EXECUTE_STREAM));
    assert_eq!(worker.parent_span_id, client.span_id);
}

#[tokio::test]
async fn spans_go_over_http_with_the_headers_of_the_settings() {
    let (collector, server) = Collector::over_http().await;
    let system = traced(Setup::up(), &server.url("/"))
        .with("OTEL_EXPORTER_OTLP_PROTOCOL", "http/protobuf")
        .with("OTEL_EXPORTER_OTLP_HEADERS", "api-key=s%203cret")
        .start()
        .await;
    system.post("/skills/in_echo:invoke", &[("traceparent", PARENT)], "{}").await;
    collector.trace(parent().trace_id, 5).await.is_whole(&parent());
    let exported = server.last();
    assert_eq!((exported.path(), exported.header("api-key")), ("/v1/traces", "s 3cret"));
    assert_eq!(exported.header("content-type"), "application/x-protobuf");
}
