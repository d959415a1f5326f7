//! Searches one file through its descriptor, buffer by buffer. The file is neither mapped nor read as a whole. Of a
//! long line, only the part around the match is shown.

use std::fs::File;
use std::io::{self, Read};
use std::ops::Range;

use grep_matcher::Matcher as _;
use grep_regex::{RegexMatcher, RegexMatcherBuilder};
use grep_searcher::{
    BinaryDetection, Searcher, SearcherBuilder, Sink, SinkContext, SinkContextKind, SinkFinish, SinkMatch,
};
use openskill_proto::v1::{ErrorCode, SkillError};

use super::answer::{MAX_ANSWER_BYTES, Match, SearchStats, SearchedFile};
use super::arguments::SearchArguments;
use crate::list::{ListItem as _, SkippedFile};
use crate::stop::StopSignal;

/// Maximum sizes of a compiled regular expression, each with the maximum line length that it may search. In the
/// worst case, searching a line takes time proportional to their product and can't be interrupted.
const LONGEST_LINES: [(usize, usize); 4] =
    [(16 << 10, 4 << 20), (64 << 10, 1 << 20), (256 << 10, 256 << 10), (1 << 20, 128 << 10)];

/// The maximum cache size of a regular expression's automaton, in bytes.
const MAX_CACHE_BYTES: usize = 4 << 20;

/// The maximum nesting depth of a regular expression.
const MAX_REGEX_NESTING: u32 = 100;

/// The maximum size of the displayed part of a line, in bytes.
const MAX_LINE_BYTES: usize = 500;

/// The maximum size of the displayed part of a match, in bytes.
const MAX_MATCH_BYTES: usize = 200;

/// A compiled query. Cheap to clone for another thread.
#[derive(Debug, Clone)]
pub(super) struct Query {
    matcher: RegexMatcher,
    context: usize,
    /// The maximum line length. A longer line stops the search of its file.
    longest_line: usize,
    /// The maximum number of matches in the answer.
    pub(super) most: usize,
}

impl Query {
    /// # Errors
    /// The pattern is invalid or too large.
    pub(super) fn new(arguments: &SearchArguments) -> Result<Self, SkillError> {
        let hint = "Patterns use the syntax of the Rust regex crate, without look-around or backreferences";
        let invalid =
            |reason: String| SkillError::new(ErrorCode::InvalidArgument, format!("regex_pattern: {reason}\n{hint}"));
        // The matcher wraps the pattern in a group, which would appear in its error messages. So parse it here
        // first.
        let mut parser = regex_syntax::ParserBuilder::new().nest_limit(MAX_REGEX_NESTING).utf8(false).build();
        parser.parse(&arguments.regex_pattern).map_err(|error| invalid(error.to_string()))?;
        let (context, most) = (arguments.context, arguments.max_matches);
        let mut refused = String::new();
        for (size, longest_line) in LONGEST_LINES {
            match compile(arguments, size) {
                Ok(matcher) => return Ok(Self { matcher, context, longest_line, most }),
                Err(reason) => refused = reason,
            }
        }
        Err(invalid(refused))
    }
}

fn compile(arguments: &SearchArguments, size: usize) -> Result<RegexMatcher, String> {
    RegexMatcherBuilder::new()
        .case_insensitive(arguments.ignore_case)
        .multi_line(true)
        .unicode(true)
        // `$` matches at the end of the visible text, unless the pattern mentions `\r` itself.
        .crlf(!arguments.regex_pattern.contains("\\r"))
        .line_terminator(Some(b'\n'))
        .size_limit(size)
        .dfa_size_limit(MAX_CACHE_BYTES)
        .nest_limit(MAX_REGEX_NESTING)
        .build(&arguments.regex_pattern)
        .map_err(|error| error.to_string())
}

/// Searches files one after another and reuses buffers.
pub(super) struct Files<'a> {
    query: &'a Query,
    searcher: Searcher,
}

