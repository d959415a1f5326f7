//! Sets of shipped skills, in a project of somebody who has nothing but the binary.

use std::path::Path;

use openskill_tests::alone::beside_others;
use openskill_tests::system::PATIENCE;
use openskill_tests::wait::until;

use super::newcomer::{Newcomer, Up};

async fn new_project() -> Newcomer {
    let newcomer = Newcomer::new();
    let (code, text) = newcomer.run(&["init"]).await;
    assert!(code == 0 && text.contains("openskill add"), "{text}");
    newcomer
}

fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap()
}

#[tokio::test]
async fn a_set_is_copied_checked_and_called_and_what_was_changed_is_kept() {
    let newcomer = new_project().await;
    let (code, text) = newcomer.run(&["add"]).await;
    assert!(code == 0 && text.contains("browser   27 skills  control a web browser\n"), "{text}");
    let (code, text) = newcomer.run(&["add", "core"]).await;
    assert!(code == 0 && text.starts_with("wrote skills/core: 12 files\n"), "{text}");
    let (code, text) = newcomer.run(&["check"]).await;
    assert!(code == 0 && text.matches("ok    manifest").count() == 6, "{text}");
    assert!(text.contains("note  example not run, because data/logs/app.log is missing: "), "{text}");
    newcomer.write("data/app.log", "2026-01-02T03:04:05Z INFO pricing.feed: started\n");
    let (code, text) = newcomer.run(&["run", "skills/core/log_transform.yaml", "input_path=data/app.log"]).await;
    assert!(code == 0 && text.contains("\"source\": \"pricing.feed\""), "{text}");

    let (code, text) = newcomer.run(&["add", "core"]).await;
    assert!(code == 0 && text.starts_with("kept  skills/core: "), "{text}");
    let (script, missing) = (newcomer.path("skills/core/echo.py"), newcomer.path("skills/core/calculator.py"));
    let shipped = read(&script);
    std::fs::write(&script, "mine\n").unwrap();
    std::fs::remove_file(&missing).unwrap();
    let (code, text) = newcomer.run(&["add", "core", "files"]).await;
    assert!(code == 2 && text.contains("skills/core/echo.py\n") && text.contains("--force"), "{text}");
    assert!(read(&script) == "mine\n" && !missing.exists() && !newcomer.path("skills/files").exists());
    newcomer.write("skills/browser", "");
    let (code, text) = newcomer.run(&["add", "browser", "--force"]).await;
    assert!(code == 2 && text.contains("'skills/browser' is not a directory: move it away"), "{text}");
    std::fs::remove_file(newcomer.path("skills/browser")).unwrap();
    newcomer.write("skills/core/own.yaml", "id: own\ntype: inproc\nentry: echo\n");
    let (code, text) = newcomer.run(&["add", "core", "--force"]).await;
    assert!(code == 0 && text.starts_with("wrote skills/core: 2 files\n"), "{text}");
    assert!(read(&script) == shipped && missing.exists() && newcomer.path("skills/core/own.yaml").exists());
    let names: Vec<_> = newcomer.path("skills").read_dir().unwrap().map(|it| it.unwrap().file_name()).collect();
    assert_eq!(names.len(), 4, "nothing temporary is left: {names:?}");
}

#[tokio::test]
async fn each_set_works_alone() {
    for (set, skills) in [("browser", 27), ("files", 4), ("research", 3), ("sandbox", 7)] {
        let newcomer = new_project().await;
        let mut add = newcomer.command(&["add", set]);
        add.env("OPENSKILL_BROWSER", "/nonexistent/chromium");
        let (code, text) = Newcomer::finish(add).await;
        assert_eq!(code, 0, "{text}");
        match set {
            "browser" => assert!(text.contains("needs browser: OPENSKILL_BROWSER names no file"), "{text}"),
            "research" => assert!(text.contains("needs research: no source of pages"), "{text}"),
            _ => {}
        }
        let mut check = newcomer.command(&["check"]);
        check.env("OPENSKILL_BROWSER", "/nonexistent/chromium");
        let (code, text) = Newcomer::finish(check).await;
        assert_eq!(text.matches("ok    manifest").count(), skills + 1, "{text}");
        // Without a browser or namespaces, skills cannot run.
        assert!(code == 0 || text.contains("cannot run on this machine") && !text.contains("FAIL  example"), "{text}");
    }
}

#[tokio::test]
async fn an_unknown_set_is_refused_with_what_was_meant() {
    let newcomer = new_project().await;
    let (code, text) = newcomer.run(&["add", "core", "brwser"]).await;
    assert!(code == 2 && text.contains("'brwser': did you mean browser?"), "{text}");
    let (code, text) = newcomer.run(&["up", "--with", "core,calculator"]).await;
    assert!(code == 4 && text.contains("OPENSKILL_WITH (flag)") && text.contains("did you mean core?"), "{text}");
    assert!(!newcomer.path("skills/core").exists());
    let elsewhere = Newcomer::new();
    let (code, text) = elsewhere.run(&["add", "core"]).await;
    assert!(code == 2 && text.contains("openskill init"), "{text}");
    elsewhere.write("data/.gitkeep", "");
    let (code, text) = elsewhere.run(&["check", "echo", "--with", "core"]).await;
    assert!(code == 0 && text.contains("ok    example"), "{text}");
    let (_, text) = elsewhere.run(&["mcp", "config", "cursor", "--with", "core"]).await;
    assert!(text.contains("\"--with\",\n        \"core\""), "{text}");
}

#[tokio::test]
async fn sets_are_served_from_the_binary_until_the_project_has_the_same_skill() {
    let _turn = beside_others();
    let newcomer = new_project().await;
    let up = ["up", "--workers", "1", "--listen", "127.0.0.1:0", "--with", "core", "--with", "research"];
    let up = Up::start_as(newcomer.command(&up)).await;
    let url = up.url.as_str();
    let (code, text) = newcomer.run(&["invoke", "echo", "text=hello", "--url", url]).await;
    assert!(code == 0 && text.contains("\"echoed\": \"hello\""), "{text}");
    assert!(!newcomer.path("skills/core").exists());
    newcomer.write("skills/echo.yaml", "id: echo\ntype: inproc\nentry: echo\n");
    until("the project's own skill is served", PATIENCE, || async {
        let (_, text) = newcomer.run(&["invoke", "echo", "text=hello", "--url", url]).await;
        text.contains("\"text\": \"hello\"").then_some(())
    })
    .await;
    up.stop().await;
    newcomer.write("openskill.toml", "cli_dir = 'skills'\nwith = ['core']\n");
    let (code, text) = newcomer.run(&["check"]).await;
    assert!(code == 0 && text.contains("echo 0.0.0 (inproc)") && text.contains("calculator 0.1.0"), "{text}");
}
