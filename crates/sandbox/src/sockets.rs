//! Configures sockets whose other end belongs to a skill.

#![allow(unsafe_code)]

use std::io::Result;
use std::os::fd::{AsFd, AsRawFd as _};

/// The option that allows descriptors on a unix socket, since Linux 6.16 (include/uapi/asm-generic/socket.h).
/// `libc` does not define it yet.
const SO_PASSRIGHTS: libc::c_int = 83;

/// Makes a unix socket refuse descriptors, so that the sender gets `EPERM`. Otherwise the thread that reads or
/// closes the socket would also close the queued files, which the sender can make arbitrarily slow. Has no effect
/// on kernels that do not support this option.
pub fn refuse_descriptors(socket: &impl AsFd) -> Result<()> {
    let (no, size) = (0 as libc::c_int, size_of::<libc::c_int>() as libc::socklen_t);
    let socket = socket.as_fd().as_raw_fd();
    // SAFETY: the kernel reads an integer of this size, which lives until the call returns.
    let set = unsafe { libc::setsockopt(socket, libc::SOL_SOCKET, SO_PASSRIGHTS, (&raw const no).cast(), size) };
    match std::io::Error::last_os_error() {
        error if set != 0 && error.raw_os_error() != Some(libc::ENOPROTOOPT) => Err(error),
        _ => Ok(()),
    }
}

/// Returns whether the other end of a socket can send descriptors over it. Returns `None` if this kernel can't
/// refuse them.
#[cfg(any(test, feature = "testing"))]
pub fn sends_descriptors(theirs: impl AsFd) -> Option<bool> {
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
