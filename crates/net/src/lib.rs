//! The layer below the protocol of every openskill server: sockets, threads and shutdown. It is independent of
//! messages.
//!
//! - [`listen`]: addresses, and one bound listener for each shard
//! - [`shards`]: one thread with a current-thread runtime for each listener, drained together
//! - [`linger`]: delivers the last bytes of a connection before closing it
//! - [`metered`]: ends an HTTP/2 connection whose client floods it; [`budget`]: the allowed control frames;
//!   [`frames`]: finds frames in the bytes
//! - [`local`]: a Unix socket with few wakeups
//! - [`dial`]: client connections to a gateway
//! - [`file_watcher`]: files that may change while a server runs
//! - [`tls`]: certificates and encrypted connections
//! - [`egress`]: HTTP requests of skills, only to addresses that they may reach

pub mod budget;
pub mod dial;
pub mod egress;
pub mod file_watcher;
pub mod frames;
pub mod linger;
pub mod listen;
pub mod local;
pub mod metered;
pub mod shards;
pub mod tls;
