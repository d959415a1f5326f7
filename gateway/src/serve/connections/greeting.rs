//! The first exchange on a connection: the TLS handshake, if the listener has a certificate, and the choice of a protocol.

use openskill_net::tls::server::{Acceptor, is_http2};
use openskill_net::tls::stream::MaybeTls;
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;

use super::protocol::{self, Protocol};

/// The first byte of a TLS connection: a record of the handshake.
const HANDSHAKE: u8 = 0x16;

/// The answer to a client that speaks HTTP/1 in plain text where TLS is spoken.
const SPEAK_TLS: &[u8] = b"HTTP/1.1 400 Bad Request\r\ncontent-type: text/plain\r\ncontent-length: 42\r\n\
    connection: close\r\n\r\nthis address speaks TLS: use an https URL\n";

/// Finishes the handshake. None if the connection is of no use. The caller bounds the time.
pub(super) async fn greet(stream: TcpStream, tls: Option<Acceptor>) -> Option<(MaybeTls<TcpStream>, Protocol)> {
    let Some(tls) = tls else {
        let protocol = protocol::detect(&stream).await?;
        return Some((MaybeTls::Plain(stream), protocol));
    };
    let mut first = [0];
    if stream.peek(&mut first).await.ok()? == 0 {
        return None;
    }
    if first != [HANDSHAKE] {
        return explain(stream, first[0]).await;
    }
    match tls.accept(stream).await {
        Ok(stream) => {
            let protocol = if is_http2(&stream) { Protocol::Http2 } else { Protocol::Http1 };
            Some((MaybeTls::Tls(Box::new(stream)), protocol))
        }
        Err(error) => {
            tracing::debug!(%error, "a TLS handshake failed");
            None
        }
    }
}

/// Says to a client in plain text what is wrong, if it can understand it: it begins with a method of HTTP.
async fn explain(mut stream: TcpStream, first: u8) -> Option<(MaybeTls<TcpStream>, Protocol)> {
    if first.is_ascii_uppercase() {
        let _ = stream.write_all(SPEAK_TLS).await;
        let _ = stream.shutdown().await;
        // Unread input would make the kernel discard the answer.
        let mut rest = [0; 4096];
        let _ = stream.readable().await;
        let _ = stream.try_read(&mut rest);
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_answer_in_plain_text_has_the_length_that_it_says() {
        let text = std::str::from_utf8(SPEAK_TLS).unwrap();
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        assert!(head.contains(&format!("content-length: {}\r\n", body.len())), "{text}");
    }
}
