//! `list_code_definitions`: functions, classes and types of one source file or of a folder.
//!
//! The grammars are C, and sources are untrusted. They never meet in the worker: [`parser`] starts jailed processes, without
//! an allowed root or a network, which get the text and return its definitions. A file that crashes a process, or exceeds its
//! time or memory, is named in the answer, and the next file gets a new process.
//!
//! - [`arguments`]: what a caller asks for; [`sources`]: the files, and their text; [`answer`]: what is returned

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use openskill_definitions::language::Language;
use openskill_definitions::protocol::Reply;
use openskill_proto::v1::{ErrorCode, SkillError};

use super::host::{Host, Report, spare};
use super::left::Left;
use super::ordered::Ordered;
use super::place::{Kind, Place, look};
use super::stop::Stop;
use crate::manifest::Manifest;
use crate::runner::Invocation;
use crate::schedule::Slot;

mod answer;
mod arguments;
mod parser;
mod sources;

use answer::{Answer, Found};
use arguments::Arguments;
pub(super) use parser::admit;
use parser::{Parser, Problem};
use sources::{Source, Sources};

/// How many parsers of one call may crash. The remaining files are then not parsed.
const MOST_LOST: usize = 20;

/// A listing that runs.
struct Listing {
    host: Host,
    manifest: Arc<Manifest>,
    slot: Slot,
    root: Arc<std::os::fd::OwnedFd>,
    place: Place,
    queue: Mutex<VecDeque<(usize, Source)>>,
    answer: Mutex<Ordered<Answer>>,
    parsers: Mutex<Parsers>,
}

/// Statistics of the parsers of a listing.
#[derive(Debug, Default)]
struct Parsers {
    /// How many crashed or did not start.
    lost: usize,
    has_answered: bool,
    /// Why one did not start, if one did not.
    start_failure: Option<&'static str>,
}

impl Parsers {
    fn note(&mut self, parsed: &Result<Reply, Problem>) {
        self.has_answered |= parsed.is_ok();
        self.lost += usize::from(parsed.is_err());
        if let Err(Problem::NotStarted(reason)) = parsed {
            self.start_failure = Some(reason);
        }
    }
}

/// Runs the function.
///
/// # Errors
/// The arguments name nothing that can be listed; or they name one file, and it can't be parsed.
pub(super) async fn run(host: Host, invocation: Invocation) -> Result<Report, SkillError> {
    let arguments = Arguments::read(&invocation.input)?;
    let (field, written) = arguments.target()?;
    let (root, place) = host.root(&invocation.manifest)?;
    let below = if written.is_empty() { PathBuf::new() } else { place.below(field, written)? };
    let root = Arc::new(root);
    let refused = |it: super::place::Refused| it.error(field, written);
    let (manifest, slot, most) = (invocation.manifest, invocation.slot, arguments.max_definitions);
    let answer = Mutex::new(Ordered::new(Answer::new(most)));
    let listing = |queue| {
        let (queue, parsers) = (Mutex::new(queue), Mutex::default());
        Listing {
            host: host.clone(),
            manifest,
            slot: slot.clone(),
            root: Arc::clone(&root),
            place,
            queue,
            answer,
            parsers,
        }
    };
    if look(std::os::fd::AsFd::as_fd(&root), &below).map_err(refused)? == Kind::File {
        let language = Language::of_path(&below).ok_or_else(|| unknown_language(field, written))?;
        return listing(VecDeque::new()).one(Source { path: below, language }).await;
    }
    let globs = super::walk::globs(&below, &arguments.globs())?;
    let (stop, _stop_on_drop) = Stop::at(invocation.deadline);
    let held = (Arc::clone(&root), slot.clone());
    let walked = tokio::task::spawn_blocking(move || {
        let (root, _slot) = held;
        Sources::of_folder(root, &below, globs, &stop)
    });
    let sources = walked.await.map_err(|_| SkillError::new(ErrorCode::Internal, "the walk panicked"))?;
    let Sources { files, left, is_complete } = sources.map_err(refused)?;
    listing(files.into_iter().enumerate().collect()).all(left, is_complete).await
}

