//! Documents in a folder.

use std::os::unix::fs::symlink;

use openskill_tests::folder::Folder;
use openskill_tests::system::PATIENCE;
use openskill_tests::wait::until;

use super::*;

const GBK: &[u8] = b"<html><head><meta charset=gbk><title>x</title></head><body><p>\xb1\xb1\xbe\xa9\xca\xc7\xd6\xd0\xb9\xfa\xb5\xc4\xca\xd7\xb6\xbc\xa1\xa3\xb1\xb1\xbe\xa9\xb5\xc4\xc8\xcb\xbf\xda\xd4\xbc\xce\xaa2100\xcd\xf2\xa1\xa3</p></body></html>";

fn with_folder(folder: &Folder) -> Setup {
    with_provider("folder").with("OPENSKILL_RESEARCH_FOLDER", folder.path().display())
}

#[tokio::test]
async fn documents_of_every_kind_are_quoted() {
    let folder = Folder::new();
    folder.write("rivers/rhine.md", "# Rivers\n\n## The Rhine\n\nIt rises in the Alps of Switzerland.\n");
    folder.write("notes.txt", "The password of the\nvault is changed on Mondays.\n\nOther text.");
    folder.write("beijing.html", GBK);
    folder.write("report.pdf", pdf("The turbine of the dam weighs forty tons."));
    folder.write("table.html", "<table><tr><th>Metal<th>Melts at<tr><td>Copper<td>1085 degrees</table>");
    let system = with_folder(&folder).start().await;
    for (question, url, quote) in [
        ("Where does the Rhine rise?", "folder:/rivers/rhine.md", "It rises in the Alps of Switzerland."),
        (
            "When is the password of the vault changed?",
            "folder:/notes.txt",
            "The password of the vault is changed on Mondays.",
        ),
        ("北京的人口是多少？", "folder:/beijing.html", "北京是中国的首都。北京的人口约为2100万。"),
        ("How much does the turbine weigh?", "folder:/report.pdf", "The turbine of the dam weighs forty tons."),
        ("At what temperature does copper melt?", "folder:/table.html", "Copper | 1085 degrees"),
    ] {
        let answer = ask(&system, question).await;
        assert_eq!((&answer["citations"][0]["url"], quotes(&answer)[0].as_str()), (&json!(url), quote), "{answer}");
    }
    let nothing = ask(&system, "Who painted the ceiling of the Sistine Chapel?").await;
    assert!(is_nothing(&nothing), "{nothing}");
}

#[tokio::test]
async fn links_hidden_files_and_broken_files_are_not_quoted() {
    let (folder, outside) = (Folder::new(), Folder::new());
    outside.write("secret.txt", "The vault code is 1234.");
    symlink(outside.path().join("secret.txt"), folder.path().join("link.txt")).unwrap();
    symlink(outside.path(), folder.path().join("linked")).unwrap();
    folder.write(".hidden.txt", "The vault code is 5678.");
    folder.write("broken.pdf", "%PDF-1.7 the vault code is 9999");
    folder.write("plain.txt", "Nothing of interest.");
    let answer = ask(&with_folder(&folder).start().await, "What is the vault code?").await;
    assert!(is_nothing(&answer), "{answer}");
    assert!(
        warnings(&answer).contains("unreadable documents in the folder: 1, such as broken.pdf: its PDF text"),
        "{answer}"
    );
}

#[tokio::test]
async fn a_document_that_changes_is_read_anew() {
    let folder = Folder::new();
    folder.write("mayor.txt", "The mayor of Springfield is Quimby.");
    let system = with_folder(&folder).start().await;
    assert_eq!(
        quotes(&ask(&system, "Who is the mayor of Springfield?").await),
        ["The mayor of Springfield is Quimby."]
    );
    folder.write("mayor.txt", "The mayor of Springfield is Sideshow Bob now.");
    until("the change is noticed", PATIENCE, || async {
        let answer = ask(&system, "Who is the mayor of Springfield?").await;
        (quotes(&answer) == ["The mayor of Springfield is Sideshow Bob now."]).then_some(())
    })
    .await;
}

#[tokio::test]
async fn a_folder_that_is_missing_is_a_warning() {
    let setup = with_provider("folder").with("OPENSKILL_RESEARCH_FOLDER", "/nonexistent/folder");
    let answer = ask(&setup.start().await, "Who is the mayor of Springfield?").await;
    assert!(is_nothing(&answer) && warnings(&answer).contains("the folder cannot be read"), "{answer}");
}

#[tokio::test]
async fn the_focus_of_a_topic_comes_first() {
    let folder = Folder::new();
    folder.write("banks.txt", "Blockchains are used by banks, which settle payments with them.");
    folder.write("hospitals.txt", "Blockchains are used by hospitals, which keep records in them.");
    let system = with_folder(&folder).start().await;
    for focus in ["banks", "hospitals"] {
        let input = json!({ "question": "How are blockchains used?", "topic_focus": focus });
        let answer = found(&system, "comprehensive_research", input).await;
        assert!(quotes(&answer)[0].contains(focus), "{answer}");
        assert_eq!(answer["queries"][0], format!("How are blockchains used? {focus}"), "{answer}");
        assert_eq!(answer["pages_read"], 2, "{answer}");
    }
}
