//! Values that are small to send and large to hold, or mean different things to different readers, and errors that would make
//! a client do harm.
//!
//! - [`bounds`]: too many values are refused, however they come
//! - [`flood`]: a client that sends many values does not hold up its neighbours
//! - [`outputs`]: what a skill may not print
//! - [`retries`]: an error recommends a retry only where that is safe

mod bounds;
mod flood;
mod outputs;
mod retries;
