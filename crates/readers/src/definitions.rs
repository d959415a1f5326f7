//! The parser process: reads source code from stdin and writes the definitions to stdout, until stdin is closed.
//!
//! It opens no files and starts no processes. If a grammar crashes, loops or uses too much memory, only this
//! process is lost.
//!
//! - [`mod@rules`]: the nodes of each grammar that are definitions; [`names`]: finds their names
//! - [`mod@find`]: finds the definitions of one source file
//! - [`kotlin`]: a workaround for valid Kotlin that the grammar rejects

use std::collections::HashMap;
use std::io::{self, BufRead, BufReader, Read as _};
use std::process::ExitCode;

use tree_sitter::Parser;

use openskill_readers_protocol::definitions::language::Language;
use openskill_readers_protocol::definitions::protocol::{
    MAX_REPLY_BYTES, MAX_REQUEST_BYTES, MAX_SOURCE_BYTES, Reply, Request,
};

mod find;
mod grammars;
mod kotlin;
mod names;
mod rules;
#[cfg(test)]
mod tests;

use find::find;
use rules::Rules;

/// Runs the parser until stdin is closed.
pub(crate) fn main() -> ExitCode {
    match serve(BufReader::new(io::stdin().lock()), io::stdout().lock()) {
        Ok(()) => ExitCode::SUCCESS,
        // Exit without a reply: the worker treats the closed pipe as a failure.
        Err(_) => ExitCode::FAILURE,
    }
}

fn serve(mut requests: impl BufRead, mut replies: impl io::Write) -> io::Result<()> {
    let mut parsers = HashMap::new();
    while let Some((request, source)) = read(&mut requests)? {
        let mut line = serde_json::to_vec(&reply(&mut parsers, request.language, &source)?)?;
        line.push(b'\n');
        replies.write_all(&line)?;
        replies.flush()?;
    }
    Ok(())
}

/// Reads the next request and its source. Returns `None` at the end of the input.
fn read(requests: &mut impl BufRead) -> io::Result<Option<(Request, Vec<u8>)>> {
    let mut line = Vec::new();
    if requests.take(MAX_REQUEST_BYTES as u64).read_until(b'\n', &mut line)? == 0 {
        return Ok(None);
    }
    let request: Request = serde_json::from_slice(&line)?;
    if request.bytes > MAX_SOURCE_BYTES {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    let mut source = vec![0; request.bytes];
    requests.read_exact(&mut source)?;
    Ok(Some((request, source)))
}

fn reply(parsers: &mut HashMap<Language, (Parser, Rules)>, language: Language, source: &[u8]) -> io::Result<Reply> {
    let (parser, rules) = match parsers.entry(language) {
        std::collections::hash_map::Entry::Occupied(known) => known.into_mut(),
        std::collections::hash_map::Entry::Vacant(new) => {
            let grammar = grammars::grammar(language);
            let mut parser = Parser::new();
            parser.set_language(&grammar).map_err(io::Error::other)?;
            new.insert((parser, Rules::for_language(language, &grammar)))
        }
    };
    let mut parse = |source: &[u8]| {
        let tree = parser.parse(source, None).ok_or_else(|| io::Error::other("the source was not parsed"))?;
        io::Result::Ok(find(&tree, source, rules))
    };
    let mut reply = parse(source)?;
    if language == Language::Kotlin && reply.syntax_errors {
        let other = parse(&kotlin::with_semicolons(source))?;
        if !other.syntax_errors || other.definitions.len() > reply.definitions.len() {
            reply = other;
        }
    }
    Ok(within_bounds(reply))
}

/// Drops the last definitions of a reply above the limit.
fn within_bounds(mut reply: Reply) -> Reply {
    let mut bytes = 0;
    let too_many = reply.definitions.iter().position(|it| {
        bytes += serde_json::to_string(it).map_or(0, |text| text.len() + 1);
        bytes > MAX_REPLY_BYTES - 1024
    });
    if let Some(first) = too_many {
        reply.definitions.truncate(first);
        reply.truncated = true;
    }
    reply
}
