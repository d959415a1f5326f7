//! The program of a fork server, as one text.

/// All of it but the last line, which names the class that preloads and runs calls.
const SERVER: &str = concat!(
    include_str!("script.py"),
    include_str!("fork/protocol.py"),
    include_str!("fork/call.py"),
    include_str!("fork/preloading.py"),
    include_str!("fork/apart.py"),
    include_str!("fork/namespaces.py"),
    include_str!("fork/server.py"),
);

/// The program of a fork server for scripts.
pub(super) fn of_scripts() -> String {
    format!("{SERVER}\nmain(Preloading)\n")
}

/// The program of a fork server for processes that run `host`, which defines the class `Hosting`.
pub(crate) fn of_host(host: &str) -> String {
    format!("{SERVER}\n{host}\nmain(Hosting)\n")
}
