//! Test data: secrets of many shapes, planted in many places; innocent text; and text that is designed to be slow.
//!
//! The data is generated from a seed: the same seed gives the same data.

mod finder;
mod hostile;
mod innocent;
mod places;
mod random;
mod secrets;

pub use finder::Finder;
pub use hostile::{hostile, typical};
pub use innocent::innocent;
pub use places::{Planted, plant, planted};
pub use random::Random;
pub use secrets::{SHAPES, Secret, Shape};
