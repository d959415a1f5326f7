//! The first exchange on a connection: the TLS handshake, if the listener has a certificate, and protocol
//! detection.

use std::time::Duration;

use openskill_net::frames::PREFACE;
use openskill_net::tls::MaybeTls;
use openskill_net::tls::server::{Acceptor, is_http2};
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;

/// The first byte of a TLS connection: the record type `handshake`.
const HANDSHAKE: u8 = 0x16;

/// The response to a client that speaks plain HTTP/1 on a TLS port.
const SPEAK_TLS: &[u8] = b"HTTP/1.1 400 Bad Request\r\ncontent-type: text/plain\r\ncontent-length: 42\r\n\
    connection: close\r\n\r\nthis address speaks TLS: use an https URL\n";

/// The protocol of a connection.
pub(super) enum Protocol {
    Http1,
    Http2,
}

/// Completes the handshake, and detects the protocol. None if the connection can't be used. The caller sets the
/// timeout.
pub(super) async fn negotiate(stream: TcpStream, tls: Option<Acceptor>) -> Option<(MaybeTls, Protocol)> {
    let Some(tls) = tls else {
        let protocol = detect(&stream).await?;
        return Some((MaybeTls::Left(stream), protocol));
    };
    let mut first = [0];
    if stream.peek(&mut first).await.ok()? == 0 {
        return None;
    }
    if first != [HANDSHAKE] {
        explain(stream, first[0]).await;
        return None;
    }
    match tls.accept(stream).await {
        Ok(stream) => {
            let protocol = if is_http2(&stream) { Protocol::Http2 } else { Protocol::Http1 };
            Some((MaybeTls::Right(Box::new(stream)), protocol))
        }
        Err(error) => {
            tracing::debug!(%error, "a TLS handshake failed");
            None
        }
    }
}

/// Explains the mistake to a plain-text client, if its first byte looks like HTTP/1.
async fn explain(mut stream: TcpStream, first: u8) {
    if first.is_ascii_uppercase() {
        let _ = stream.write_all(SPEAK_TLS).await;
        let _ = stream.shutdown().await;
        // Unread input would make the kernel discard the response.
        let mut rest = [0; 4096];
        let _ = stream.readable().await;
        let _ = stream.try_read(&mut rest);
    }
}

/// Waits until the client has sent enough to detect its protocol. None if it closed the connection.
async fn detect(stream: &TcpStream) -> Option<Protocol> {
    let mut head = [0; PREFACE.len()];
    loop {
        match stream.peek(&mut head).await {
            Ok(0) | Err(_) => return None,
            // Part of the HTTP/2 preface: wait for the rest.
            Ok(count) if count < PREFACE.len() && PREFACE.starts_with(&head[..count]) => {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
            Ok(count) if count == PREFACE.len() && head == *PREFACE => return Some(Protocol::Http2),
            Ok(_) => return Some(Protocol::Http1),
        }
    }
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
