//! Sends messages, each with at most one file descriptor, over a packet socket between the worker and the
//! browser's host process.

use std::io::{Error, ErrorKind, IoSlice, IoSliceMut, Result};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::io::retry_on_intr;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags, SocketFlags, SocketType, recvmsg, sendmsg, socketpair,
};

/// The maximum size of a message, in bytes.
const MAX_BYTES: usize = 256;

/// Returns two connected close-on-exec sockets. Ours is non-blocking, theirs is blocking.
pub(super) fn pair() -> Result<(OwnedFd, OwnedFd)> {
    let (ours, theirs) = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?;
    rustix::io::ioctl_fionbio(&ours, true)?;
    Ok((ours, theirs))
}

/// Sends a message, which must not be empty.
///
/// # Errors
/// The other end is closed, or the socket is full.
pub(super) fn send(socket: impl AsFd, text: &[u8], descriptor: Option<BorrowedFd<'_>>) -> Result<()> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    let descriptors: Vec<_> = descriptor.into_iter().collect();
    if !descriptors.is_empty() {
        ancillary.push(SendAncillaryMessage::ScmRights(&descriptors));
    }
    retry_on_intr(|| sendmsg(&socket, &[IoSlice::new(text)], &mut ancillary, SendFlags::NOSIGNAL))?;
    Ok(())
}

/// Receives a message with its file descriptor, if it carries one. Returns `None` if the other end is closed.
///
/// # Errors
/// The socket is non-blocking and no message is waiting.
pub(super) fn receive(socket: impl AsFd) -> Result<Option<(Vec<u8>, Option<OwnedFd>)>> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let mut text = vec![0; MAX_BYTES];
    let received =
        retry_on_intr(|| recvmsg(&socket, &mut [IoSliceMut::new(&mut text)], &mut ancillary, RecvFlags::CMSG_CLOEXEC))?;
    let mut descriptor = None;
    for message in ancillary.drain() {
        if let RecvAncillaryMessage::ScmRights(rights) = message {
            descriptor = rights.into_iter().next().or(descriptor);
        }
    }
    if received.bytes > MAX_BYTES {
        return Err(Error::from(ErrorKind::InvalidData));
    }
    text.truncate(received.bytes);
    Ok((received.bytes > 0).then_some((text, descriptor)))
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};

    use super::*;

    #[test]
    fn a_message_may_bring_a_descriptor() {
        let (ours, theirs) = pair().unwrap();
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
