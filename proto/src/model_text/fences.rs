//! Code blocks: those that may contain a call, and those of programs, in which marks have no meaning.

use super::token::Kind;

/// The minimum length of a run of backticks that begins a code block.
const MIN_FENCE: usize = 3;

/// The languages of blocks that may contain a call. A block in another language may contain one too, if it begins
/// with a call.
const CALL_LANGUAGES: [&str; 6] = ["json", "jsonc", "json5", "xml", "tool_call", "tool_use"];

/// Classifies a run of backticks at the beginning of a text. Returns its kind and the length of the token. `open`
/// is the number of backticks that opened the current block.
pub(super) fn fence(text: &str, open: &mut Option<usize>) -> (Option<Kind<'static>>, usize) {
    let run = run_of_backticks(text);
    match *open {
        Some(fence) if run >= fence => {
            *open = None;
            (Some(Kind::FenceClose), run)
        }
        None if run >= MIN_FENCE => {
            let content = text[run..].trim_start_matches(|it: char| it.is_ascii_alphanumeric() || "_+-.".contains(it));
            let begin = text.len() - content.len();
            if CALL_LANGUAGES.contains(&&text[run..begin]) || content.trim_start().starts_with(['{', '[', '<']) {
                *open = Some(run);
                return (Some(Kind::FenceOpen), begin);
            }
            end_of_code(text, begin, run).map_or((Some(Kind::Unclosed), text.len()), |end| (Some(Kind::Code), end))
        }
        _ => (None, run),
    }
}

/// Returns the end of the code block whose content begins at `content`. A fence with a language does not end a
/// block.
fn end_of_code(text: &str, content: usize, fence: usize) -> Option<usize> {
    let mut at = content;
    loop {
        at += text[at..].find('`')?;
        let run = run_of_backticks(&text[at..]);
        at += run;
        if run >= fence && !text[at..].starts_with(char::is_alphanumeric) {
            return Some(at);
        }
    }
}

fn run_of_backticks(text: &str) -> usize {
    text.len() - text.trim_start_matches('`').len()
}
