//! The gateway as an OAuth 2.1 resource server: metadata, challenges, scopes, and CORS of refusals.

use std::os::unix::fs::PermissionsExt as _;

use http::Method;
use openskill_tests::folder::Folder;
use openskill_tests::rest::{Answer, send};
use openskill_tests::system::{Setup, System};
use openskill_tests::tokens::{AUDIENCE, ISSUER, Signer, claims, jwks};
use serde_json::{Value, json};

use super::{HEADERS, Views};

const FILE: &str = "
[default]
scopes = ['tools']

[views.notes]
scopes = ['tools', 'notes:read']
write_scopes = ['notes:write']
";

/// A gateway that takes tokens of this issuer. The folder has its files.
pub(super) fn protected(views: &Views, signer: &Signer) -> (Setup, Folder) {
    let folder = Folder::new();
    folder.write("keys.json", jwks(&[signer]).to_string());
    let text = format!(
        "[issuers.login]\nissuer = '{ISSUER}'\naudience = ['{AUDIENCE}']\njwks = 'keys.json'\n\
         [[issuers.login.rules]]\npolicy = 'all'\n[policies.all]\nskills = ['*']\n"
    );
    let file = folder.write("jwt.toml", text);
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o600)).unwrap();
    (views.up().with("OPENSKILL_JWT", file.display()), folder)
}

pub(super) async fn ask(system: &System, path: &str, token: &str, method: &str, params: Value) -> Answer {
    let body = json!({"jsonrpc": "2.0", "id": 7, "method": method, "params": params}).to_string();
    let authorization = format!("Bearer {token}");
    let mut headers = HEADERS.to_vec();
    headers.extend((!token.is_empty()).then_some(("authorization", authorization.as_str())));
    system.post(path, &headers, body).await
}

#[tokio::test]
async fn metadata_say_where_to_get_a_token_and_challenges_where_the_metadata_are() {
    let (views, signer) = (Views::with(FILE), Signer::p256("a"));
    let (setup, _folder) = protected(&views, &signer);
    let system = setup.start().await;
    let url = system.url();
    for (path, resource, scopes) in [
        // The gateway as a whole is not a resource: its root says what its endpoint says.
        ("", format!("{url}/mcp"), json!(["tools"])),
        ("/mcp", format!("{url}/mcp"), json!(["tools"])),
        ("/mcp/notes", format!("{url}/mcp/notes"), json!(["tools", "notes:read", "notes:write"])),
    ] {
        let metadata = system.get(&format!("/.well-known/oauth-protected-resource{path}")).await;
        let expected = json!({
            "resource": resource, "authorization_servers": [ISSUER], "bearer_methods_supported": ["header"],
            "resource_name": "openskill", "scopes_supported": scopes,
        });
        assert_eq!((metadata.status, metadata.json()), (200, expected), "{path}");
    }
    assert_eq!(system.get("/.well-known/oauth-protected-resource/mcp/none").await.status, 404);
    let told = ask(&system, "/mcp/notes", "", "tools/list", json!({})).await;
    let expected = format!(
        "Bearer scope=\"tools notes:read\", resource_metadata=\"{url}/.well-known/oauth-protected-resource/mcp/notes\""
    );
    assert_eq!((told.status, told.header("www-authenticate")), (401, expected.as_str()));
    let wrong = ask(&system, "/mcp", "a.b.c", "tools/list", json!({})).await;
    let challenge = wrong.header("www-authenticate");
    assert!(wrong.status == 401 && challenge.starts_with("Bearer error=\"invalid_token\", scope="), "{challenge}");
    assert_eq!(system.get("/skills").await.header("www-authenticate"), "Bearer");
}

#[tokio::test]
async fn a_url_that_an_operator_says_takes_the_place_of_what_requests_name() {
    let (views, signer) = (Views::with(FILE), Signer::p256("a"));
    let (setup, _folder) = protected(&views, &signer);
    let system = setup.with("OPENSKILL_PUBLIC_URL", "https://tools.example.com/").start().await;
    let metadata = system.get("/.well-known/oauth-protected-resource/mcp").await.json();
    assert_eq!(metadata["resource"], "https://tools.example.com/mcp");
}

