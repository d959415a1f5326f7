//! `list_code_definitions`: lists functions, classes and types in one source file or in a folder.
//!
//! The grammars are C code, and sources are untrusted, so they never meet in the worker: [`parser`] starts jailed
//! processes without an allowed root or network access, which receive the text and return its definitions. If a
//! file crashes a process or exceeds the time or memory limit, the answer names the file, and the next file gets a
//! new process.
//!
//! - [`arguments`]: the arguments of a call; [`sources`]: the files with their text; [`answer`]: the result

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use openskill_definitions::language::Language;
use openskill_definitions::protocol::Reply;
use openskill_proto::v1::{ErrorCode, SkillError};
use parking_lot::{Mutex, MutexGuard};

use super::host::{FunctionOutput, Host, spare};
use super::ordered::InFileOrder;
use super::paths::{PathKind, PathView, kind_at};
use super::skipped::SkippedFile;
use super::stop::StopSignal;
use crate::call::{CallSlot, Invocation, Skill};

mod answer;
mod arguments;
mod parser;
mod sources;

use answer::{DefinitionsAnswer, ParsedFile};
use arguments::DefinitionArguments;
pub(super) use parser::admit;
use parser::{ParseFailure, Parser};
use sources::{SourceFile, Sources};

/// The maximum number of parsers that may fail in one call. After that, the remaining files are not parsed.
const MOST_LOST: usize = 20;

/// A listing in progress.
struct Listing {
    host: Host,
    skill: Skill,
    slot: CallSlot,
    root: Arc<std::os::fd::OwnedFd>,
    paths: PathView,
    queue: Mutex<VecDeque<(usize, SourceFile)>>,
    answer: Mutex<InFileOrder<DefinitionsAnswer>>,
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
    let root = Arc::new(root);
    let refused = |it: super::paths::PathRefusal| it.error(field, written);
    let (skill, slot, most) = (invocation.skill, invocation.slot, arguments.max_definitions);
    let answer = Mutex::new(InFileOrder::new(DefinitionsAnswer::new(most)));
    let listing = |queue| {
        let (queue, parsers) = (Mutex::new(queue), Mutex::default());
        Listing {
            host: host.clone(),
            skill,
            slot: slot.clone(),
            root: Arc::clone(&root),
            paths,
            queue,
            answer,
            parsers,
        }
    };
    if kind_at(std::os::fd::AsFd::as_fd(&root), &below).map_err(refused)? == PathKind::File {
        let language = Language::from_path(&below).ok_or_else(|| unknown_language(field, written))?;
        return listing(VecDeque::new()).one(SourceFile { path: below, language }).await;
    }
    let globs = super::walk::globs(&below, &arguments.globs())?;
    let (stop, _stop_on_drop) = StopSignal::at(invocation.deadline);
    let held = (Arc::clone(&root), slot.clone());
    let walked = tokio::task::spawn_blocking(move || {
        let (root, _slot) = held;
        Sources::in_folder(root, &below, globs, &stop)
    });
    let sources = walked.await.map_err(|_| SkillError::new(ErrorCode::Internal, "the walk panicked"))?;
    let Sources { files, skipped, is_complete } = sources.map_err(refused)?;
    listing(files.into_iter().enumerate().collect()).all(skipped, is_complete).await
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
                let mut ordered = self.answer.into_inner();
                ordered.put(0, found);
                ordered.answer.report()
            }
            Err(problem) => Err(problem.error(&self.paths.display_path(&source.path))),
        }
    }

    /// Parses all files with as many parallel parsers as there are free permits.
    async fn all(
        self,
        skipped: Vec<(PathBuf, super::paths::PathRefusal)>,
        is_complete: bool,
    ) -> Result<FunctionOutput, SkillError> {
        let files = lock(&self.queue).len();
        let helpers = spare(&self.host.helpers, files.saturating_sub(1) / FILES_OF_ONE);
        let lanes = (0..=helpers.len()).map(|_| self.lane());
        futures_util::future::join_all(lanes).await;
        let paths = self.paths;
        let parsers = self.parsers.into_inner();
        if let Some(reason) = parsers.start_failure.filter(|_| !parsers.has_answered) {
            return Err(ParseFailure::NotStarted(reason).error(&paths.display_path(Path::new(""))));
        }
        let mut answer = self.answer.into_inner().answer;
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
        answer.report()
    }

    /// Parses queued files with one parser until the queue is empty or the answer is full.
    async fn lane(&self) {
        let mut parser = None;
        loop {
            let Some((number, source)) = lock(&self.queue).pop_front() else { return };
            if lock(&self.answer).is_full_before(number) {
                return;
            }
            let found = match self.parse(&mut parser, &source).await {
                Ok(found) => found,
                Err(problem) => {
                    let (path, reason, message) =
                        (self.paths.display_path(&source.path), problem.word(), problem.to_string());
                    ParsedFile::from_skipped(SkippedFile { path, reason, message })
                }
            };
            lock(&self.answer).put(number, found);
        }
    }

    /// Parses one file. Starts a parser if necessary, and drops a parser that failed.
    async fn parse(&self, parser: &mut Option<Parser>, source: &SourceFile) -> Result<ParsedFile, ParseFailure> {
        let text = self.read(source).await?;
        if parser.is_none() && lock(&self.parsers).lost >= MOST_LOST {
            return Err(ParseFailure::TooManyLost);
        }
        let parsed = self.parse_text(parser, source.language, &text).await;
        lock(&self.parsers).note(&parsed);
        parsed.map(|reply| ParsedFile::from_reply(self.paths.display_path(&source.path), reply))
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
        let (root, path, slot) = (Arc::clone(&self.root), source.path.clone(), self.slot.clone());
        let read = tokio::task::spawn_blocking(move || {
            let _slot = slot;
            sources::read(&root, &path)
        });
        read.await.map_err(|_| ParseFailure::NotStarted("the file was not read"))?
    }
}

/// How many files justify each additional parser.
const FILES_OF_ONE: usize = 8;

fn lock<T>(it: &Mutex<T>) -> MutexGuard<'_, T> {
    it.lock()
}
