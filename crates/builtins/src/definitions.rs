//! `list_code_definitions`: lists functions, classes and types in one source file or in a folder.
//!
//! The grammars are C code, and sources are untrusted, so they never meet in the worker: [`parser`] starts jailed
//! processes without an allowed root or network access, which receive the text and return its definitions. If a
//! file crashes a process or exceeds the time or memory limit, the answer names the file, and the next file gets a
//! new process.
//!
//! - [`arguments`]: the arguments of a call; [`answer`]: the result

use std::collections::VecDeque;
use std::io::Read as _;
use std::os::fd::{AsFd as _, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ignore::overrides::Override;
use openskill_proto::v1::{ErrorCode, SkillError};
use openskill_readers_protocol::definitions::language::Language;
use openskill_readers_protocol::definitions::protocol::{MAX_SOURCE_BYTES, Reply};
use parking_lot::Mutex;
use rustix::io::Errno;

use super::host::{FunctionOutput, Host, spare};
use super::list::{FileItems, List, SkippedFile};
use super::paths::{PathKind, PathRefusal, PathView, kind_at, open};
use super::stop::StopSignal;
use super::walk::{Walk, WalkItem, globs};
use crate::call::{CallSlot, Invocation, Skill};

mod answer;
mod arguments;
mod parser;

use answer::{FileDefinition, empty_answer, file_items, report};
use arguments::DefinitionArguments;
pub(super) use parser::admit;
use parser::{ParseFailure, Parser};

/// The maximum number of parsers that may fail in one call. After that, the remaining files are not parsed.
const MOST_LOST: usize = 20;

/// The maximum number of source files in one call.
const MOST_FILES: usize = 20_000;

/// How many files justify each additional parser.
const FILES_OF_ONE: usize = 8;

/// A listing in progress.
struct Listing {
    host: Host,
    skill: Skill,
    slot: CallSlot,
    root: Arc<OwnedFd>,
    paths: PathView,
    queue: Mutex<VecDeque<(usize, SourceFile)>>,
    answer: Mutex<List<FileDefinition>>,
    parsers: Mutex<Parsers>,
}

/// The outcome of a listing's parser processes.
#[derive(Debug, Default)]
struct Parsers {
    /// How many parsers crashed or did not start.
    lost: usize,
    has_answered: bool,
    /// Why a parser could not be started, if any failed to start.
    start_failure: Option<&'static str>,
}

impl Parsers {
    fn note(&mut self, parsed: &Result<Reply, ParseFailure>) {
        self.has_answered |= parsed.is_ok();
        self.lost += usize::from(parsed.is_err());
        if let Err(ParseFailure::NotStarted(reason)) = parsed {
            self.start_failure = Some(reason);
        }
    }
}

/// Runs the function.
///
/// # Errors
/// The arguments name nothing that can be listed, or one file that can't be parsed.
pub(super) async fn run(host: Host, invocation: Invocation) -> Result<FunctionOutput, SkillError> {
    let arguments = DefinitionArguments::read(&invocation.input)?;
    let (field, written) = arguments.target()?;
    let (root, paths) = invocation.skill.open_root()?;
    let below = if written.is_empty() { PathBuf::new() } else { paths.below(field, written)? };
    let refused = |it: PathRefusal| it.error(field, written);
    let mut listing = Listing {
        host,
        skill: invocation.skill,
        slot: invocation.slot,
        root: Arc::new(root),
        paths,
        queue: Mutex::default(),
        answer: Mutex::new(empty_answer(arguments.max_definitions)),
        parsers: Mutex::default(),
    };
    if kind_at(listing.root.as_fd(), &below).map_err(refused)? == PathKind::File {
        let language = Language::from_path(&below).ok_or_else(|| unknown_language(field, written))?;
        return listing.one(SourceFile { path: below, language }).await;
    }
    let globs = globs(&below, &arguments.glob)?;
    let (stop, _stop_on_drop) = StopSignal::at(invocation.deadline);
    let root = Arc::clone(&listing.root);
    let walked = listing.slot.run_blocking(move || Sources::in_folder(root, &below, globs, &stop));
    let sources = walked.await.map_err(|_| SkillError::new(ErrorCode::Internal, "the walk panicked"))?;
    let Sources { files, skipped, is_complete } = sources.map_err(refused)?;
    listing.queue = Mutex::new(files.into_iter().enumerate().collect());
    listing.all(skipped, is_complete).await
}

fn unknown_language(field: &str, written: &str) -> SkillError {
    let known = "bash, c, c++, c#, go, java, javascript, kotlin, lua, php, python, ruby, rust, scala, typescript";
    let shown: String = written.chars().filter(|it| !it.is_control()).take(200).collect();
    let message = format!("{field}: '{shown}' does not have the extension of a supported language: {known}");
    SkillError::new(ErrorCode::InvalidArgument, message)
}

impl Listing {
    /// Parses a single file. A failure fails the call.
    async fn one(self, source: SourceFile) -> Result<FunctionOutput, SkillError> {
        let found = self.parse(&mut None, &source).await;
        match found {
            Ok(found) => {
                let mut answer = self.answer.into_inner();
                answer.put(0, found);
                report(answer)
            }
            Err(problem) => Err(problem.error(&self.paths.display_path(&source.path))),
        }
    }

    /// Parses all files with as many parallel parsers as there are free permits.
    async fn all(self, skipped: Vec<(PathBuf, PathRefusal)>, is_complete: bool) -> Result<FunctionOutput, SkillError> {
        let files = self.queue.lock().len();
        let helpers = spare(&self.host.helpers, files.saturating_sub(1) / FILES_OF_ONE);
        let lanes = (0..=helpers.len()).map(|_| self.lane());
        futures_util::future::join_all(lanes).await;
        let paths = self.paths;
        let parsers = self.parsers.into_inner();
        if let Some(reason) = parsers.start_failure.filter(|_| !parsers.has_answered) {
            return Err(ParseFailure::NotStarted(reason).error(&paths.display_path(Path::new(""))));
        }
        let mut answer = self.answer.into_inner();
        for (path, refused) in skipped {
            answer.add_skipped(SkippedFile {
                path: paths.display_path(&path),
                reason: refused.word(),
                message: refused.to_string(),
            });
        }
        if !is_complete {
            answer.cut("too_many_files");
        }
        report(answer)
    }

    /// Parses queued files with one parser until the queue is empty or the answer is full.
    async fn lane(&self) {
        let mut parser = None;
        loop {
            let Some((number, source)) = self.queue.lock().pop_front() else { return };
            if self.answer.lock().is_full_before(number) {
                return;
            }
            let found = match self.parse(&mut parser, &source).await {
                Ok(found) => found,
                Err(problem) => {
                    let (path, reason, message) =
                        (self.paths.display_path(&source.path), problem.word(), problem.to_string());
                    FileItems::from_skipped(SkippedFile { path, reason, message })
                }
            };
            self.answer.lock().put(number, found);
        }
    }

    /// Parses one file. Starts a parser if necessary, and drops a parser that failed.
    async fn parse(
        &self,
        parser: &mut Option<Parser>,
        source: &SourceFile,
    ) -> Result<FileItems<FileDefinition>, ParseFailure> {
        let text = self.read(source).await?;
        if parser.is_none() && self.parsers.lock().lost >= MOST_LOST {
            return Err(ParseFailure::TooManyLost);
        }
        let parsed = self.parse_text(parser, source.language, &text).await;
        self.parsers.lock().note(&parsed);
        parsed.map(|reply| file_items(self.paths.display_path(&source.path), reply))
    }

    async fn parse_text(
        &self,
        parser: &mut Option<Parser>,
        language: Language,
        text: &[u8],
    ) -> Result<Reply, ParseFailure> {
        let mut running = match parser.take() {
            Some(running) => running,
            None => Parser::start(&self.host, &self.skill, self.slot.clone())?,
        };
        let reply = running.parse(language, text).await?;
        *parser = Some(running);
        Ok(reply)
    }

    async fn read(&self, source: &SourceFile) -> Result<Vec<u8>, ParseFailure> {
        let (root, path) = (Arc::clone(&self.root), source.path.clone());
        let read = self.slot.run_blocking(move || read_source(&root, &path));
        read.await.map_err(|_| ParseFailure::NotStarted("the file was not read"))?
    }
}

/// A source file in a supported language.
#[derive(Debug)]
struct SourceFile {
    /// The path relative to the allowed root.
    path: PathBuf,
    language: Language,
}

/// The source files in a folder, sorted by path.
struct Sources {
    files: Vec<SourceFile>,
    /// The paths that could not be read, with reasons.
    skipped: Vec<(PathBuf, PathRefusal)>,
    /// Whether the list contains all source files of the folder.
    is_complete: bool,
}

impl Sources {
    /// # Errors
    /// The folder can't be read.
    fn in_folder(root: Arc<OwnedFd>, folder: &Path, globs: Override, stop: &StopSignal) -> Result<Self, PathRefusal> {
        let mut walk = Walk::new(root, folder, globs)?;
        let (mut files, mut skipped) = (Vec::new(), Vec::new());
        while !stop.is_due() && files.len() < MOST_FILES {
            match walk.next() {
                Some(WalkItem::File(path)) => {
                    files.extend(Language::from_path(&path).map(|language| SourceFile { path, language }));
                }
                Some(WalkItem::Skipped(path, refused)) => skipped.push((path, refused)),
                None => return Ok(Self { files, skipped, is_complete: walk.is_complete }),
            }
        }
        Ok(Self { files, skipped, is_complete: false })
    }
}

/// Reads a file of at most `MAX_SOURCE_BYTES`. Rejects binary files.
fn read_source(root: &OwnedFd, path: &Path) -> Result<Vec<u8>, ParseFailure> {
    let file = open(root.as_fd(), path).map_err(ParseFailure::Refused)?;
    let mut text = Vec::new();
    let read = file.take(MAX_SOURCE_BYTES as u64 + 1).read_to_end(&mut text);
    let errno = |error: std::io::Error| Errno::from_io_error(&error).unwrap_or(Errno::IO);
    read.map_err(|error| ParseFailure::Refused(PathRefusal::from_errno(errno(error))))?;
    if text.len() > MAX_SOURCE_BYTES {
        return Err(ParseFailure::TooLarge);
    }
    // A NUL near the start marks a binary file, regardless of its extension.
    if text[..text.len().min(8192)].contains(&0) {
        return Err(ParseFailure::Binary);
    }
    Ok(text)
}
