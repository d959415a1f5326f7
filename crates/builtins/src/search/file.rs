//! Searches one file through its descriptor, buffer by buffer. The file is neither mapped nor read as a whole.

use std::fs::File;
use std::io::{self, Read};

use grep_matcher::Matcher as _;
use grep_regex::{RegexMatcher, RegexMatcherBuilder};
use grep_searcher::{
    BinaryDetection, Searcher, SearcherBuilder, Sink, SinkContext, SinkContextKind, SinkFinish, SinkMatch,
};
use openskill_proto::v1::{ErrorCode, SkillError};

use super::answer::{MAX_ANSWER_BYTES, Match, SearchedFile};
use super::arguments::SearchArguments;
use super::line::{around, match_text, without_end};
use crate::list::ListItem as _;
use crate::skipped::SkippedFile;
use crate::stop::StopSignal;

/// Maximum sizes of a compiled regular expression, each with the maximum line length that it may search. In the
/// worst case, searching a line takes time proportional to their product and can't be interrupted.
const LONGEST_LINES: [(usize, usize); 4] =
    [(16 << 10, 4 << 20), (64 << 10, 1 << 20), (256 << 10, 256 << 10), (1 << 20, 128 << 10)];

/// The maximum cache size of a regular expression's automaton, in bytes.
const MAX_CACHE_BYTES: usize = 4 << 20;

/// The maximum nesting depth of a regular expression.
const MAX_REGEX_NESTING: u32 = 100;

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
        Self { query, searcher: query.searcher() }
    }

    /// Searches a file. `path` is its name in the answer.
    pub(super) fn search(&mut self, file: File, path: String, stop: &StopSignal) -> SearchedFile {
        let query = self.query;
        let mut watched = InterruptibleFile { file, stop, bytes: 0, failed: None };
        let mut lines = MatchCollector {
            query,
            path,
            found: SearchedFile::default(),
            bytes: 0,
            before: Vec::new(),
            binary_at: None,
        };
        let searched = self.searcher.search_reader(&query.matcher, &mut watched, &mut lines);
        let MatchCollector { path, mut found, binary_at, .. } = lines;
        found.bytes = watched.bytes;
        found.skipped = match (searched, watched.failed, binary_at) {
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
        found
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
    found: SearchedFile,
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
        self.found.matches.push(found);
        // Read one match beyond the limit, to know that there are more.
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
