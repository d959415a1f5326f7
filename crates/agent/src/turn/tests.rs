#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod credentials;
mod delegated;
mod ends;
mod limits;
mod restarts;
mod scene;
mod untrusted;
mod user;
