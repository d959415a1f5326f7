//! The defaults that a schema declares for optional parameters, and the arguments completed with them.
//!
//! [`Defaults`] are read from a schema once. They cover the properties of objects, the items of arrays and the values
//! of maps, also behind `$ref` and in `allOf`: schemas that apply to every value. What is in `anyOf`, `oneOf`, `if` and
//! `not` applies to some values only, so its defaults are ignored.

mod fill;
mod places;
mod read;

pub use fill::{Filled, GrowthExceeded, MAX_GROWTH_BYTES};
pub use places::Defaults;
pub use read::UnfitDefault;

#[cfg(test)]
mod tests;
