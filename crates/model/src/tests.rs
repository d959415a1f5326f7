mod cut_streams;
mod exchange;
mod folding;
mod pictures;
mod quirks;
mod server;

pub(crate) use folding::{Streams, calls, history, read, sent, streams};
