//! Summarizes an installer's output in one sentence that says why it failed.

use crate::normalize::exception::without_folders;

/// The maximum length of a reason, in bytes.
const MAX_BYTES: usize = 600;

/// The reason if pip is the installer, and Python has none.
pub(super) const NO_PIP: &str =
    "its Python has no pip for new environments: install uv, or Python's venv (Debian: apt-get install python3-venv)";

/// Texts that installers print when they can't reach the index.
const UNREACHABLE: &str = include_str!("unreachable.txt");

/// Returns the reason. `hidden`: host paths that must not be revealed.
pub(crate) fn reason(installer: &str, output: &str, hidden: &[&str]) -> String {
    if output.contains("No space left on device") || output.contains("os error 28") {
        return full_disk();
    }
    if output.contains("ensurepip is not available") || output.contains("No module named ensurepip") {
        return NO_PIP.to_owned();
    }
    let said = clean(&installer_message(output), hidden);
    let unreachable = UNREACHABLE.lines().any(|it| output.contains(it));
    let hint = if unreachable {
        "the package index was not reached (see OPENSKILL_PYTHON_INDEX_URL and OPENSKILL_PYTHON_FIND_LINKS): "
    } else {
        ""
    };
    format!("{installer} could not install its packages: {hint}{said}")
}

/// Returns the message for a full disk, whichever program reported it.
pub(crate) fn full_disk() -> String {
    "the disk with the environments of Python skills is full: free some space, or set OPENSKILL_PYTHON_ENVIRONMENTS to a \
     directory on another disk"
        .to_owned()
}

/// Finds the installer's error message: pip's first error, uv's whole explanation, or another program's last line.
fn installer_message(output: &str) -> String {
    let lines: Vec<_> = output.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    if let Some(error) = lines.iter().find_map(|line| line.strip_prefix("ERROR: ")) {
        return error.to_owned();
    }
    let begins = |line: &&&str| line.starts_with("error:") || line.starts_with('×');
    if let Some(first) = lines.iter().position(|line| begins(&line)) {
        let bare = lines[first..].iter().map(|line| line.trim_start_matches(['×', '╰', '─', '▶', '├', '│', ' ']));
        return bare.map(|line| line.strip_prefix("error: ").unwrap_or(line)).collect::<Vec<_>>().join(" ");
    }
    lines.last().map_or_else(|| "it did not say why".to_owned(), |line| (*line).to_owned())
}

/// Sanitizes a text: one line of limited length, without control characters, passwords and host paths.
pub(crate) fn clean(text: &str, hidden: &[&str]) -> String {
    let mut text = text.to_owned();
    for path in hidden.iter().filter(|it| !it.is_empty()) {
        text = text.replace(path, "…");
    }
    let words = text.split(|it: char| it.is_whitespace() || it.is_control()).filter(|word| !word.is_empty());
    let text = without_folders(&words.map(without_password).collect::<Vec<_>>().join(" "));
    let end = text.floor_char_boundary(MAX_BYTES);
    if end < text.len() { format!("{}…", &text[..end]) } else { text }
}

fn without_password(word: &str) -> String {
    let Some(scheme) = word.find("://") else { return word.to_owned() };
    // A query may contain a token.
    let word = word.split('?').next().unwrap_or_default();
    match word.rfind('@') {
        Some(at) if scheme < at => format!("{}***{}", &word[..scheme + 3], &word[at..]),
        _ => word.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_error_of_pip_is_the_reason() {
        let output = "WARNING: something\nERROR: Could not find a version that satisfies the requirement x==9 (from versions: 1.0)\n\
                      ERROR: No matching distribution found for x==9\n";
        let reason = reason("pip", output, &[]);
        assert!(reason.starts_with("pip could not install its packages: Could not find a version"), "{reason}");
        assert!(reason.ends_with("x==9 (from versions: 1.0)"), "{reason}");
    }

    #[test]
    fn uv_explains_in_several_lines() {
        let output = "  × No solution found when resolving dependencies:\n  ╰─▶ Because x was not found in the package\n      \
                      registry and you require x, we can conclude that your requirements are unsatisfiable.\n";
        let reason = reason("uv", output, &[]);
        assert!(reason.contains("No solution found when resolving dependencies: Because x was not found"), "{reason}");
        assert!(reason.ends_with("are unsatisfiable."), "{reason}");
    }

    #[test]
    fn an_index_that_is_not_reached_is_named_with_its_settings() {
        let output =
            "WARNING: Retrying after connection broken by 'NewConnectionError(...)'\nERROR: No matching distribution";
        let reason = reason("pip", output, &[]);
        assert!(reason.contains("index was not reached") && reason.contains("OPENSKILL_PYTHON_INDEX_URL"), "{reason}");
    }

    #[test]
    fn a_full_disk_is_named_whatever_else_was_printed() {
        assert!(reason("pip", "ERROR: [Errno 28] No space left on device", &[]).contains("disk"));
        assert!(reason("uv", "failed to write (os error 28)", &[]).contains("OPENSKILL_PYTHON_ENVIRONMENTS"));
    }

    #[test]
    fn no_path_password_or_control_character_gets_out() {
        let output = "ERROR: bad \u{1b}[31m/srv/store/x https://ann:s3cret@host/simple\n";
        let reason = reason("pip", output, &["/srv/store"]);
        assert!(!reason.contains("/srv") && !reason.contains("s3cret") && !reason.contains('\u{1b}'), "{reason}");
        assert!(reason.contains("https://***@host/simple"), "{reason}");
        assert!(super::reason("pip", &format!("ERROR: {}", "x".repeat(5000)), &[]).len() < 700);
        assert!(super::reason("pip", "", &[]).ends_with("it did not say why"));
    }
}
