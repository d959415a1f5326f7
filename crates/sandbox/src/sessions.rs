//! Sessions are objects that are kept between calls. Each belongs to one caller and has a name.
//!
//! - [`key`]: the owner of a session; [`book`]: the sessions, within limits

pub mod book;
pub mod key;
