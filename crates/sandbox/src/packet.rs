//! Sends and receives packets. Each contains one whole message, and optionally descriptors.
//! [`protocol`](super::protocol) defines the messages.

use std::io::{Error, ErrorKind, IoSlice, IoSliceMut, Result};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::buffer::spare_capacity;
use rustix::io::retry_on_intr;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketFlags, SocketType, recv, recvmsg, sendmsg, socketpair,
};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::sockets::refuse_descriptors;

/// The minimum number of descriptors in a message that has any.
pub(super) const DESCRIPTORS: usize = 4;

/// The maximum number of additional descriptors.
pub(super) const MAX_FURTHER: usize = 8;

/// The maximum length of a message, in bytes. More than a clean environment and a few arguments need, and less
/// than a socket's buffer.
const MAX_BYTES: usize = 64 * 1024;

/// Creates two connected sockets, both close-on-exec. Ours is non-blocking, theirs blocks. Both accept descriptors.
///
/// # Errors
/// Fails if the system has no more descriptors.
pub fn open_pair() -> Result<(OwnedFd, OwnedFd)> {
    let (ours, theirs) = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?;
    rustix::io::ioctl_fionbio(&ours, true)?;
    Ok((ours, theirs))
}

/// Creates a pair like [`open_pair`], but ours refuses descriptors.
pub(super) fn pair() -> Result<(OwnedFd, OwnedFd)> {
    let (ours, theirs) = open_pair()?;
    refuse_descriptors(&ours)?;
    Ok((ours, theirs))
}

/// Sends a message.
///
/// # Errors
/// Fails if the message is too long, the other side is gone, or the socket is non-blocking and full.
pub(super) fn send(socket: impl AsFd, message: &impl Serialize) -> Result<()> {
    send_bytes(socket, &serialize(message)?, &[])
}

