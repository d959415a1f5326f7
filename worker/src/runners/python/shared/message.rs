//! A call as it is sent to an interpreter.

use std::os::fd::OwnedFd;

use rustix::fs::{MemfdFlags, memfd_create};

use crate::environment;
use crate::runner::Invocation;
use crate::runners::once::input_parts;

/// A larger input goes in a file, so that a few calls fit into a queue.
const MOST_INPUT_BYTES: usize = 16 * 1024;

/// More than this is never set in the environment of a call.
const MOST_ENVIRONMENT_BYTES: usize = 32 * 1024;

/// The number of a call, and the length of its part of the environment, before everything else.
pub(super) const NUMBER_BYTES: usize = 8;
const HEAD_BYTES: usize = NUMBER_BYTES + 4;

/// A call, ready to be sent, and to be sent again elsewhere when it was taken back.
#[derive(Debug)]
pub(super) struct Message {
    pub(super) bytes: Vec<u8>,
    /// A large input.
    pub(super) file: Option<OwnedFd>,
    pub(super) has_secrets: bool,
}

impl Message {
    /// None: its environment does not fit, or can't be expressed.
    pub(super) fn of(invocation: &Invocation) -> Option<Self> {
        let mut bytes = vec![0; HEAD_BYTES];
        bytes.reserve(512 + invocation.input.len().min(MOST_INPUT_BYTES));
        for (name, value) in environment::of_call(invocation) {
            if value.contains('\0') {
                return None;
            }
            // Before all but the first.
            if name != environment::OF_CALL[0] {
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

/// A file in memory, to be read from its beginning.
fn file(parts: &[&[u8]]) -> std::io::Result<OwnedFd> {
    use std::io::{Seek as _, Write as _};
    let mut file = std::fs::File::from(memfd_create("openskill-input", MemfdFlags::CLOEXEC)?);
    for part in parts {
        file.write_all(part)?;
    }
    file.rewind()?;
    Ok(file.into())
}
