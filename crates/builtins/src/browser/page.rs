//! The script that runs in an isolated world of each frame.
//!
//! Each file is a separately parsable script. All files share one scope and run in order.

use std::sync::LazyLock;

/// The name of the isolated world.
pub(super) const WORLD: &str = "openskill";

/// The names and texts of the script files, in the order in which they run.
const FILES: [(&str, &str); 23] = [
    ("00_start.js", include_str!("page/00_start.js")),
    ("10_text.js", include_str!("page/10_text.js")),
    ("15_budget.js", include_str!("page/15_budget.js")),
    ("20_tree.js", include_str!("page/20_tree.js")),
    ("25_roles.js", include_str!("page/25_roles.js")),
    ("30_names.js", include_str!("page/30_names.js")),
    ("35_state.js", include_str!("page/35_state.js")),
    ("40_look.js", include_str!("page/40_look.js")),
    ("45_numbers.js", include_str!("page/45_numbers.js")),
    ("50_place.js", include_str!("page/50_place.js")),
    ("55_walk.js", include_str!("page/55_walk.js")),
    ("60_lines.js", include_str!("page/60_lines.js")),
    ("65_locate.js", include_str!("page/65_locate.js")),
    ("66_frames.js", include_str!("page/66_frames.js")),
    ("67_press.js", include_str!("page/67_press.js")),
    ("70_changes.js", include_str!("page/70_changes.js")),
    ("75_typing.js", include_str!("page/75_typing.js")),
    ("78_options.js", include_str!("page/78_options.js")),
    ("80_find.js", include_str!("page/80_find.js")),
    ("84_table.js", include_str!("page/84_table.js")),
    ("85_markdown.js", include_str!("page/85_markdown.js")),
    ("87_extract.js", include_str!("page/87_extract.js")),
    ("99_end.js", include_str!("page/99_end.js")),
];

/// The expression to evaluate once per document. Its value is an object, declared by the last file, whose functions
/// the worker calls.
pub(super) static SCRIPT: LazyLock<String> = LazyLock::new(|| {
    let files: String = FILES.iter().map(|(_, text)| *text).collect();
    format!("(() => {{\n'use strict';\n{files}return page;\n}})()\n")
});

/// The script that runs at the start of each new document, in the same isolated world.
pub(super) const WATCH: &str = include_str!("watch.js");

#[cfg(test)]
mod tests {
    use std::io::Write as _;
    use std::process::{Command, Stdio};

    use super::*;
    use crate::require::{Need, skip};

    /// Parses scripts in strict mode without running them. On a syntax error, Node.js exits and prints the file
    /// and line.
    const PARSER: &str = "const vm = require('node:vm');
        for (const [filename, text] of JSON.parse(require('node:fs').readFileSync(0, 'utf8'))) {
            new vm.Script(`'use strict';${text}`, { filename });
        }";

    #[test]
    fn each_script_parses_alone() {
        let node = Command::new("node")
            .args(["-e", PARSER])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn();
        let Ok(mut node) = node else {
            return skip(Need::Node, "no Node.js is on PATH to parse the scripts of pages");
        };
        let scripts = [&FILES[..], &[("watch.js", WATCH), ("all files", SCRIPT.as_str())]].concat();
        let scripts = serde_json::to_vec(&scripts).unwrap();
        node.stdin.take().unwrap().write_all(&scripts).unwrap();
        let ended = node.wait_with_output().unwrap();
        assert!(ended.status.success(), "{}", String::from_utf8_lossy(&ended.stderr));
    }
}
