//! One file, searched from its descriptor in buffers: never mapped, never read as a whole.

use std::fs::File;
use std::io::{self, Read};

use grep_matcher::Matcher as _;
use grep_regex::{RegexMatcher, RegexMatcherBuilder};
use grep_searcher::{
    BinaryDetection, Searcher, SearcherBuilder, Sink, SinkContext, SinkContextKind, SinkFinish, SinkMatch,
};
use openskill_proto::v1::{ErrorCode, SkillError};

use super::answer::{Found, MAX_ANSWER_BYTES, Match};
use super::arguments::Arguments;
use super::line::{around, matched, without_end};
use crate::runners::in_process::left::Left;
use crate::runners::in_process::list::Item as _;
use crate::runners::in_process::stop::Stop;

/// Maximum sizes of compiled regular expressions, each with the longest line that it may search. In the worst case, the time
/// for a line grows with their product, and nothing can interrupt a match.
const LONGEST_LINES: [(usize, usize); 4] =
    [(16 << 10, 4 << 20), (64 << 10, 1 << 20), (256 << 10, 256 << 10), (1 << 20, 128 << 10)];

/// The largest cache of the automaton of a regular expression.
const MAX_CACHE_BYTES: usize = 4 << 20;

/// The deepest nesting of a regular expression.
const MAX_REGEX_NESTING: u32 = 100;

/// A compiled query. Cheap to clone for another thread.
#[derive(Debug, Clone)]
pub(super) struct Query {
    matcher: RegexMatcher,
    context: usize,
    /// The search of a file ends at a longer line.
    longest_line: usize,
    /// The most matches of the answer.
    pub(super) most: usize,
}

impl Query {
    /// # Errors
    /// The pattern is invalid or too large.
    pub(super) fn new(arguments: &Arguments) -> Result<Self, SkillError> {
        let hint = "Patterns are those of the Rust regex crate, without look-around and backreferences";
        let invalid =
            |reason: String| SkillError::new(ErrorCode::InvalidArgument, format!("regex_pattern: {reason}\n{hint}"));
        // The matcher wraps the pattern in a group, which its own message would show.
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

    fn searcher(&self) -> Searcher {
        SearcherBuilder::new()
            .line_number(true)
            .before_context(self.context)
            .after_context(self.context)
            .binary_detection(BinaryDetection::quit(b'\0'))
            .heap_limit(Some(self.longest_line))
            .build()
    }
}

fn compile(arguments: &Arguments, size: usize) -> Result<RegexMatcher, String> {
    RegexMatcherBuilder::new()
        .case_insensitive(arguments.ignore_case)
        .multi_line(true)
        .unicode(true)
        // `$` matches where the text that is shown ends, unless the pattern is about what follows it.
        .crlf(!arguments.regex_pattern.contains("\\r"))
        .line_terminator(Some(b'\n'))
        .size_limit(size)
        .dfa_size_limit(MAX_CACHE_BYTES)
        .nest_limit(MAX_REGEX_NESTING)
        .build(&arguments.regex_pattern)
        .map_err(|error| error.to_string())
}

/// Searches files one after the other, with the same buffers.
pub(super) struct Files<'a> {
    query: &'a Query,
    searcher: Searcher,
}

impl<'a> Files<'a> {
    pub(super) fn new(query: &'a Query) -> Self {
        Self { query, searcher: query.searcher() }
    }

    /// Searches a file. `path`: as the answer names it.
    pub(super) fn search(&mut self, file: File, path: String, stop: &Stop) -> Found {
        let query = self.query;
        let mut watched = Watched { file, stop, bytes: 0, failed: None };
        let mut lines = Lines { query, path, found: Found::default(), bytes: 0, before: Vec::new(), binary_at: None };
        let searched = self.searcher.search_reader(&query.matcher, &mut watched, &mut lines);
        let Lines { path, mut found, binary_at, .. } = lines;
        found.bytes = watched.bytes;
        found.left = match (searched, watched.failed, binary_at) {
            (Err(_), Some(kind), _) => {
                let message = format!("it can't be read: {kind}");
                Some(Left { path, reason: "unreadable", message })
            }
            (Err(_), None, _) => {
                let most = query.longest_line;
                let message = format!("a line is longer than {most} bytes: it was searched up to that line");
                Some(Left { path, reason: "line_too_long", message })
            }
            (Ok(()), _, Some(at)) => {
                let message = format!(
                    "it is binary (a NUL at byte {at}), so the search ended there, or before its first line if the NUL is among \
                             its first 64 KiB"
                );
                Some(Left { path, reason: "binary", message })
            }
            (Ok(()), ..) => None,
        };
        found
    }
}

/// A file that stops reading once the call is over.
struct Watched<'a> {
    file: File,
    stop: &'a Stop,
    bytes: u64,
    failed: Option<io::ErrorKind>,
}

impl Read for Watched<'_> {
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

/// Takes the lines of one file that match, with their context, up to the bounds of an answer.
struct Lines<'a> {
    query: &'a Query,
    path: String,
    found: Found,
    /// About as many bytes as its matches have in the answer.
    bytes: usize,
    /// Lines since the last match.
    before: Vec<String>,
    binary_at: Option<u64>,
}

impl Sink for Lines<'_> {
    type Error = io::Error;

    fn matched(&mut self, _: &Searcher, it: &SinkMatch<'_>) -> io::Result<bool> {
        // A match can include the CR of a CRLF, which is not shown.
        let line = it.bytes().strip_suffix(b"\n").unwrap_or(it.bytes());
        let place = self.query.matcher.find(line).map_err(io::Error::other)?;
        let line = without_end(line);
        let place = place.map_or(0..0, |it| it.start().min(line.len())..it.end().min(line.len()));
        let shown = around(line, &place);
        let found = Match {
            path: self.path.clone(),
            line: it.line_number().unwrap_or_default(),
            column: place.start + 1,
            matched: matched(line, &place),
            text: shown.text,
            text_column: shown.is_cut.then_some(shown.from + 1),
            before: std::mem::take(&mut self.before),
            after: Vec::new(),
        };
        self.bytes += found.size();
        self.found.matches.push(found);
        // One match beyond the limit shows that there are more. Nothing is read after it.
        Ok(self.found.matches.len() <= self.query.most && self.bytes <= MAX_ANSWER_BYTES)
    }

    fn context(&mut self, _: &Searcher, it: &SinkContext<'_>) -> io::Result<bool> {
        let text = around(without_end(it.bytes()), &(0..0)).text;
        self.bytes += text.len();
        match (it.kind(), self.found.matches.last_mut()) {
            (SinkContextKind::After, Some(last)) => last.after.push(text),
            _ => self.before.push(text),
        }
        self.found.is_cut = self.bytes > MAX_ANSWER_BYTES;
        Ok(!self.found.is_cut)
    }

    fn finish(&mut self, _: &Searcher, end: &SinkFinish) -> io::Result<()> {
        self.binary_at = end.binary_byte_offset();
        Ok(())
    }
}
