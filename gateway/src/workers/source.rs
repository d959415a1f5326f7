//! Where to find workers. Resolves each source to endpoints.

use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

/// One entry of `OPENSKILL_WORKERS`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    /// `http://host:port`: one worker, in plain text.
    Http(String),
    /// `https://host:port`: one worker, over the TLS of the mesh.
    Https(String),
    /// `unix:/path`: one worker at a socket.
    Unix(PathBuf),
    /// `unix:/folder/*.sock`: one worker per matching socket in the folder.
    UnixFolder {
        /// The path of the folder.
        folder: PathBuf,
        /// The suffix that socket names must have.
        suffix: String,
    },
    /// `dns://name:port`: one worker per address of the name. Uses TLS if the gateway is part of a mesh.
    Dns(String),
}

/// The text does not name a source of workers.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "'{0}' is not a source of workers: use http://host:port, https://host:port, unix:/path, unix:/folder/*.sock or dns://name:port"
)]
pub struct SourceError(pub String);

impl FromStr for Source {
    type Err = SourceError;

    fn from_str(text: &str) -> Result<Self, SourceError> {
        let fail = || SourceError(text.to_owned());
        if let Some(path) = text.strip_prefix("unix:") {
            return unix(Path::new(path)).ok_or_else(fail);
        }
        let (kind, authority): (fn(String) -> Self, _) = match text.split_once("://") {
            Some(("http", authority)) => (Self::Http, authority.trim_end_matches('/')),
            Some(("https", authority)) => (Self::Https, authority.trim_end_matches('/')),
            Some(("dns", authority)) => (Self::Dns, authority),
            _ => return Err(fail()),
        };
        let valid = authority.parse::<http::uri::Authority>().is_ok_and(|it| {
            it.port_u16().is_some_and(|port| port > 0) && !it.host().is_empty() && !authority.contains('@')
        });
        if valid { Ok(kind(authority.to_owned())) } else { Err(fail()) }
    }
}

fn unix(path: &Path) -> Option<Source> {
    let name = path.file_name()?.to_str()?;
    if !path.is_absolute() {
        return None;
    }
    match name.strip_prefix('*') {
        Some(suffix) => Some(Source::UnixFolder { folder: path.parent()?.to_owned(), suffix: suffix.to_owned() }),
        None => Some(Source::Unix(path.to_owned())),
    }
}

/// The address of one worker.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Endpoint {
    /// Host and port, in plain text.
    Tcp(String),
    /// Host and port, over TLS.
    Tls(String),
    /// The path of a Unix socket.
    Unix(PathBuf),
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(authority) => write!(f, "http://{authority}"),
            Self::Tls(authority) => write!(f, "https://{authority}"),
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

impl Source {
    /// Resolves the source to its current workers. `is_mesh`: the gateway is part of a mesh.
    ///
    /// # Errors
    /// The name or the folder can't be looked up. Callers keep the result of the last lookup.
    pub(crate) async fn resolve(&self, is_mesh: bool) -> std::io::Result<Vec<Endpoint>> {
        match self {
            Self::Http(authority) => Ok(vec![Endpoint::Tcp(authority.clone())]),
            Self::Https(authority) => Ok(vec![Endpoint::Tls(authority.clone())]),
            Self::Unix(path) => Ok(vec![Endpoint::Unix(path.clone())]),
            Self::UnixFolder { folder, suffix } => sockets(folder, suffix).await,
            Self::Dns(authority) => {
                let addresses = tokio::net::lookup_host(authority).await?;
                let endpoint = if is_mesh { Endpoint::Tls } else { Endpoint::Tcp };
                Ok(addresses.map(|address| endpoint(address.to_string())).collect())
            }
        }
    }
}

async fn sockets(folder: &Path, suffix: &str) -> std::io::Result<Vec<Endpoint>> {
    let mut entries = tokio::fs::read_dir(folder).await?;
    let mut found = Vec::new();
    while let Some(entry) = entries.next_entry().await? {
        if entry.file_name().to_str().is_some_and(|name| name.ends_with(suffix)) {
            found.push(Endpoint::Unix(entry.path()));
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_of_source_is_read() {
        for (text, expected) in [
            ("http://worker-1:9000", Source::Http("worker-1:9000".to_owned())),
            ("http://[::1]:9000/", Source::Http("[::1]:9000".to_owned())),
            ("https://worker-1:9000", Source::Https("worker-1:9000".to_owned())),
            ("unix:/run/w.sock", Source::Unix(PathBuf::from("/run/w.sock"))),
            (
                "unix:/run/workers/*.sock",
                Source::UnixFolder { folder: PathBuf::from("/run/workers"), suffix: ".sock".to_owned() },
            ),
            ("dns://worker:9000", Source::Dns("worker:9000".to_owned())),
        ] {
            assert_eq!(text.parse(), Ok(expected));
        }
    }

    #[test]
    fn what_names_no_worker_is_refused_with_the_forms_there_are() {
        for text in ["", "worker:9000", "http://worker", "https://worker", "unix:w.sock", "dns://:9000", "http://a@b:1"]
        {
            let error = text.parse::<Source>().unwrap_err();
            assert!(error.to_string().contains("dns://name:port"), "{error}");
        }
    }

    #[tokio::test]
    async fn a_folder_gives_its_sockets_and_nothing_else() {
        let folder = std::env::temp_dir().join(format!("openskill-source-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join("a.sock"), "").unwrap();
        std::fs::write(folder.join("a.lock"), "").unwrap();
        let source: Source = format!("unix:{}/*.sock", folder.display()).parse().unwrap();
        assert_eq!(source.resolve(false).await.unwrap(), [Endpoint::Unix(folder.join("a.sock"))]);
        std::fs::remove_dir_all(folder).unwrap();
    }
}
