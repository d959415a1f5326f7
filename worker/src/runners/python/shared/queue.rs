//! The calls an interpreter has not begun: a queue in the kernel that both sides can take from.
//!
//! Each message is taken once, by the interpreter or back by the worker. So the worker knows for certain which calls a
//! script has not begun: those it has taken back.

use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd as _, OwnedFd};

use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, Shutdown,
    SocketFlags, SocketType, recvmsg, sendmsg, shutdown, socketpair,
};

use super::message::{Message, NUMBER_BYTES};

/// The worker's end of a queue.
pub(super) struct Queue {
    /// Where calls are added.
    entrance: OwnedFd,
    /// Where they are taken, by the interpreter too.
    exit: OwnedFd,
}

impl Queue {
    /// A queue, and the interpreter's end of it.
    pub(super) fn new() -> std::io::Result<(Self, OwnedFd)> {
        let (entrance, exit) = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?;
        let theirs = exit.try_clone()?;
        // Nothing comes back, whoever has the other end.
        shutdown(&entrance, Shutdown::Read)?;
        Ok((Self { entrance, exit }, theirs))
    }

    /// Puts a call in. Never waits: a full queue is an error.
    pub(super) fn put(&self, message: &Message) -> std::io::Result<()> {
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

    /// Takes back the oldest call that was not begun: its number.
    pub(super) fn take_back(&self) -> Option<u64> {
        let mut number = [0; NUMBER_BYTES];
        // The rest of the message is dropped, with a file that comes with it: the pool still has both.
        let mut ancillary = RecvAncillaryBuffer::default();
        let mut parts = [IoSliceMut::new(&mut number)];
        let taken = recvmsg(&self.exit, &mut parts, &mut ancillary, RecvFlags::DONTWAIT).ok()?;
        (taken.bytes == NUMBER_BYTES).then(|| u64::from_le_bytes(number))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::process::sockets::sends_descriptors;

    #[test]
    fn nothing_comes_back_from_an_interpreter() {
        let (queue, theirs) = Queue::new().unwrap();
        assert_ne!(sends_descriptors(&theirs), Some(true));
        assert_eq!(rustix::io::write(&theirs, b"x"), Err(rustix::io::Errno::PIPE));
        let bytes = 7_u64.to_le_bytes().to_vec();
        queue.put(&Message { bytes, file: None, has_secrets: false }).unwrap();
        assert_eq!(queue.take_back(), Some(7));
    }
}
