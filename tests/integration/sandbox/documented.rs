//! The manifest of docs/runners/sessions.md that gives sessions data and packages.

use openskill_tests::folder::Folder;
use openskill_tests::repository;
use openskill_tests::require::{Need, skip};
use openskill_tests::system::{Setup, code, data, request};
use openskill_tests::wait::until;
use openskill_tests::wheel;
use serde_json::json;

use super::packages::PATIENCE;

/// The block of this language that contains a text.
fn block<'a>(page: &'a str, language: &str, text: &str) -> &'a str {
    let blocks = page.split("```").skip(1).step_by(2).filter_map(|it| it.strip_prefix(language));
    blocks.into_iter().find(|it| it.contains(text)).unwrap()
}

#[tokio::test]
async fn a_session_of_the_documented_manifest_reads_data_with_a_package() {
    let page = std::fs::read_to_string(repository().join("docs/runners/sessions.md")).unwrap();
    let folder = Folder::new();
    folder.write("skills/analyze_prices.yaml", block(&page, "yaml\n", "allowed_root:"));
    let pandas = "class read_csv:\n    def __init__(self, path):\n        self.first = open(path).readline()\n    \
                  def head(self):\n        return self.first\n";
    wheel::write(&folder.path().join("wheels"), "pandas", "2.3.3", pandas, &[]);
    let path = |name: &str| folder.path().join(name).display().to_string();
    let setup =
        Setup::with_skills(&[&folder.path().join("skills")]).flag("--workers", 1).data(&repository().join("data"));
    let setup = setup.with("OPENSKILL_PYTHON_ENVIRONMENTS", path("store")).with("OPENSKILL_PYTHON_INDEX_URL", "none");
    let system = setup.with("OPENSKILL_PYTHON_FIND_LINKS", path("wheels")).start().await;
    let skill = until("the environment is built", PATIENCE, async || {
        let skill = system.get("/skills/analyze_prices").await.json();
        let is_built = skill["status"] == "available" || skill["status_reason"].as_str()?.contains("jail");
        is_built.then_some(skill)
    });
    let skill = skill.await;
    if skill["status"] != "available" {
        return skip(Need::Jail, skill["status_reason"].as_str().unwrap_or_default());
    }
    let result = system.invoke(request("analyze_prices", json!({"code": block(&page, "python\n", "pandas")}))).await;
    assert_eq!(code(&result), "", "{result:?}");
    let file = std::fs::read_to_string(repository().join("data/prices/raw_materials.csv")).unwrap();
    let expected = format!("{:?}", file.lines().next().unwrap().to_owned() + "\n").replace('"', "'");
    assert_eq!(data(&result)["result"], json!(expected), "{result:?}");
}
