//! What a shell offers when somebody presses Tab.

use openskill_tests::system::Setup;

use super::{Ran, run};

/// What bash is told about the last of these words.
async fn candidates(words: &[&str], url: &str) -> Vec<String> {
    let index = (words.len() - 1).to_string();
    let environment = [
        ("OPENSKILL_COMPLETE", "bash"),
        ("_CLAP_COMPLETE_INDEX", index.as_str()),
        ("_CLAP_IFS", "\n"),
        ("OPENSKILL_HTTP_BASE_URL", url),
    ];
    let Ran { code, out, err } = run(&[&["--"], words].concat(), &environment).await;
    assert_eq!(code, 0, "{err}");
    out.lines().map(str::to_owned).collect()
}

#[tokio::test]
async fn ids_of_skills_and_workers_are_completed() {
    let system = Setup::shipped().start().await;
    let url = system.url();
    assert_eq!(candidates(&["openskill", "invoke", "ec"], &url).await, ["echo"]);
    assert_eq!(candidates(&["openskill", "describe", "skill", "calc"], &url).await, ["calculator"]);
    assert_eq!(candidates(&["openskill", "logs", "--skill", "file"], &url).await, ["file_search"]);
    assert_eq!(candidates(&["openskill", "drain", "worker-"], &url).await, ["worker-1", "worker-2"]);
    // The URL on the command line counts, and commands need no gateway.
    let nobody = "http://127.0.0.1:1";
    assert_eq!(candidates(&["openskill", "invoke", "--url", &url, "ec"], nobody).await, ["echo"]);
    assert_eq!(candidates(&["openskill", "invoke", "ec"], nobody).await, Vec::<String>::new());
    assert_eq!(candidates(&["openskill", "add", "bro"], nobody).await, ["browser"]);
    assert_eq!(candidates(&["openskill", "circ"], nobody).await, ["circuits"]);
}

#[tokio::test]
async fn the_script_of_a_shell_asks_the_binary() {
    let script = run(&["completions", "bash"], &[]).await.out;
    assert!(script.contains("OPENSKILL_COMPLETE=\"bash\"") && script.contains("complete "), "{script}");
}
