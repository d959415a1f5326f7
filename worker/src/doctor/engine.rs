//! Checks whether a container engine answers a ping.

use std::io::{Read, Write};
use std::net::{TcpStream, ToSocketAddrs as _};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use super::finding::{Finding, Status, finding};

/// The timeout of each step: connect, send, receive.
const PATIENCE: Duration = Duration::from_secs(1);

/// The maximum part of an answer that is read, in bytes.
const MAX_ANSWER: u64 = 4096;

/// Pings the engine at this address.
pub(super) fn look(address: &str) -> Finding {
    match ask(address) {
        Ok(answer) if answer.starts_with("HTTP/1.") && answer.contains(" 200 ") => {
            finding("containers", Status::Ok, format!("an engine answers at {address}"))
        }
        Ok(_) => finding("containers", Status::No, format!("{address} does not answer like a container engine")),
        Err(reason) => finding("containers", Status::No, format!("no docker skills: {address}: {reason}")),
    }
}

fn ask(address: &str) -> std::io::Result<String> {
    if let Some(path) = address.strip_prefix("unix://") {
        let stream = UnixStream::connect(path)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        return ping(stream);
    }
    let unknown = || std::io::Error::other("only unix:// and tcp:// can be checked");
    let host = address.strip_prefix("tcp://").ok_or_else(unknown)?;
    let at = host.to_socket_addrs()?.next().ok_or_else(unknown)?;
    let stream = TcpStream::connect_timeout(&at, PATIENCE)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    ping(stream)
}

fn ping(mut stream: impl Read + Write) -> std::io::Result<String> {
    stream.write_all(b"GET /_ping HTTP/1.0\r\nHost: engine\r\n\r\n")?;
    let mut answer = Vec::new();
    let read = stream.take(MAX_ANSWER).read_to_end(&mut answer);
    // An engine may answer and then keep the connection open.
    if answer.is_empty() {
        read?;
    }
    Ok(String::from_utf8_lossy(&answer).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_engine_answers_a_ping() {
        let folder = std::env::temp_dir().join(format!("openskill-engine-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let path = folder.join("socket");
        let address = format!("unix://{}", path.display());
        assert_eq!(look(&address).status, Status::No);
        let listener = std::os::unix::net::UnixListener::bind(&path).unwrap();
        let server = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut asked = [0; 512];
            let length = stream.read(&mut asked).unwrap();
            assert!(asked[..length].starts_with(b"GET /_ping "));
            stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nOK").unwrap();
        });
        assert_eq!(look(&address).status, Status::Ok);
        server.join().unwrap();
        std::fs::remove_dir_all(folder).unwrap();
        assert_eq!(look("ssh://host").status, Status::No);
    }
}
