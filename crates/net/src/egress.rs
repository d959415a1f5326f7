//! HTTP requests of skills, limited to the addresses that each skill may reach.
//!
//! ```text
//! URL ──> reach (may it go there?) ──> client ──> transport ──> the server, at a checked address
//! ```
//!
//! - [`allow`]: hosts outside the public internet that a skill may reach; [`reach`]: which addresses a request may go to
//! - [`client`]: clients with connection pools, shared by skills with the same reach; [`transport`]: sends a request
//! - `interim`: limits the responses before the final one; [`cause`]: finds the cause of an error

pub mod allow;
pub mod cause;
pub mod client;
mod interim;
pub mod reach;
pub mod transport;
