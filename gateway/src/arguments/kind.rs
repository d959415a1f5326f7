//! The changes that repair can make: [`Kind`] lists every change that is allowed, [`Repair`] records one that was
//! made.

use openskill_proto::v1;

/// The maximum size of a value that a [`Repair`] shows in full, in bytes.
const MAX_SHOWN_BYTES: usize = 512;

/// One change to the arguments.
#[derive(Debug, Clone, PartialEq)]
pub struct Repair {
    /// Where, as a JSON Pointer into the repaired arguments.
    pub path: String,
    /// The rule that applied.
    pub kind: Kind,
    /// The old value, or the old name of a renamed key, as JSON text. Long values are truncated.
    pub before: Option<String>,
    /// The new value or name, as JSON text. Long values are truncated.
    pub after: Option<String>,
}

impl From<Repair> for v1::Repair {
    fn from(repair: Repair) -> Self {
        Self {
            path: repair.path,
            kind: repair.kind.name().to_owned(),
            before_json: repair.before.unwrap_or_default(),
            after_json: repair.after.unwrap_or_default(),
        }
    }
}

impl Repair {
    /// Records a change. Truncates `before` and `after`, which are JSON text.
    pub(super) fn new(path: impl Into<String>, kind: Kind, before: Option<String>, after: Option<String>) -> Self {
        Self { path: path.into(), kind, before: before.map(truncate), after: after.map(truncate) }
    }
}

/// Returns the JSON text itself, or its beginning as a JSON string if it is too long.
fn truncate(json: String) -> String {
    if json.len() <= MAX_SHOWN_BYTES {
        return json;
    }
    let beginning = &json[..json.floor_char_boundary(MAX_SHOWN_BYTES / 2)];
    serde_json::Value::from(format!("{beginning}…")).to_string()
}

macro_rules! kinds {
    ($($(#[doc = $doc:literal])+ $kind:ident $name:literal,)*) => {
        /// A change that repair may make. No other changes are allowed.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum Kind { $($(#[doc = $doc])+ $kind,)* }

        impl Kind {
            /// All kinds.
            pub const ALL: &[Self] = &[$(Self::$kind),*];

            /// The name on the wire.
            pub fn name(self) -> &'static str {
                match self { $(Self::$kind => $name,)* }
            }
        }
    };
}

kinds! {
    /// Trailing commas, comments, single quotes, Python literals or line breaks in strings became plain JSON.
    Syntax "syntax",
    /// Prose or a code fence around the object was ignored.
    Extracted "extracted",
    /// The object was encoded as a JSON string.
    DoubleEncoded "double_encoded",
    /// The arguments were the value of a single undeclared key such as `arguments`.
    Wrapper "wrapper",
    /// A key differed in case or separators: `maxSteps` for `max_steps`.
    KeyFold "key_fold",
    /// A key was an alias that the manifest declares.
    Alias "alias",
    /// An optional parameter that does not accept null was null.
    NullDropped "null_dropped",
    /// An optional parameter was `{}`, `[]` or `""`, and its schema does not accept that.
    EmptyDropped "empty_dropped",
    /// `"true"` where only a boolean is allowed.
    StringToBoolean "string_to_boolean",
    /// `"20"` where only an integer is allowed.
    StringToInteger "string_to_integer",
    /// `"0.5"` where only a number is allowed.
    StringToNumber "string_to_number",
    /// `25` where only a string is allowed.
    IntegerToString "integer_to_string",
    /// `"['a', 'b']"` where only an array is allowed.
    StringToArray "string_to_array",
    /// `"{...}"` where only an object is allowed.
    StringToObject "string_to_object",
    /// `"like new"` where only `Like New` is allowed.
    EnumFold "enum_fold",
    /// A required parameter was missing and its schema declares a default.
    DefaultFilled "default_filled",
    /// A key that the schema does not declare was dropped.
    UnknownDropped "unknown_dropped",
}
