//! A kernel queue of calls that an interpreter has not begun. Both sides can take from it.
//!
//! Each message is taken once, either by the interpreter or back by the worker. So calls that the worker has taken
//! back have certainly not begun.

use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd as _, OwnedFd};

use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, Shutdown,
    SocketFlags, SocketType, recvmsg, sendmsg, shutdown, socketpair,
};

use super::message::{CallMessage, NUMBER_BYTES};

/// The worker's side of a queue.
pub(super) struct Queue {
    /// The end to which calls are added.
    entrance: OwnedFd,
    /// The end from which calls are taken, which the interpreter shares.
    exit: OwnedFd,
}

impl Queue {
    /// Creates a queue. Also returns the interpreter's end.
    pub(super) fn new() -> std::io::Result<(Self, OwnedFd)> {
        let (entrance, exit) = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?;
        let theirs = exit.try_clone()?;
        // This end is never read, whatever the other process sends.
        shutdown(&entrance, Shutdown::Read)?;
        Ok((Self { entrance, exit }, theirs))
    }

    /// Adds a call. Never blocks: fails if the queue is full.
    pub(super) fn put(&self, message: &CallMessage) -> std::io::Result<()> {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut ancillary = SendAncillaryBuffer::new(&mut space);
        let files = message.file.as_ref().map(|file| [file.as_fd()]);
        if let Some(files) = &files {
            ancillary.push(SendAncillaryMessage::ScmRights(files));
        }
        let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
        sendmsg(&self.entrance, &[IoSlice::new(&message.bytes)], &mut ancillary, flags)?;
        Ok(())
    }

    /// Takes back the oldest call that has not begun, and returns its number.
    pub(super) fn take_back(&self) -> Option<u64> {
        let mut number = [0; NUMBER_BYTES];
        // Drops the rest of the message and its file, because the pool still has both.
        let mut ancillary = RecvAncillaryBuffer::default();
        let mut parts = [IoSliceMut::new(&mut number)];
        let taken = recvmsg(&self.exit, &mut parts, &mut ancillary, RecvFlags::DONTWAIT).ok()?;
        (taken.bytes == NUMBER_BYTES).then(|| u64::from_le_bytes(number))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use openskill_sandbox::sockets::sends_descriptors;

    #[test]
    fn nothing_comes_back_from_an_interpreter() {
        let (queue, theirs) = Queue::new().unwrap();
        assert_ne!(sends_descriptors(&theirs), Some(true));
        assert_eq!(rustix::io::write(&theirs, b"x"), Err(rustix::io::Errno::PIPE));
        let bytes = 7_u64.to_le_bytes().to_vec();
        queue.put(&CallMessage { bytes, file: None, has_secrets: false }).unwrap();
        assert_eq!(queue.take_back(), Some(7));
    }
}