#[tokio::test]
async fn a_token_without_the_scopes_is_told_which_it_needs() {
    let (views, signer) = (Views::with(FILE), Signer::p256("a"));
    let (setup, _folder) = protected(&views, &signer);
    let system = setup.start().await;
    let token = |scope: &str| signer.token(&claims(&json!({"scope": scope})));
    let wanted = |answer: &Answer| {
        let challenge = answer.header("www-authenticate");
        assert_eq!(answer.status, 403, "{answer:?}");
        assert!(
            challenge.contains("error=\"insufficient_scope\"") && challenge.contains("/mcp/notes\""),
            "{challenge}"
        );
        challenge.split("scope=\"").nth(2).unwrap_or_else(|| challenge.split(" scope=\"").nth(1).unwrap()).to_owned()
    };
    let (tools, reads, writes) = (token("tools"), token("tools notes:read"), token("notes:write notes:read tools"));
    assert_eq!(ask(&system, "/mcp", &tools, "tools/list", json!({})).await.status, 200);
    assert_eq!(ask(&system, "/mcp", &token("other"), "tools/list", json!({})).await.status, 403);
    assert!(
        wanted(&ask(&system, "/mcp/notes", &tools, "tools/list", json!({})).await).starts_with("tools notes:read\"")
    );
    assert_eq!(ask(&system, "/mcp/notes", &reads, "tools/list", json!({})).await.status, 200);
    let call = |skill: &str| json!({"name": skill, "arguments": {}});
    assert_eq!(ask(&system, "/mcp/notes", &reads, "tools/call", call("reads")).await.status, 200);
    let refused = ask(&system, "/mcp/notes", &reads, "tools/call", call("writes")).await;
    assert!(wanted(&refused).starts_with("tools notes:read notes:write\""), "{refused:?}");
    assert_eq!(refused.json()["id"], 7);
    let stepped_up = ask(&system, "/mcp/notes", &writes, "tools/call", call("writes")).await;
    assert!(stepped_up.json()["result"]["content"][0]["text"].as_str().unwrap().contains("writes"), "{stepped_up:?}");
}

#[tokio::test]
async fn a_token_reaches_no_skill() {
    let (views, signer) = (Views::with(FILE), Signer::p256("a"));
    let script = "import json, os, sys\nprint(json.dumps(sys.stdin.read() + str(dict(os.environ)) + str(sys.argv)))\n";
    views.0.write("run.py", script);
    let (setup, _folder) = protected(&views, &signer);
    let system = setup.start().await;
    let token = signer.token(&claims(&json!({"scope": "tools"})));
    let seen = ask(&system, "/mcp", &token, "tools/call", json!({"name": "reads", "arguments": {"text": "x"}})).await;
    let text = seen.json()["result"]["content"][0]["text"].as_str().unwrap_or_else(|| panic!("{seen:?}")).to_owned();
    assert!(text.contains("OPENSKILL_SKILL_ID"), "the request was seen: {text}");
    assert!(!text.contains(token.split('.').nth(2).unwrap()) && !text.contains("Bearer"), "{text}");
}

#[tokio::test]
async fn pages_of_allowed_origins_can_read_refusals_and_may_ask_first() {
    const APP: &str = "https://app.example.com";
    let (views, signer) = (Views::with(FILE), Signer::p256("a"));
    let (setup, _folder) = protected(&views, &signer);
    let system = setup.with("OPENSKILL_ALLOWED_ORIGINS", APP).start().await;
    let headers = [HEADERS[0], HEADERS[1], ("origin", APP)];
    for path in ["/mcp", "/mcp/notes", "/skills/reads:invoke"] {
        let refused = system.post(path, &headers, "{}").await;
        assert_eq!((refused.status, refused.header("access-control-allow-origin")), (401, APP), "{path}");
        let exposed = refused.header("access-control-expose-headers");
        assert!(exposed.contains("www-authenticate") && exposed.contains("mcp-session-id"), "{exposed}");
        let asked = [
            ("origin", APP),
            ("access-control-request-method", "POST"),
            ("access-control-request-headers", "authorization,mcp-protocol-version"),
        ];
        let preflight = send(system.address, Method::OPTIONS, path, &asked, "").await;
        assert_eq!((preflight.status, preflight.header("access-control-allow-origin")), (200, APP), "{path}");
        assert!(preflight.header("access-control-allow-headers").contains("authorization"), "{preflight:?}");
    }
    let foreign = [HEADERS[0], HEADERS[1], ("origin", "https://evil.example")];
    let refused = system.post("/mcp", &foreign, "{}").await;
    assert_eq!((refused.status, refused.header("access-control-allow-origin")), (403, ""));
}
