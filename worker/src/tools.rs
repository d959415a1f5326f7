//! Installs tools: MCP servers that an operator's index lists.
//!
//! ```text
//! index ──> candidates of a task ──> answer
//!   └──> install: names free? ─> jail? ─> environment ─> start it in the jail, list its tools ─> as pinned? ─> publish
//!                                                                                                              └─> registry
//! ```
//!
//! Nothing is served before it was checked, and nothing is overwritten. The operator installs servers. Under the
//! policy `listed`, calls of `search_and_install_tools` can install them too.
//!
//! - [`index`]: parses an index of servers, and creates the files of an installation
//! - [`candidates`]: finds the servers that match a task
//! - [`installer`]: installs a server; [`check`]: the checks before that; [`refusal`]: why it was refused
//! - [`folder`]: the folder of installed servers
//! - [`audit`]: logs installations, removals and refusals, also those of [`operator`](crate::operator)
//! - [`search_and_install`]: the built-in function that lists tools from an index, and installs them

pub(crate) mod audit;
pub(crate) mod candidates;
pub(crate) mod check;
pub mod folder;
pub mod index;
pub(crate) mod installer;
pub mod refusal;
pub(crate) mod search_and_install;
