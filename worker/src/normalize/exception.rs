//! Finds the exception that ended a Python script, from its stderr. Quotes lines that skills wrote.

use std::sync::LazyLock;

use openskill_redact::{Redactor, Rules};

/// Redacts what a script wrote, because it may contain any of the script's data.
static REDACTOR: LazyLock<Option<Redactor>> = LazyLock::new(|| Redactor::new(Rules::default()).ok());

/// The maximum length of a line in a result, in bytes.
const MAX_BYTES: usize = 500;

/// The maximum part of a line that is searched for secrets, in bytes. Far more than is shown.
const MAX_QUOTED_BYTES: usize = 16 * 1024;

/// The start of a traceback.
const TRACEBACK: &str = "Traceback (most recent call last):";

/// Messages of programs that have no network, or can't resolve a name without one, one a line.
const NO_NETWORK: &str = include_str!("no_network.txt");

/// Returns the line with the last exception, truncated and without secrets, folders and control characters.
/// Returns `None` if there was no exception.
pub(super) fn last_line(stderr: &[u8]) -> Option<String> {
    let text = String::from_utf8_lossy(stderr);
    let traceback = text.rfind(TRACEBACK).map(|at| text[at..].lines().skip(1));
    let line = match traceback {
        // The exception follows the frames, which are indented.
        Some(mut lines) => lines.find(|line| !line.is_empty() && !line.starts_with([' ', '\t']))?,
        // A syntax error has no frames. The caller must not see a program's other last lines.
        None => text.lines().rfind(|line| !line.trim().is_empty()).filter(|line| is_syntax_error(line))?,
    };
    quote(line, MAX_BYTES)
}

/// Returns a line that a skill wrote, truncated to `most` bytes and without secrets, folders and control characters.
/// Returns `None` if secrets can't be recognized.
pub(super) fn quote(line: &str, most: usize) -> Option<String> {
    let line = REDACTOR.as_ref()?.text(&line[..line.floor_char_boundary(MAX_QUOTED_BYTES)]);
    let line: String = without_folders(&line).chars().map(|it| if it.is_control() { '\u{fffd}' } else { it }).collect();
    let end = line.floor_char_boundary(most);
    Some(if end < line.len() { format!("{}…", &line[..end]) } else { line })
}

/// Removes the folders from file names in a line, because folders belong to the host. URLs stay unchanged.
pub(crate) fn without_folders(line: &str) -> String {
    let is_part = |it: char| !it.is_whitespace() && !"'\"`,;:()[]<>|".contains(it);
    let (mut kept, mut rest) = (String::new(), line);
    while let Some(at) = rest.find('/') {
        let (before, path) = rest.split_at(at);
        kept.push_str(before);
        let end = path.find(|it| !is_part(it)).unwrap_or(path.len());
        let begins = !kept.ends_with(|last: char| last.is_alphanumeric() || ":/._-~".contains(last));
        let name = path[..end].trim_end_matches('/').rfind('/').map_or(0, |slash| slash + 1);
        kept.push_str(&path[if begins { name } else { 0 }..end]);
        rest = &path[end..];
    }
    kept + rest
}

fn is_syntax_error(line: &str) -> bool {
    ["SyntaxError: ", "IndentationError: ", "TabError: "].iter().any(|it| line.starts_with(it))
}

/// Returns whether a failure's text suggests a missing network.
pub(super) fn lacks_network(text: &str) -> bool {
    // This happens where the jail refuses sockets.
    let refused = text.contains("[Errno 13] Permission denied") && text.contains("socket");
    refused || NO_NETWORK.lines().any(|it| text.contains(it))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_exception_of_a_chain_is_named() {
        let stderr = b"a warning\nTraceback (most recent call last):\n  File \"x.py\", line 1, in <module>\n    a()\n    ~^^\n\
                       KeyError: 'a'\n\nDuring handling of the above exception, another exception occurred:\n\n\
                       Traceback (most recent call last):\n  File \"x.py\", line 3, in <module>\n    raise ValueError(\"bad\\nrest\")\n\
                       ValueError: bad\nrest\n";
        assert_eq!(last_line(stderr).as_deref(), Some("ValueError: bad"));
        let syntax = b"  File \"x.py\", line 1\n    def\n       ^\nSyntaxError: invalid syntax\n";
        assert_eq!(last_line(syntax).as_deref(), Some("SyntaxError: invalid syntax"));
    }

    #[test]
    fn a_secret_in_an_exception_is_masked() {
        let line =
            last_line(b"Traceback (most recent call last):\n  x\nRuntimeError: token=hunter2 was refused\n").unwrap();
        assert!(line.starts_with("RuntimeError: token=***") && !line.contains("hunter2"), "{line}");
    }

    #[test]
    fn folders_of_the_host_stay_inside() {
        for (line, shown) in [
            ("E: No such file: '/srv/app/data/x.csv'", "E: No such file: 'x.csv'"),
            ("E: /srv/app and /tmp/", "E: app and tmp/"),
            ("E: https://host/a/b (a/b)", "E: https://host/a/b (a/b)"),
            ("E: 1 / 2", "E: 1 / 2"),
        ] {
            assert_eq!(without_folders(line), shown);
        }
    }

    #[test]
    fn what_is_no_exception_stays_in_the_log() {
        assert_eq!(last_line(b"token: s3cret\n"), None);
        assert_eq!(last_line(b""), None);
        assert_eq!(last_line(b"Traceback (most recent call last):\n  File \"x.py\"\n"), None);
    }

    #[test]
    fn a_hostile_line_is_bounded_and_escaped() {
        let stderr = format!("{TRACEBACK}\n  File\nError: \u{1b}[31m{}\n", "é".repeat(1000));
        let line = last_line(stderr.as_bytes()).unwrap();
        assert!(line.len() <= MAX_BYTES + 3 && !line.contains('\u{1b}'), "{line}");
        assert_eq!(last_line(b"Traceback (most recent call last):\n  x\nE: \xff\n").as_deref(), Some("E: \u{fffd}"));
    }

    #[test]
    fn a_failure_without_a_network_is_recognized() {
        assert!(lacks_network("socket.gaierror: [Errno -3] Temporary failure in name resolution"));
        assert!(lacks_network("OSError: [Errno 101] Network is unreachable"));
        assert!(!lacks_network("ConnectionRefusedError: [Errno 111] Connection refused"));
    }
}
