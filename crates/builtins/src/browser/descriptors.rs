//! Sends messages, each with at most one file descriptor, over a packet socket between the worker and the
//! browser's host process.

use std::io::Result;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use openskill_sandbox::packet::{receive_packet, send_bytes};

/// The maximum size of a message, in bytes.
const MAX_BYTES: usize = 256;

/// Sends a message, which must not be empty.
///
/// # Errors
/// The other end is closed, or the socket is full.
pub(super) fn send(socket: impl AsFd, text: &[u8], descriptor: Option<BorrowedFd<'_>>) -> Result<()> {
    send_bytes(socket, text, descriptor.as_slice())
}

/// Receives a message with its file descriptor, if it carries one. Returns `None` if the other end is closed.
///
/// # Errors
/// The socket is non-blocking and no message is waiting.
pub(super) fn receive(socket: impl AsFd) -> Result<Option<(Vec<u8>, Option<OwnedFd>)>> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let packet = receive_packet(socket, MAX_BYTES, &mut space)?;
    Ok((!packet.bytes.is_empty()).then(|| (packet.bytes, packet.descriptors.into_iter().next())))
}

#[cfg(test)]
mod tests {
    use std::io::{ErrorKind, Read as _, Write as _};

    use openskill_sandbox::packet::open_pair;

    use super::*;

    #[test]
    fn a_message_may_bring_a_descriptor() {
        let (ours, theirs) = open_pair().unwrap();
        let (mut from, mut to) = std::io::pipe().unwrap();
        send(&ours, b"one", Some(to.as_fd())).unwrap();
        send(&ours, b"two", None).unwrap();
        to.write_all(b"x").unwrap();
        drop(to);
        let (text, descriptor) = receive(&theirs).unwrap().unwrap();
        assert_eq!(text, b"one");
        drop(descriptor.unwrap());
        let mut all = Vec::new();
        from.read_to_end(&mut all).unwrap();
        assert_eq!(all, b"x");
        assert!(matches!(receive(&theirs).unwrap(), Some((text, None)) if text == b"two"));
        assert_eq!(receive(&ours).unwrap_err().kind(), ErrorKind::WouldBlock);
        drop(ours);
        assert!(receive(&theirs).unwrap().is_none());
    }
}