impl<'a> Files<'a> {
    pub(super) fn new(query: &'a Query) -> Self {
        let searcher = SearcherBuilder::new()
            .line_number(true)
            .before_context(query.context)
            .after_context(query.context)
            .binary_detection(BinaryDetection::quit(b'\0'))
            .heap_limit(Some(query.longest_line))
            .build();
        Self { query, searcher }
    }

    /// Searches a file. `path` is its name in the answer.
    pub(super) fn search(&mut self, file: File, path: String, stop: &StopSignal) -> SearchedFile {
        let query = self.query;
        let mut watched = InterruptibleFile { file, stop, bytes: 0, failed: None };
        let (matches, before) = (Vec::new(), Vec::new());
        let mut lines = MatchCollector { query, path, matches, is_cut: false, bytes: 0, before, binary_at: None };
        let searched = self.searcher.search_reader(&query.matcher, &mut watched, &mut lines);
        let MatchCollector { path, matches: items, is_cut, binary_at, .. } = lines;
        let skipped = match (searched, watched.failed, binary_at) {
            (Err(_), Some(kind), _) => {
                let message = format!("it can't be read: {kind}");
                Some(SkippedFile { path, reason: "unreadable", message })
            }
            (Err(_), None, _) => {
                let most = query.longest_line;
                let message = format!("a line is longer than {most} bytes: the file was searched only up to that line");
                Some(SkippedFile { path, reason: "line_too_long", message })
            }
            (Ok(()), _, Some(at)) => {
                let message = format!(
                    "it is binary (a NUL at byte {at}), so the search ended there, or before its first line if the NUL is among \
                             its first 64 KiB"
                );
                Some(SkippedFile { path, reason: "binary", message })
            }
            (Ok(()), ..) => None,
        };
        let files_with_matches = usize::from(!items.is_empty());
        let stats =
            SearchStats { files_searched: 1, files_with_matches, files_left_out: 0, bytes_searched: watched.bytes };
        SearchedFile { items, skipped, stats, cut_by: is_cut.then_some("answer_bytes") }
    }
}

/// A file whose reads fail once the call is over.
struct InterruptibleFile<'a> {
    file: File,
    stop: &'a StopSignal,
    bytes: u64,
    failed: Option<io::ErrorKind>,
}

impl Read for InterruptibleFile<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.stop.is_due() {
            self.failed = Some(io::ErrorKind::TimedOut);
            return Err(io::ErrorKind::TimedOut.into());
        }
        let read = self.file.read(buffer);
        match &read {
            Ok(count) => self.bytes += *count as u64,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => self.failed = Some(error.kind()),
        }
        read
    }
}

/// Collects the matching lines of one file with context, within the limits of an answer.
struct MatchCollector<'a> {
    query: &'a Query,
    path: String,
    matches: Vec<Match>,
    /// Whether the file has more matches than an answer can contain.
    is_cut: bool,
    /// The approximate size of the matches in the answer, in bytes.
    bytes: usize,
    /// The context lines since the last match.
    before: Vec<String>,
    binary_at: Option<u64>,
}

impl Sink for MatchCollector<'_> {
    type Error = io::Error;

    fn matched(&mut self, _: &Searcher, it: &SinkMatch<'_>) -> io::Result<bool> {
        // A match can include the CR of a CRLF, which is not displayed.
        let line = it.bytes().strip_suffix(b"\n").unwrap_or(it.bytes());
        let place = self.query.matcher.find(line).map_err(io::Error::other)?;
        let line = without_end(line);
        let place = place.map_or(0..0, |it| it.start().min(line.len())..it.end().min(line.len()));
        let shown = around(line, &place);
        let found = Match {
            path: self.path.clone(),
            line: it.line_number().unwrap_or_default(),
            column: place.start + 1,
            matched: match_text(line, &place),
            text: shown.text,
            text_column: shown.is_cut.then_some(shown.from + 1),
            before: std::mem::take(&mut self.before),
            after: Vec::new(),
        };
        self.bytes += found.size();
        self.matches.push(found);
        // Read one match beyond the limit, to know that there are more.
        Ok(self.matches.len() <= self.query.most && self.bytes <= MAX_ANSWER_BYTES)
    }

    fn context(&mut self, _: &Searcher, it: &SinkContext<'_>) -> io::Result<bool> {
        let text = around(without_end(it.bytes()), &(0..0)).text;
        self.bytes += text.len();
        match (it.kind(), self.matches.last_mut()) {
            (SinkContextKind::After, Some(last)) => last.after.push(text),
            _ => self.before.push(text),
        }
        self.is_cut = self.bytes > MAX_ANSWER_BYTES;
        Ok(!self.is_cut)
    }

    fn finish(&mut self, _: &Searcher, end: &SinkFinish) -> io::Result<()> {
        self.binary_at = end.binary_byte_offset();
        Ok(())
    }
}

