//! Opaque data, such as signatures, that a model returns with its calls and requires back with them. The data is
//! bound to the model.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

/// The maximum size of opaque data that is kept, in bytes.
const MAX_OPAQUE_BYTES: usize = 1024 * 1024;

#[derive(Serialize, Deserialize)]
struct Packed<'a, T> {
    model: &'a str,
    keep: T,
}

/// Packs opaque data for [`ModelCall::opaque`](crate::ModelCall::opaque). Returns an empty string if the data is
/// too large.
pub(crate) fn pack(model: &str, keep: &impl Serialize) -> String {
    let packed = serde_json::to_string(&Packed { model, keep }).unwrap_or_default();
    if packed.len() > MAX_OPAQUE_BYTES { String::new() } else { packed }
}

/// Returns this model's opaque data, or `None` if it is missing or belongs to another model.
pub(crate) fn unpack<'a, T: Deserialize<'a>>(model: &str, opaque: &'a str) -> Option<T> {
    // The name is borrowed, so this fails for names that JSON escapes. No data is returned to such models.
    let packed: Packed<'a, &'a RawValue> = serde_json::from_str(opaque).ok()?;
    if packed.model != model {
        return None;
    }
    serde_json::from_str(packed.keep.get()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_model_that_gave_it_gets_it_back() {
        let packed = pack("gemini:a", &"signature");
        assert_eq!(unpack::<&str>("gemini:a", &packed), Some("signature"));
        assert_eq!(unpack::<&str>("gemini:b", &packed), None);
        assert_eq!(unpack::<&str>("gemini:a", ""), None);
        assert_eq!(unpack::<&str>("gemini:a", "nonsense"), None);
        assert_eq!(pack("gemini:a", &"x".repeat(MAX_OPAQUE_BYTES)), "");
    }
}
