//! Finds the frames in a stream of HTTP/2 bytes (RFC 9113, section 4.1), however the stream is split into reads.
//! Parses the nine bytes of each header and skips the payload. Copies and stores only partial headers.

/// Frame types, as the RFC numbers them.
pub mod kind {
    #![allow(missing_docs, reason = "the RFC documents them")]
    pub const DATA: u8 = 0;
    pub const HEADERS: u8 = 1;
    pub const RST_STREAM: u8 = 3;
    pub const SETTINGS: u8 = 4;
    pub const GOAWAY: u8 = 7;
}

/// The last frame of a stream, for DATA and HEADERS. SETTINGS and PING use the same bit for ACK.
pub const END_STREAM: u8 = 1;
/// The acknowledgement bit, for SETTINGS and PING. See [`END_STREAM`].
pub const ACK: u8 = 1;

/// The bytes that a client sends before its first frame.
pub const PREFACE: &[u8; 24] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// The length of a frame header, in bytes.
const HEADER: usize = 9;

/// A frame header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header {
    /// The length of the payload, in bytes.
    pub length: u32,
    /// The frame type, see [`kind`].
    pub kind: u8,
    /// Flags. Their meaning depends on the type.
    pub flags: u8,
    /// The stream id. 0 is the connection itself.
    pub stream: u32,
}

impl Header {
    /// Parses a header.
    pub fn parse(bytes: [u8; HEADER]) -> Self {
        let [a, b, c, kind, flags, stream @ ..] = bytes;
        // The first bit of the stream id is reserved.
        Self {
            length: u32::from_be_bytes([0, a, b, c]),
            kind,
            flags,
            stream: u32::from_be_bytes(stream) & (u32::MAX >> 1),
        }
    }

    /// Encodes the header.
    pub fn bytes(self) -> [u8; HEADER] {
        let ([_, a, b, c], [w, x, y, z]) = (self.length.to_be_bytes(), self.stream.to_be_bytes());
        [a, b, c, self.kind, self.flags, w, x, y, z]
    }
}

/// Finds the frame headers in a stream, and tracks its position in the stream.
#[derive(Debug, Clone, Default)]
pub struct FrameScanner {
    /// The remaining bytes of the current payload or of the preface.
    left: usize,
    /// The part of a header that has arrived so far.
    partial: [u8; HEADER],
    arrived: usize,
}

impl FrameScanner {
    /// Creates a scanner for the bytes that a client sends. They begin with [`PREFACE`].
    pub fn for_client() -> Self {
        Self { left: PREFACE.len(), ..Self::default() }
    }

    /// Creates a scanner for the bytes that a server sends.
    pub fn for_server() -> Self {
        Self::default()
    }

    /// Scans the next bytes. Calls `show` with each header that they complete.
    pub fn take(&mut self, mut bytes: &[u8], mut show: impl FnMut(Header)) {
        loop {
            let skipped = self.left.min(bytes.len());
            (self.left, bytes) = (self.left - skipped, &bytes[skipped..]);
            if bytes.is_empty() {
                return;
            }
            let count = bytes.len().min(HEADER - self.arrived);
            self.partial[self.arrived..self.arrived + count].copy_from_slice(&bytes[..count]);
            (self.arrived, bytes) = (self.arrived + count, &bytes[count..]);
            if self.arrived == HEADER {
                let header = Header::parse(self.partial);
                (self.arrived, self.left) = (0, header.length as usize);
                show(header);
            }
        }
    }

    /// Whether the scanner is between two frames.
    pub fn is_between(&self) -> bool {
        self.left == 0 && self.arrived == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(length: u32, kind: u8, stream: u32) -> (Header, Vec<u8>) {
        let header = Header { length, kind, flags: 1, stream };
        (header, [&header.bytes()[..], &vec![0xff; length as usize]].concat())
    }

    #[test]
    fn every_header_is_found_however_the_bytes_are_split() {
        let frames =
            [frame(0, kind::SETTINGS, 0), frame(70_000, kind::DATA, 7), frame(5, kind::HEADERS, u32::MAX >> 1)];
        let sent = frames.iter().fold(PREFACE.to_vec(), |sent, (_, bytes)| [sent, bytes.clone()].concat());
        for size in (1..60).chain([sent.len()]) {
            let (mut position, mut found) = (FrameScanner::for_client(), Vec::new());
            for piece in sent.chunks(size) {
                position.take(piece, |header| found.push(header));
            }
            assert_eq!(found, frames.each_ref().map(|(header, _)| *header), "in pieces of {size}");
            assert!(position.is_between());
        }
    }

    #[test]
    fn a_frame_begins_only_where_another_has_ended() {
        let (_, bytes) = frame(3, kind::DATA, 1);
        let mut position = FrameScanner::for_server();
        assert!(position.is_between());
        for byte in &bytes[..bytes.len() - 1] {
            position.take(&[*byte], |_| {});
            assert!(!position.is_between());
        }
        position.take(&bytes[bytes.len() - 1..], |_| {});
        assert!(position.is_between());
    }

    #[test]
    fn the_reserved_bit_of_a_stream_is_ignored() {
        let header = Header::parse([0, 0, 1, 0, 0, 0x80, 0, 0, 5]);
        assert_eq!((header.length, header.stream), (1, 5));
    }
}
