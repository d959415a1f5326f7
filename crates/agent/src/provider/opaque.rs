//! What a model gives with its calls and wants back with them, such as signatures. It is bound to the model.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

/// The longest that is kept, in bytes.
const MAX_OPAQUE_BYTES: usize = 1024 * 1024;

#[derive(Serialize, Deserialize)]
struct Packed<'a, T> {
    model: &'a str,
    keep: T,
}

/// Packs it for [`ModelCall::opaque`](crate::message::ModelCall::opaque). Empty if it is too long.
pub(super) fn pack(model: &str, keep: &impl Serialize) -> String {
    let packed = serde_json::to_string(&Packed { model, keep }).unwrap_or_default();
    if packed.len() > MAX_OPAQUE_BYTES { String::new() } else { packed }
}

/// What the model gave. None if another model did, or none.
pub(super) fn unpack<'a, T: Deserialize<'a>>(model: &str, opaque: &'a str) -> Option<T> {
    // The name is borrowed: a model whose name needs escapes gets nothing back.
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
