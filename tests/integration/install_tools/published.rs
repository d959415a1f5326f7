//! The server of the index that ships, from the package index.

use openskill_tests::folder::Folder;
use openskill_tests::require::{Need, skip};
use openskill_tests::system::{Setup, code, data, request};
use openskill_tests::wait::until;
use serde_json::json;

use super::stage::{PATIENCE, details, has_jail, search};

#[tokio::test]
async fn mcp_server_time_comes_from_the_index_to_a_call() {
    if !has_jail() {
        return;
    }
    let folder = Folder::new();
    let path = |name: &str| folder.path().join(name).display().to_string();
    // What the machine's own installer needs to reach the package index.
    let passed =
        std::env::vars().filter(|(name, _)| name.starts_with("PIP_") || name.to_lowercase().ends_with("_proxy"));
    let setup = passed.fold(Setup::shipped(), |setup, (name, value)| setup.with(&name, value));
    let system = setup
        .flag("--workers", 1)
        .with("OPENSKILL_TOOL_INSTALL", "listed")
        .with("OPENSKILL_TOOLS_DIR", path("tools"))
        .with("OPENSKILL_PYTHON_ENVIRONMENTS", path("store"))
        .start()
        .await;
    let result = search(&system, "东京现在几点了？", json!({"reason": "当前工具不知道时间"})).await;
    if !code(&result).is_empty() && details(&result)["reason"] == "packages" {
        return skip(Need::Venv, &format!("the packages of mcp-server-time can't be had: {result:?}"));
    }
    assert_eq!(code(&result), "", "{result:?}");
    let answer = data(&result);
    assert_eq!(answer["installed"]["tools"], json!(["time__convert_time", "time__get_current_time"]), "{answer}");
    let now = until("the tool is callable", PATIENCE, || async {
        let result = system.invoke(request("time__get_current_time", json!({"timezone": "Asia/Tokyo"}))).await;
        code(&result).is_empty().then(|| data(&result))
    })
    .await;
    assert_eq!(now["timezone"], "Asia/Tokyo", "{now}");
    let skill = system.get("/skills/time__get_current_time").await.json();
    assert_eq!((&skill["toolset"], &skill["untrusted"]), (&json!("time"), &json!(true)), "{skill}");
}
