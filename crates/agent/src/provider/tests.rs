mod exchange;
mod folding;
mod pictures;
mod server;

pub(super) use folding::{Streams, calls, history, read, sent, streams};
