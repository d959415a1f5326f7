//! Parses an interpreter's output: events, and answers in the order of the calls.

use openskill_proto::limits::{MAX_EVENT_BYTES, MAX_OUTPUT_BYTES, MAX_STDERR_BYTES};
use openskill_sandbox::launch::LaunchError;
use openskill_sandbox::protocol::Exit;
use openskill_sandbox::run::RunError;
use serde::Deserialize;

use crate::runner::RawOutput;

/// The size of one read, and the maximum buffer that is kept between answers, in bytes.
const CHUNK_BYTES: usize = 64 * 1024;

/// The output that was read but not parsed yet.
#[derive(Default)]
pub(super) struct OutputParser {
    bytes: Vec<u8>,
    /// The index of the first unparsed byte.
    begin: usize,
    /// No newline precedes this index.
    searched: usize,
    /// The end of a call whose output is incomplete.
    open: Option<EndLine>,
}

/// A message from an interpreter.
#[derive(Debug)]
pub(super) enum InterpreterEvent {
    /// A line that the running script sent.
    Event(Vec<u8>),
    /// A call ended. `last`: the interpreter accepts no more calls.
    Ended { call: u64, last: bool, output: RawOutput },
}

#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum AnswerLine {
    Ended(EndLine),
}

#[derive(Deserialize)]
struct EndLine {
    call: u64,
    status: i32,
    stdout: usize,
    stderr: usize,
    /// How many processes the script left running.
    left: u32,
    last: bool,
}

impl OutputParser {
    /// Returns the buffer to read into.
    pub(super) fn room(&mut self) -> &mut Vec<u8> {
        self.bytes.drain(..self.begin);
        self.searched -= self.begin;
        self.begin = 0;
        if self.bytes.is_empty() && self.bytes.capacity() > 4 * CHUNK_BYTES {
            self.bytes = Vec::new();
        }
        self.bytes.reserve(CHUNK_BYTES);
        &mut self.bytes
    }

    /// Returns the next complete message, or `None` if more output is needed.
    pub(super) fn next(&mut self) -> Result<Option<InterpreterEvent>, RunError> {
        let ended = loop {
            if let Some(ended) = self.open.take() {
                break ended;
            }
            match self.line()? {
                None => return Ok(None),
                // The interpreter writes a newline before each answer, in case the script's last line is
                // incomplete.
                Some(b"\n") => {}
                Some(line) => match serde_json::from_slice(line) {
                    Ok(AnswerLine::Ended(ended)) => break ended,
                    Err(_) => return Ok(Some(InterpreterEvent::Event(line.to_vec()))),
                },
            }
        };
        if ended.stdout > MAX_OUTPUT_BYTES || ended.stderr > MAX_STDERR_BYTES {
            return Err(RunError::OutputTooLarge);
        }
        let length = ended.stdout + ended.stderr;
        let Some(both) = self.bytes.get(self.begin..self.begin + length) else {
            self.open = Some(ended);
            return Ok(None);
        };
        let (stdout, stderr) = both.split_at(ended.stdout);
        let (stdout, stderr) = (stdout.to_vec(), stderr.to_vec());
        self.begin += length;
        self.searched = self.begin;
        let EndLine { call, status, left, last, .. } = ended;
        // The pool knows whether the interpreter had secrets.
        let output = RawOutput::from_process(stdout, stderr, Exit::Code(status), left);
        Ok(Some(InterpreterEvent::Ended { call, last, output }))
    }

    fn line(&mut self) -> Result<Option<&[u8]>, RunError> {
        let Some(length) = self.bytes[self.searched..].iter().position(|byte| *byte == b'\n') else {
            self.searched = self.bytes.len();
            let overlong = self.searched - self.begin >= MAX_EVENT_BYTES;
            return if overlong { Err(RunError::Launch(LaunchError::Lost)) } else { Ok(None) };
        };
        let line = self.begin..self.searched + length + 1;
        (self.begin, self.searched) = (line.end, line.end);
        if line.len() > MAX_EVENT_BYTES {
            return Err(RunError::Launch(LaunchError::Lost));
        }
        Ok(Some(&self.bytes[line]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_parsed_however_they_are_cut() {
        let mut answers = OutputParser::default();
        let said = b"{\"progress\": 1}\n{\"ended\": {\"call\": 1, \"status\": 0, \"stdout\": 3, \"stderr\": 1, \"left\": 0, \"last\": false}}\na\nbe\
                     {\"ended\": {\"call\": 2, \"status\": 7, \"stdout\": 2, \"stderr\": 0, \"left\": 1, \"last\": true}}\n\n";
        answers.room().extend_from_slice(said);
        assert!(matches!(answers.next(), Ok(Some(InterpreterEvent::Event(line))) if line == b"{\"progress\": 1}\n"));
        let Ok(Some(InterpreterEvent::Ended { call: 1, last: false, output })) = answers.next() else {
            panic!("the first")
        };
        let RawOutput::Process { stdout, stderr, exit: Exit::Code(0), .. } = output else { panic!("{output:?}") };
        assert_eq!((&stdout[..], &stderr[..]), (&b"a\nb"[..], &b"e"[..]));
        assert!(matches!(answers.next(), Ok(None)));
        answers.room().extend_from_slice(b"\n{\"pro");
        assert!(matches!(answers.next(), Ok(Some(InterpreterEvent::Ended { call: 2, last: true, .. }))));
        assert!(matches!(answers.next(), Ok(None)));
    }

    #[test]
    fn overlong_lines_and_outputs_are_errors() {
        let mut answers = OutputParser::default();
        answers.room().extend_from_slice(&vec![b'x'; MAX_EVENT_BYTES]);
        assert!(matches!(answers.next(), Err(RunError::Launch(LaunchError::Lost))));
        let mut answers = OutputParser::default();
        let huge = format!(
            "{{\"ended\": {{\"call\": 1, \"status\": 0, \"stdout\": {}, \"stderr\": 0, \"left\": 0, \"last\": false}}}}\n",
            MAX_OUTPUT_BYTES + 1
        );
        answers.room().extend_from_slice(huge.as_bytes());
        assert!(matches!(answers.next(), Err(RunError::OutputTooLarge)));
    }
}