/// Sends a message with [`DESCRIPTORS`] descriptors, and at most [`MAX_FURTHER`] more.
///
/// # Errors
/// Returns the errors of [`send`], or fails if there are too few or too many descriptors.
pub(super) fn send_with(socket: impl AsFd, message: &impl Serialize, descriptors: &[BorrowedFd<'_>]) -> Result<()> {
    if !(DESCRIPTORS..=DESCRIPTORS + MAX_FURTHER).contains(&descriptors.len()) {
        return Err(Error::from(ErrorKind::InvalidInput));
    }
    send_bytes(socket, &serialize(message)?, descriptors)
}

fn serialize(message: &impl Serialize) -> Result<Vec<u8>> {
    let text = serde_json::to_vec(message)?;
    if text.len() > MAX_BYTES { Err(Error::from(ErrorKind::ArgumentListTooLong)) } else { Ok(text) }
}

/// Sends bytes, which must not be empty, with at most 12 descriptors.
///
/// # Errors
/// Fails if the other side is gone, or the socket is non-blocking and full.
pub fn send_bytes(socket: impl AsFd, bytes: &[u8], descriptors: &[BorrowedFd<'_>]) -> Result<()> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS + MAX_FURTHER))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    if !descriptors.is_empty() {
        ancillary.push(SendAncillaryMessage::ScmRights(descriptors));
    }
    retry_on_intr(|| sendmsg(&socket, &[IoSlice::new(bytes)], &mut ancillary, SendFlags::NOSIGNAL))?;
    Ok(())
}

/// A received packet.
#[derive(Debug)]
pub struct Packet {
    /// Empty after the other side has closed its end.
    pub bytes: Vec<u8>,
    /// The descriptors, which are close-on-exec.
    pub descriptors: Vec<OwnedFd>,
    /// Whether there was space for all descriptors.
    pub is_complete: bool,
}

/// Receives at most `most` bytes, and as many descriptors as `space` holds.
///
/// # Errors
/// Fails if the socket is non-blocking and no packet is available.
pub fn receive_packet(socket: impl AsFd, most: usize, space: &mut [MaybeUninit<u8>]) -> Result<Packet> {
    let mut ancillary = RecvAncillaryBuffer::new(space);
    let mut bytes = vec![0; most];
    let received = retry_on_intr(|| {
        recvmsg(&socket, &mut [IoSliceMut::new(&mut bytes)], &mut ancillary, RecvFlags::CMSG_CLOEXEC)
    })?;
    let mut descriptors = Vec::new();
    for message in ancillary.drain() {
        if let RecvAncillaryMessage::ScmRights(rights) = message {
            descriptors.extend(rights);
        }
    }
    bytes.truncate(received.bytes);
    Ok(Packet { bytes, descriptors, is_complete: !received.flags.contains(ReturnFlags::CTRUNC) })
}

/// Receives the next message without blocking. Returns `None` after the other side has closed its end.
///
/// # Errors
/// Returns `WouldBlock` if no message is available, and `InvalidData` if the packet is not such a message.
pub(super) fn receive<M: DeserializeOwned>(socket: impl AsFd) -> Result<Option<M>> {
    let mut text = Vec::with_capacity(MAX_BYTES);
    retry_on_intr(|| recv(&socket, spare_capacity(&mut text), RecvFlags::DONTWAIT))?;
    if text.is_empty() { Ok(None) } else { parse(&text).map(Some) }
}

/// Waits for a message with descriptors, and makes them close-on-exec. Returns the first [`DESCRIPTORS`], and then
/// the others.
///
/// # Errors
/// Fails if the packet is not such a message, has too few or too many descriptors, or if the other side has closed
/// its end.
pub(super) fn receive_with<M: DeserializeOwned>(
    socket: impl AsFd,
) -> Result<(M, [OwnedFd; DESCRIPTORS], Vec<OwnedFd>)> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS + MAX_FURTHER))];
    let Packet { bytes, mut descriptors, is_complete } = receive_packet(socket, MAX_BYTES, &mut space)?;
    if !is_complete || descriptors.len() < DESCRIPTORS {
        return Err(Error::from(ErrorKind::InvalidData));
    }
    let further = descriptors.split_off(DESCRIPTORS);
    let descriptors = descriptors.try_into().map_err(|_| Error::from(ErrorKind::InvalidData))?;
    Ok((parse(&bytes)?, descriptors, further))
}

fn parse<M: DeserializeOwned>(text: &[u8]) -> Result<M> {
    serde_json::from_slice(text).map_err(|error| Error::new(ErrorKind::InvalidData, error))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::Order;
    use crate::sockets::sends_descriptors;

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
    fn our_end_takes_none() {
        let (ours, theirs) = pair().unwrap();
        assert_ne!(sends_descriptors(&theirs), Some(true));
        send(&theirs, &Order::Kill(1)).unwrap();
        assert_eq!(receive(&ours).unwrap(), Some(Order::Kill(1)));
    }

    #[test]
    fn descriptors_come_with_their_message_and_a_message_without_is_refused() {
        let (ours, theirs) = pair().unwrap();
        for more in [0, 1, MAX_FURTHER] {
            send_with(&ours, &Order::Kill(1), &vec![ours.as_fd(); DESCRIPTORS + more]).unwrap();
            let (order, descriptors, further) = receive_with::<Order>(&theirs).unwrap();
            assert_eq!((order, descriptors.len(), further.len()), (Order::Kill(1), DESCRIPTORS, more));
        }
        for wrong in [0, DESCRIPTORS - 1, DESCRIPTORS + MAX_FURTHER + 1] {
            assert!(send_with(&ours, &Order::Kill(1), &vec![ours.as_fd(); wrong]).is_err(), "{wrong}");
        }
        send(&ours, &Order::Kill(1)).unwrap();
        assert!(receive_with::<Order>(&theirs).is_err());
        assert!(send(&ours, &"x".repeat(MAX_BYTES)).is_err());
    }
}
