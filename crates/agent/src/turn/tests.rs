#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod ends;
mod limits;
mod restarts;
mod scene;
mod user;
