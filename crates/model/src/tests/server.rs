//! A provider that follows a script: a real server on a free port.

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;

/// The response of a server to one request.
#[derive(Debug, Clone)]
pub(super) struct Script {
    head: String,
    body: Vec<u8>,
    /// The number of bytes in each chunk.
    size: usize,
    ends: Ends,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ends {
    /// The body ends as HTTP requires.
    Well,
    /// The connection is closed early.
    Breaks,
    /// The connection stays open without further data.
    Hangs,
}

impl Script {
    /// Responds with an event stream in a single chunk.
    pub(super) fn stream(body: &str) -> Self {
        Self::answer("200 OK", "content-type: text/event-stream", body)
    }

    /// Responds with any status, headers and body.
    pub(super) fn answer(status: &str, headers: &str, body: &str) -> Self {
        let head = format!("HTTP/1.1 {status}\r\n{headers}\r\ntransfer-encoding: chunked\r\n\r\n");
        Self { head, body: body.as_bytes().to_vec(), size: body.len().max(1), ends: Ends::Well }
    }

    pub(super) fn in_chunks_of(self, size: usize) -> Self {
        Self { size, ..self }
    }

    pub(super) fn then_breaks(self) -> Self {
        Self { ends: Ends::Breaks, ..self }
    }

    pub(super) fn then_hangs(self) -> Self {
        Self { ends: Ends::Hangs, ..self }
    }
}

/// A request as the server received it.
#[derive(Debug)]
pub(super) struct Asked {
    /// The request line and the headers.
    pub(super) head: String,
    pub(super) body: String,
}

/// A running server. It stops with the test's runtime.
pub(super) struct Server {
    pub(super) url: String,
    asked: mpsc::Receiver<Asked>,
}

impl Server {
    /// Responds to one request after the other by these scripts, each on a separate connection.
    pub(super) async fn start(scripts: Vec<Script>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let (sender, asked) = mpsc::channel(scripts.len() + 1);
        tokio::spawn(async move {
            for script in scripts {
                let (stream, _) = listener.accept().await.unwrap();
                serve(stream, script, &sender).await;
            }
        });
        Self { url, asked }
    }

    /// Returns the next received request.
    pub(super) async fn asked(&mut self) -> Asked {
        self.asked.recv().await.unwrap()
    }
}

async fn serve(mut stream: TcpStream, script: Script, asked: &mpsc::Sender<Asked>) {
    let mut read = Vec::new();
    let (head, body) = loop {
        let mut chunk = [0; 4096];
        let count = stream.read(&mut chunk).await.unwrap();
        assert!(count > 0, "the request is complete");
        read.extend_from_slice(&chunk[..count]);
        let text = String::from_utf8_lossy(&read);
        let Some((head, body)) = text.split_once("\r\n\r\n") else { continue };
        let length = head.lines().find_map(|it| it.strip_prefix("content-length: ")).unwrap().parse::<usize>().unwrap();
        if body.len() >= length {
            break (head.to_owned(), body.to_owned());
        }
    };
    asked.send(Asked { head, body }).await.unwrap();
    stream.set_nodelay(true).unwrap();
    stream.write_all(script.head.as_bytes()).await.unwrap();
    for chunk in script.body.chunks(script.size) {
        let framed = [format!("{:x}\r\n", chunk.len()).as_bytes(), chunk, b"\r\n"].concat();
        // The client may have stopped reading.
        if stream.write_all(&framed).await.is_err() {
            return;
        }
    }
    match script.ends {
        Ends::Well => drop(stream.write_all(b"0\r\n\r\n").await),
        Ends::Breaks => {}
        Ends::Hangs => drop(stream.read(&mut [0; 1]).await),
    }
}
