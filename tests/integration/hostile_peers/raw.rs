//! An HTTP/2 client that sends whatever it is told to.

use std::net::SocketAddr;
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

pub(super) const DATA: u8 = 0;
pub(super) const HEADERS: u8 = 1;
pub(super) const PRIORITY: u8 = 2;
pub(super) const SETTINGS: u8 = 4;
pub(super) const PING: u8 = 6;
pub(super) const GOAWAY: u8 = 7;
pub(super) const WINDOW_UPDATE: u8 = 8;

pub(super) const ENHANCE_YOUR_CALM: u32 = 11;

const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;

/// A frame's bytes.
pub(super) fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
    [&length[1..], &[kind, flags], &stream.to_be_bytes(), payload].concat()
}

/// SETTINGS with another initial window.
pub(super) fn initial_window(bytes: u32) -> Vec<u8> {
    frame(SETTINGS, 0, 0, &[&[0, 4], &bytes.to_be_bytes()[..]].concat())
}

/// HEADERS of a request, each field a literal without indexing (RFC 7541).
pub(super) fn request(stream: u32, fields: &[(&str, &str)], is_whole: bool) -> Vec<u8> {
    let mut block = Vec::new();
    for (name, value) in fields {
        block.push(0);
        for text in [name, value] {
            assert!(text.len() < 127, "{text}: a longer length has more bytes");
            block.push(text.len() as u8);
            block.extend_from_slice(text.as_bytes());
        }
    }
    frame(HEADERS, END_HEADERS | if is_whole { END_STREAM } else { 0 }, stream, &block)
}

/// A connection.
pub(super) struct Raw {
    stream: TcpStream,
    address: SocketAddr,
}

impl Raw {
    pub(super) async fn connect(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).await.unwrap();
        let mut raw = Self { stream, address };
        assert!(raw.send(&[b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", &frame(SETTINGS, 0, 0, &[])[..]].concat()).await);
        raw
    }

    /// Sends these bytes. False if the connection is closed.
    pub(super) async fn send(&mut self, bytes: &[u8]) -> bool {
        self.stream.write_all(bytes).await.is_ok()
    }

    /// Begins calls whose bodies never come.
    pub(super) async fn begin_calls(&mut self, count: u32) -> bool {
        let authority = self.address.to_string();
        let fields = [
            (":method", "POST"),
            (":scheme", "http"),
            (":path", "/skills/in_echo:invoke"),
            (":authority", &authority),
            ("content-type", "application/json"),
        ];
        let calls: Vec<u8> = (0..count).flat_map(|number| request(2 * number + 1, &fields, false)).collect();
        self.send(&calls).await
    }

    /// Sends the same again and again until the connection is closed, or for this long.
    pub(super) async fn flood(&mut self, bytes: &[u8], time: Duration) {
        let sending = async { while self.send(bytes).await {} };
        let _ = tokio::time::timeout(time, sending).await;
    }

    /// Reads to the end. Returns the error code of the last GOAWAY.
    pub(super) async fn goodbye(mut self) -> Option<u32> {
        let (mut code, mut header) = (None, [0; 9]);
        while self.stream.read_exact(&mut header).await.is_ok() {
            let mut payload = vec![0; u32::from_be_bytes([0, header[0], header[1], header[2]]) as usize];
            if self.stream.read_exact(&mut payload).await.is_err() {
                break;
            }
            if header[3] == GOAWAY {
                code = Some(u32::from_be_bytes(payload[4..8].try_into().unwrap()));
            }
        }
        code
    }
}
