//! Assembles the source of a fork server's program.

/// The program except its last line, which names the class that preloads and runs calls.
const SERVER: &str = concat!(
    include_str!("script.py"),
    include_str!("fork/protocol.py"),
    include_str!("fork/call.py"),
    include_str!("fork/preloading.py"),
    include_str!("fork/apart.py"),
    include_str!("fork/namespaces.py"),
    include_str!("fork/server.py"),
);

/// Returns the program of a fork server for scripts.
pub(super) fn scripts_program() -> String {
    format!("{SERVER}\nmain(Preloading)\n")
}

/// Returns the program of a fork server whose processes run `host`, which must define the class `Hosting`.
pub(crate) fn host_program(host: &str) -> String {
    format!("{SERVER}\n{host}\nmain(Hosting)\n")
}
