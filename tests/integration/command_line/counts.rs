//! Everything that counts skills counts the same.

use openskill_tests::folder::Folder;
use openskill_tests::system::Setup;
use serde_json::Value;

use super::{at, run};

/// Three skills that can be called, one that its manifest declares unavailable, and one that has no program.
fn skills() -> Folder {
    let folder = Folder::new();
    for id in ["one", "two", "three"] {
        folder.write(&format!("{id}.yaml"), format!("id: {id}\ntype: inproc\nentry: echo\n"));
    }
    folder.write("later.yaml", "id: later\ntype: inproc\nentry: echo\nunavailable: not built yet\n");
    folder.write("gone.yaml", "id: gone\ntype: inproc\nentry: no_such_function\n");
    folder
}

#[tokio::test]
async fn all_counts_of_skills_agree() {
    let folder = skills();
    let shown = folder.path().display().to_string();
    let system = Setup::with_skills(&[folder.path()]).flag("--workers", 1).start().await;
    system.has_skill("three").await;
    let ran = at(&system, &["skills"]).await;
    assert_eq!(ran.out.lines().count(), 1 + 3, "{}", ran.out);
    assert!(ran.err.starts_with("2 more are unavailable"), "{}", ran.err);
    let banner = system.process.output.text();
    assert!(banner.contains(", 3 skills\n2 more skills are unavailable: "), "{banner}");
    let ready = system.get("/readyz").await.json();
    assert_eq!(ready["skills"], 3, "{ready}");
    let metrics = String::from_utf8(system.get("/metrics").await.body.to_vec()).unwrap();
    for line in [r#"openskill_skills{status="available"} 3"#, r#"openskill_skills{status="unavailable"} 2"#] {
        assert!(metrics.contains(line), "{line}\n{metrics}");
    }
    let workers: Value = serde_json::from_str(&at(&system, &["workers", "-o", "json"]).await.out).unwrap();
    assert_eq!(workers[0]["skills"], 3, "{workers}");
    let examined = run(&["doctor", "--json", "--skills-dir", &shown], &[]).await;
    let examined: Value = serde_json::from_str(&examined.out).unwrap();
    assert_eq!((&examined["available"], &examined["unavailable"]), (&3.into(), &2.into()), "{examined}");
}