/// Part of a line as text.
#[derive(Debug, PartialEq, Eq)]
struct LinePart {
    text: String,
    /// The byte offset of the text in the line, counted from 0.
    from: usize,
    is_cut: bool,
}

/// Returns the part of a line around `found`. Replaces invalid UTF-8 with U+FFFD.
fn around(line: &[u8], found: &Range<usize>) -> LinePart {
    if line.len() <= MAX_LINE_BYTES {
        return LinePart { text: String::from_utf8_lossy(line).into_owned(), from: 0, is_cut: false };
    }
    let room = MAX_LINE_BYTES.saturating_sub(found.len()) / 2;
    let from = found.start.saturating_sub(room).min(line.len() - MAX_LINE_BYTES);
    let from = boundary(line, from);
    let to = boundary(line, (from + MAX_LINE_BYTES).min(line.len())).max(from);
    LinePart { text: String::from_utf8_lossy(&line[from..to]).into_owned(), from, is_cut: true }
}

/// Returns the matched text, truncated to [`MAX_MATCH_BYTES`].
fn match_text(line: &[u8], found: &Range<usize>) -> String {
    let to = found.end.min(found.start + MAX_MATCH_BYTES);
    let to = if to < found.end { boundary(line, to) } else { to };
    String::from_utf8_lossy(&line[found.start..to.max(found.start)]).into_owned()
}

/// Returns the start of the UTF-8 character that contains a byte offset.
fn boundary(line: &[u8], at: usize) -> usize {
    let is_inside = |at: usize| line.get(at).is_some_and(|byte| byte & 0xC0 == 0x80);
    (at.saturating_sub(3)..=at).rev().find(|at| !is_inside(*at)).unwrap_or(at)
}

/// Returns a line without its line ending.
fn without_end(line: &[u8]) -> &[u8] {
    let line = line.strip_suffix(b"\n").unwrap_or(line);
    line.strip_suffix(b"\r").unwrap_or(line)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_line_is_shown_around_its_match() {
        let line = format!("{}needle{}", "é".repeat(5000), "ü".repeat(5000));
        let at = 10_000..10_006;
        let shown = around(line.as_bytes(), &at);
        assert!(shown.is_cut && shown.text.contains("needle") && shown.text.len() <= MAX_LINE_BYTES, "{shown:?}");
        assert!(!shown.text.contains('\u{fffd}'), "no character is cut in two");
        assert_eq!(&line[shown.from..shown.from + shown.text.len()], shown.text);
        for at in [0..1, 20_005..20_006] {
            assert!(around(line.as_bytes(), &at).text.len() >= MAX_LINE_BYTES - 6);
        }
        assert_eq!(around(b"a\xffb", &(0..1)).text, "a\u{fffd}b");
    }

    #[test]
    fn a_long_match_is_cut() {
        let line = "é".repeat(5000);
        let shown = match_text(line.as_bytes(), &(0..10_000));
        assert!(shown.len() <= MAX_MATCH_BYTES && !shown.contains('\u{fffd}'));
        assert_eq!(match_text(b"abc", &(1..1)), "");
        assert_eq!(around(line.as_bytes(), &(0..10_000)).text.len(), MAX_LINE_BYTES);
    }
}
