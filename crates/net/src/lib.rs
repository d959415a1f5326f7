//! What every openskill server needs around its protocol: it knows sockets, threads and shutdown, and no messages.
//!
//! - [`listen`]: addresses, and one bound listener for each shard
//! - [`shards`]: one thread with a current-thread runtime for each listener, drained together
//! - [`linger`]: a connection that delivers its last bytes before it closes
//! - [`metered`]: an HTTP/2 connection that ends when its client floods it; [`budget`]: how many control frames it may
//!   send; [`frames`]: finding them
//! - [`local`]: a unix socket that wakes its task only when it has to
//! - [`dial`]: connections of clients to a gateway
//! - [`tls`]: certificates, and connections that are encrypted

pub mod budget;
pub mod dial;
pub mod frames;
pub mod linger;
pub mod listen;
pub mod local;
pub mod metered;
pub mod shards;
pub mod tls;