fn unknown_language(field: &str, written: &str) -> SkillError {
    let known = "bash, c, c++, c#, go, java, javascript, kotlin, lua, php, python, ruby, rust, scala, typescript";
    let shown: String = written.chars().filter(|it| !it.is_control()).take(200).collect();
    let message = format!("{field}: '{shown}' is in no language whose definitions are found, by its ending: {known}");
    SkillError::new(ErrorCode::InvalidArgument, message)
}

impl Listing {
    /// One file, which has to work.
    async fn one(self, source: Source) -> Result<Report, SkillError> {
        let found = self.parse(&mut None, &source).await;
        match found {
            Ok(found) => {
                let mut ordered = self.answer.into_inner().unwrap_or_else(PoisonError::into_inner);
                ordered.put(0, found);
                ordered.answer.report()
            }
            Err(problem) => Err(problem.error(&self.place.shown(&source.path))),
        }
    }

    /// All files, on as many parsers as are free.
    async fn all(self, left: Vec<(PathBuf, super::place::Refused)>, is_complete: bool) -> Result<Report, SkillError> {
        let files = lock(&self.queue).len();
        let helpers = spare(&self.host.helpers, files.saturating_sub(1) / FILES_OF_ONE);
        let lanes = (0..=helpers.len()).map(|_| self.lane());
        futures_util::future::join_all(lanes).await;
        let place = self.place;
        let parsers = self.parsers.into_inner().unwrap_or_else(PoisonError::into_inner);
        if let Some(reason) = parsers.start_failure.filter(|_| !parsers.has_answered) {
            return Err(Problem::NotStarted(reason).error(&place.shown(Path::new(""))));
        }
        let mut answer = self.answer.into_inner().unwrap_or_else(PoisonError::into_inner).answer;
        for (path, refused) in left {
            answer.leave_out(Left { path: place.shown(&path), reason: refused.word(), message: refused.to_string() });
        }
        if !is_complete {
            answer.cut("too_many_files");
        }
        answer.report()
    }

    /// Parses files with one parser until there are no more or the answer is full.
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
                    let (path, reason, message) = (self.place.shown(&source.path), problem.word(), problem.to_string());
                    Found::left(Left { path, reason, message })
                }
            };
            lock(&self.answer).put(number, found);
        }
    }

    /// Parses one file. Starts a parser if there is none, and drops one that crashed.
    async fn parse(&self, parser: &mut Option<Parser>, source: &Source) -> Result<Found, Problem> {
        let text = self.read(source).await?;
        if parser.is_none() && lock(&self.parsers).lost >= MOST_LOST {
            return Err(Problem::TooManyLost);
        }
        let parsed = self.parse_text(parser, source.language, &text).await;
        lock(&self.parsers).note(&parsed);
        parsed.map(|reply| Found::of(self.place.shown(&source.path), reply))
    }

    async fn parse_text(&self, parser: &mut Option<Parser>, language: Language, text: &[u8]) -> Result<Reply, Problem> {
        let mut running = match parser.take() {
            Some(running) => running,
            None => Parser::start(&self.host, &self.manifest, self.slot.clone())?,
        };
        let reply = running.parse(language, text).await?;
        *parser = Some(running);
        Ok(reply)
    }

    async fn read(&self, source: &Source) -> Result<Vec<u8>, Problem> {
        let (root, path, slot) = (Arc::clone(&self.root), source.path.clone(), self.slot.clone());
        let read = tokio::task::spawn_blocking(move || {
            let _slot = slot;
            sources::read(&root, &path)
        });
        read.await.map_err(|_| Problem::NotStarted("the file was not read"))?
    }
}

/// The number of files that is worth starting one more parser.
const FILES_OF_ONE: usize = 8;

fn lock<T>(it: &Mutex<T>) -> MutexGuard<'_, T> {
    it.lock().unwrap_or_else(PoisonError::into_inner)
}
