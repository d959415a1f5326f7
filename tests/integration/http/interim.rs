//! Interim answers (1xx): a few are read over, and a server that never comes to its final answer is given up.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

use super::*;

/// A server that sends interim answers as the path says: `/8` so many and then a final one, `/endless` nothing else.
struct Interim {
    port: u16,
    connections: Arc<AtomicUsize>,
    open: Arc<AtomicUsize>,
}

impl Interim {
    async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let (connections, open) = (Arc::<AtomicUsize>::default(), Arc::<AtomicUsize>::default());
        let (all, now) = (Arc::clone(&connections), Arc::clone(&open));
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                all.fetch_add(1, Ordering::SeqCst);
                now.fetch_add(1, Ordering::SeqCst);
                let now = Arc::clone(&now);
                tokio::spawn(async move {
                    let _ = serve(stream).await;
                    now.fetch_sub(1, Ordering::SeqCst);
                });
            }
        });
        Self { port, connections, open }
    }

    /// The skill of this path.
    fn skill(&self, path: &str) -> (String, String) {
        (format!("http://127.0.0.1:{}/{path}", self.port), format!("method: GET, allow: ['127.0.0.1:{}']", self.port))
    }
}

async fn serve(mut stream: TcpStream) -> std::io::Result<()> {
    let (mut seen, mut chunk) = (Vec::new(), [0; 4096]);
    loop {
        let count = stream.read(&mut chunk).await?;
        if count == 0 {
            return Ok(());
        }
        seen.extend_from_slice(&chunk[..count]);
        if !seen.ends_with(b"\r\n\r\n") {
            continue;
        }
        let head = String::from_utf8(std::mem::take(&mut seen)).unwrap();
        let path = head.split(' ').nth(1).unwrap().trim_start_matches('/').to_owned();
        let interim = ["HTTP/1.1 100 Continue\r\n\r\n", "HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n"].concat();
        let Ok(count) = path.parse::<usize>() else {
            let many = interim.repeat(1000);
            loop {
                stream.write_all(many.as_bytes()).await?;
            }
        };
        stream.write_all("HTTP/1.1 102 Processing\r\n\r\n".repeat(count).as_bytes()).await?;
        let last = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 4\r\n\r\ntrue";
        stream.write_all(last.as_bytes()).await?;
    }
}

#[tokio::test]
async fn a_few_interim_answers_are_read_over_and_more_are_an_error() {
    let (server, unused) = (Interim::start().await, Backend::start(echo).await);
    let paths = [("none", "0"), ("some", "8"), ("many", "9"), ("endless", "endless")];
    let skills = paths.map(|(name, path)| (name, server.skill(path)));
    let skills: Vec<_> =
        skills.iter().map(|(name, (url, settings))| (*name, url.as_str(), settings.as_str())).collect();
    let system = system(&unused, &skills).await;
    for skill in ["none", "some", "none", "some"] {
        assert_eq!(data(&call(&system, skill, json!({})).await), true, "{skill}");
    }
    assert_eq!(server.connections.load(Ordering::SeqCst), 1, "the connection is kept");
    for skill in ["many", "endless"] {
        let result = call(&system, skill, json!({})).await;
        assert_eq!(code(&result), "EXECUTION_ERROR", "{skill}: {result:?}");
        let error = result.error.unwrap();
        assert!(error.message.contains("more than 8 interim answers") && !error.retryable, "{error:?}");
        until_true("the connection is closed", PATIENCE, || server.open.load(Ordering::SeqCst) == 0).await;
    }
    assert_eq!(data(&call(&system, "some", json!({})).await), true);
}
