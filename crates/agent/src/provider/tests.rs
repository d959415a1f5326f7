mod exchange;
mod folding;
mod server;

pub(super) use folding::{Streams, calls, history, read, sent, streams};
