//! Packets: one message each, whole or not at all, with descriptors if the message has any. What the messages are is in
//! [`protocol`](super::protocol).

use std::io::{Error, ErrorKind, IoSlice, IoSliceMut, Result};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};

use rustix::buffer::spare_capacity;
use rustix::io::retry_on_intr;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags, SocketFlags, SocketType, recv, recvmsg, sendmsg, socketpair,
};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// How many descriptors go with a message that has any.
pub(super) const DESCRIPTORS: usize = 4;

/// The longest message. More than a clean environment and a few arguments need, and less than a socket's buffer takes.
const MAX_BYTES: usize = 64 * 1024;

/// Two connected sockets, both close-on-exec: ours, which never waits, and theirs, which does.
pub(super) fn pair() -> Result<(OwnedFd, OwnedFd)> {
    let (ours, theirs) = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?;
    rustix::io::ioctl_fionbio(&ours, true)?;
    Ok((ours, theirs))
}

/// Sends a message.
///
/// # Errors
/// It is too long, nobody is there to read it, or the socket never waits and is full.
pub(super) fn send(socket: impl AsFd, message: &impl Serialize) -> Result<()> {
    send_bytes(socket, message, &mut SendAncillaryBuffer::default())
}

/// Sends a message with descriptors.
///
/// # Errors
/// As [`send`].
pub(super) fn send_with<F: AsFd>(
    socket: impl AsFd,
    message: &impl Serialize,
    descriptors: [&F; DESCRIPTORS],
) -> Result<()> {
    let descriptors = descriptors.map(AsFd::as_fd);
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    ancillary.push(SendAncillaryMessage::ScmRights(&descriptors));
    send_bytes(socket, message, &mut ancillary)
}

fn send_bytes(
    socket: impl AsFd,
    message: &impl Serialize,
    ancillary: &mut SendAncillaryBuffer<'_, '_, '_>,
) -> Result<()> {
    let text = serde_json::to_vec(message)?;
    if text.len() > MAX_BYTES {
        return Err(Error::from(ErrorKind::ArgumentListTooLong));
    }
    retry_on_intr(|| sendmsg(&socket, &[IoSlice::new(&text)], ancillary, SendFlags::NOSIGNAL))?;
    Ok(())
}

/// The next message that is there, without waiting. None: the other side has closed its end.
///
/// # Errors
/// `WouldBlock`: there is none. `InvalidData`: it is no such message.
pub(super) fn receive<M: DeserializeOwned>(socket: impl AsFd) -> Result<Option<M>> {
    let mut text = Vec::with_capacity(MAX_BYTES);
    retry_on_intr(|| recv(&socket, spare_capacity(&mut text), RecvFlags::DONTWAIT))?;
    if text.is_empty() { Ok(None) } else { parse(&text).map(Some) }
}

/// Waits for a message that has descriptors, which become close-on-exec.
///
/// # Errors
/// It is no such message, has other descriptors, or the other side has closed its end.
pub(super) fn receive_with<M: DeserializeOwned>(socket: impl AsFd) -> Result<(M, [OwnedFd; DESCRIPTORS])> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let mut text = vec![0; MAX_BYTES];
    let received =
        retry_on_intr(|| recvmsg(&socket, &mut [IoSliceMut::new(&mut text)], &mut ancillary, RecvFlags::CMSG_CLOEXEC))?;
    let mut descriptors = Vec::with_capacity(DESCRIPTORS);
    for message in ancillary.drain() {
        if let RecvAncillaryMessage::ScmRights(rights) = message {
            descriptors.extend(rights);
        }
    }
    let descriptors = descriptors.try_into().map_err(|_| Error::from(ErrorKind::InvalidData))?;
    Ok((parse(&text[..received.bytes])?, descriptors))
}

fn parse<M: DeserializeOwned>(text: &[u8]) -> Result<M> {
    serde_json::from_slice(text).map_err(|error| Error::new(ErrorKind::InvalidData, error))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::process::protocol::Order;

    #[test]
    fn packets_keep_their_bounds_and_an_end_is_not_a_message() {
        let (ours, theirs) = pair().unwrap();
        send(&ours, &Order::Kill(1)).unwrap();
        send(&ours, &Order::Kill(2)).unwrap();
        assert_eq!(receive(&theirs).unwrap(), Some(Order::Kill(1)));
        assert_eq!(receive(&theirs).unwrap(), Some(Order::Kill(2)));
        assert_eq!(receive::<Order>(&theirs).unwrap_err().kind(), ErrorKind::WouldBlock);
        send(&ours, &"no order").unwrap();
        assert_eq!(receive::<Order>(&theirs).unwrap_err().kind(), ErrorKind::InvalidData);
        drop(ours);
        assert_eq!(receive::<Order>(&theirs).unwrap(), None);
    }

    #[test]
    fn descriptors_come_with_their_message_and_a_message_without_is_refused() {
        let (ours, theirs) = pair().unwrap();
        send_with(&ours, &Order::Kill(1), [&ours; DESCRIPTORS]).unwrap();
        let (order, descriptors) = receive_with::<Order>(&theirs).unwrap();
        assert_eq!((order, descriptors.len()), (Order::Kill(1), DESCRIPTORS));
        send(&ours, &Order::Kill(1)).unwrap();
        assert!(receive_with::<Order>(&theirs).is_err());
        assert!(send(&ours, &"x".repeat(MAX_BYTES)).is_err());
    }
}
