//! Tools that can be installed: MCP servers that an operator's index lists.
//!
//! ```text
//! index ──> candidates of a task ──> answer
//!   └──> install: names free? ─> jail? ─> environment ─> start it in the jail, list its tools ─> as pinned? ─> publish
//!                                                                                                              └─> registry
//! ```
//!
//! Nothing is served before it was checked, and nothing is overwritten. Who installs is the operator, or a call of
//! `search_and_install_tools` where the policy is `listed`.
//!
//! - [`index`]: reads an index; [`entry`]: one server of it, and what its folder has
//! - [`candidates`]: which servers fit a task
//! - [`installer`]: installs one; [`check`]: what it is held to; [`refusal`]: why it is not installed
//! - [`folder`]: the folder of installed servers
//! - [`audit`]: the log of what was installed, removed and refused
//! - [`operator`]: the commands of `openskill tools`; [`watched`]: logs what they changed

pub(crate) mod audit;
pub(crate) mod candidates;
mod check;
pub mod entry;
pub mod folder;
pub mod index;
pub(crate) mod installer;
pub mod operator;
pub mod refusal;
pub(crate) mod watched;
