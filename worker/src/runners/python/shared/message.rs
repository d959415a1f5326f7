//! Encodes a call for an interpreter.

use std::os::fd::OwnedFd;

use rustix::fs::{MemfdFlags, memfd_create};

use crate::environment;
use crate::runner::Invocation;
use crate::runners::once::input_parts;

/// The maximum size of an input inside the message. Larger inputs are sent as files, so that several calls fit
/// into a queue.
const MOST_INPUT_BYTES: usize = 16 * 1024;

/// The maximum size of a call's environment.
const MOST_ENVIRONMENT_BYTES: usize = 32 * 1024;

/// The size of a call's number, which starts the message. The length of the call's environment follows.
pub(super) const NUMBER_BYTES: usize = 8;
const HEAD_BYTES: usize = NUMBER_BYTES + 4;

/// An encoded call. It can be sent again after it was taken back.
#[derive(Debug)]
pub(super) struct CallMessage {
    pub(super) bytes: Vec<u8>,
    /// The input, if it is large.
    pub(super) file: Option<OwnedFd>,
    pub(super) has_secrets: bool,
}

impl CallMessage {
    /// Encodes a call. Returns `None` if its environment is too large or can't be encoded.
    pub(super) fn from_invocation(invocation: &Invocation) -> Option<Self> {
        let mut bytes = vec![0; HEAD_BYTES];
        bytes.reserve(512 + invocation.input.len().min(MOST_INPUT_BYTES));
        for (name, value) in environment::call_variables(invocation) {
            if value.contains('\0') {
                return None;
            }
            // Separate the variables with zero bytes.
            if name != environment::CALL_VARIABLES[0] {
                bytes.push(0);
            }
            bytes.extend_from_slice(value.as_bytes());
        }
        let length = bytes.len() - HEAD_BYTES;
        if length > MOST_ENVIRONMENT_BYTES {
            return None;
        }
        bytes[NUMBER_BYTES..HEAD_BYTES].copy_from_slice(&(length as u32).to_le_bytes());
        let parts = input_parts(&invocation.input);
        let file = if invocation.input.len() > MOST_INPUT_BYTES {
            Some(file(&parts).ok()?)
        } else {
            parts.iter().for_each(|part| bytes.extend_from_slice(part));
            None
        };
        Some(Self { bytes, file, has_secrets: invocation.has_secrets })
    }

    pub(super) fn number(&mut self, number: u64) {
        self.bytes[..NUMBER_BYTES].copy_from_slice(&number.to_le_bytes());
    }
}

/// Creates a file in memory, positioned at its start.
fn file(parts: &[&[u8]]) -> std::io::Result<OwnedFd> {
    use std::io::{Seek as _, Write as _};
    let mut file = std::fs::File::from(memfd_create("openskill-input", MemfdFlags::CLOEXEC)?);
    for part in parts {
        file.write_all(part)?;
    }
    file.rewind()?;
    Ok(file.into())
}
