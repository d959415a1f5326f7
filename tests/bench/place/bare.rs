//! Tonic alone: a server, or a forwarder before it, connected as openskill's gateway and worker are.

use std::path::Path;

use openskill_tests::folder::Folder;
use tokio::process::Command;

use super::Running;
use crate::child::Child;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Hops {
    /// client -> TCP -> server
    One,
    /// client -> TCP -> forwarder -> unix socket -> server
    Two,
}

/// The runtime of each process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Flavour {
    /// One thread, as `openskill up` has it.
    Current,
    /// Two threads that take work from each other, as tonic's examples have it.
    Multi,
}

impl Flavour {
    fn name(self) -> &'static str {
        match self {
            Self::Current => "current",
            Self::Multi => "multi",
        }
    }
}

pub(super) async fn start(hops: Hops, flavour: Flavour) -> Result<Running, String> {
    let folder = Folder::new();
    let any_port = "127.0.0.1:0".to_owned();
    let socket = format!("unix:{}", folder.path().join("bare.sock").display());
    let (listen, forwards) = match hops {
        Hops::One => (any_port.clone(), false),
        Hops::Two => (socket.clone(), true),
    };
    let log = folder.path().join("server.log");
    let (server, mut address) = own(&["bare-server", "--listen", &listen, "--flavour", flavour.name()], &log).await?;
    let mut children = vec![server];
    if forwards {
        let log = folder.path().join("forwarder.log");
        let arguments = ["bare-forwarder", "--listen", &any_port, "--to", &socket, "--flavour", flavour.name()];
        let (forwarder, listens) = own(&arguments, &log).await?;
        children.push(forwarder);
        address = listens;
    }
    let address = address.parse().map_err(|_| format!("'{address}' is no address"))?;
    Ok(Running::of_children(address, children, folder))
}

/// This binary with a subcommand, and where it listens.
pub(super) async fn own(arguments: &[&str], log: &Path) -> Result<(Child, String), String> {
    let mut command = Command::new(std::env::current_exe().map_err(|error| error.to_string())?);
    command.args(arguments);
    let mut child = Child::announced(command, log)?;
    let address = child.first_line(log).await?;
    Ok((child, address))
}
