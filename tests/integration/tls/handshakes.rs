//! Handshakes that never end: each costs its own place, for a time.

use std::time::{Duration, Instant};

use http::Method;
use openskill_tests::certs::Certs;
use openskill_tests::system::PATIENCE;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use super::up;

/// The beginning of a handshake: a record that says it has 512 bytes, and a few of them.
const HALF: [u8; 12] = [0x16, 3, 1, 2, 0, 1, 0, 1, 0xfc, 3, 3, 0];

#[tokio::test]
async fn many_that_never_finish_keep_nobody_out() {
    let certs = Certs::make();
    let system = up(&certs).with("OPENSKILL_MAX_CONNECTIONS", 32).start().await;
    let mut idle = Vec::new();
    for number in 0..200 {
        let mut stream = TcpStream::connect(system.address).await.unwrap();
        if number % 2 == 0 {
            stream.write_all(&HALF).await.unwrap();
        }
        idle.push(stream);
    }
    // The first one waits until each of them was accepted and had to make room.
    let mut longest = PATIENCE;
    for _ in 0..20 {
        let begun = Instant::now();
        let answer = certs.client().send(system.address, Method::GET, "/skills/in_echo", &[], "").await;
        assert_eq!(answer.status, 200);
        assert!(begun.elapsed() < longest, "{:?}", begun.elapsed());
        longest = Duration::from_secs(5);
    }
    drop(idle);
}

#[tokio::test]
async fn one_that_never_finishes_is_closed() {
    let certs = Certs::make();
    let system = up(&certs).start().await;
    let mut stream = TcpStream::connect(system.address).await.unwrap();
    stream.write_all(&HALF).await.unwrap();
    let closed = tokio::time::timeout(PATIENCE, stream.read_to_end(&mut Vec::new())).await;
    assert!(closed.is_ok(), "it is still open");
}
