//! Detects the protocol of a connection from its first bytes.

use std::time::Duration;

use openskill_net::frames::PREFACE;
use tokio::net::TcpStream;

/// The protocol of a connection.
pub(super) enum Protocol {
    Http1,
    Http2,
}

/// Waits until the client has sent enough to detect its protocol. None if it closed the connection.
pub(super) async fn detect(stream: &TcpStream) -> Option<Protocol> {
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
