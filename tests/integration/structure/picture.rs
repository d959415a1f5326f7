//! Draws which crate, or which room of a crate, imports from which.

use std::collections::{BTreeMap, BTreeSet};

use openskill_tests::repository;

use super::rooms::{GATEWAY, WORKER};
use super::{CRATES, edges};

/// What imports from what, by name.
type Edges = BTreeMap<String, BTreeSet<String>>;

/// A Mermaid flowchart. An edge that a longer path implies is left out.
fn flowchart(edges: &Edges) -> String {
    let lines = edges.iter().flat_map(|(from, targets)| {
        let direct = targets.iter().filter(move |to| !targets.iter().any(|via| via != *to && reaches(edges, via, to)));
        direct.map(move |to| format!("    {from} --> {to}\n"))
    });
    format!("```mermaid\nflowchart TD\n{}```\n", lines.collect::<String>())
}

fn reaches(edges: &Edges, from: &str, to: &str) -> bool {
    let (mut open, mut seen) = (vec![from], BTreeSet::new());
    while let Some(next) = open.pop() {
        for target in edges.get(next).into_iter().flatten() {
            if target == to {
                return true;
            }
            if seen.insert(target) {
                open.push(target);
            }
        }
    }
    false
}

#[test]
fn the_pictures_of_the_architecture_are_drawn_from_the_code() {
    let page = std::fs::read_to_string(repository().join("docs/architecture.md")).unwrap();
    let crates: Edges = CRATES.iter().map(|it| (it.trim_start_matches("crates/").to_owned(), edges(it))).collect();
    for picture in [crates, GATEWAY.imports(), WORKER.imports()].map(|it| flowchart(&it)) {
        assert!(page.contains(&picture), "docs/architecture.md lacks this picture:\n{picture}");
    }
}

#[test]
fn a_picture_leaves_out_what_a_longer_path_says() {
    let edges = [("a", vec!["b", "c"]), ("b", vec!["c"]), ("c", vec![])];
    let edges = edges.map(|(from, to)| (from.to_owned(), to.into_iter().map(str::to_owned).collect()));
    assert_eq!(flowchart(&edges.into()), "```mermaid\nflowchart TD\n    a --> b\n    b --> c\n```\n");
}
