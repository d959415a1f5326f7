//! Sockets whose other end a skill has.

#![allow(unsafe_code)]

use std::io::Result;
use std::os::fd::{AsFd, AsRawFd as _};

/// Whether others may send descriptors to a unix socket: since Linux 6.16 (include/uapi/asm-generic/socket.h). Not in `libc` yet.
const SO_PASSRIGHTS: libc::c_int = 83;

/// Makes a unix socket take no descriptors: who sends one over it is told `EPERM`. The thread that reads or closes a socket also
/// closes the files that wait in it, and that may take as long as whoever sent them likes. Older kernels don't have this.
pub(crate) fn refuse_descriptors(socket: &impl AsFd) -> Result<()> {
    let (no, size) = (0 as libc::c_int, size_of::<libc::c_int>() as libc::socklen_t);
    let socket = socket.as_fd().as_raw_fd();
    // SAFETY: the option is read from an integer of that size, which lives until the call returns.
    let set = unsafe { libc::setsockopt(socket, libc::SOL_SOCKET, SO_PASSRIGHTS, (&raw const no).cast(), size) };
    match std::io::Error::last_os_error() {
        error if set != 0 && error.raw_os_error() != Some(libc::ENOPROTOOPT) => Err(error),
        _ => Ok(()),
    }
}

/// Whether the other end of a socket may send a descriptor over it. None: this kernel can't refuse one.
#[cfg(test)]
pub(crate) fn sends_descriptors(theirs: impl AsFd) -> Option<bool> {
    use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};
    let (one, other) = std::os::unix::net::UnixStream::pair().ok()?;
    refuse_descriptors(&one).ok()?;
    let send = |socket: &dyn AsFd| {
        let descriptors = [socket.as_fd()];
        let mut space = [std::mem::MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut ancillary = SendAncillaryBuffer::new(&mut space);
        ancillary.push(SendAncillaryMessage::ScmRights(&descriptors));
        let text = [std::io::IoSlice::new(b"x")];
        sendmsg(socket.as_fd(), &text, &mut ancillary, SendFlags::NOSIGNAL | SendFlags::DONTWAIT).is_ok()
    };
    (!send(&other)).then(|| send(&theirs))
}
