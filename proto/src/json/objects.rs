//! Deserializes JSON objects into structs. The code that serde derives for a struct also accepts a list of values
//! by position. A request in that form has no keys, so code that looks for keys in its text finds none. This
//! deserializer requires an object for every struct at any depth, and accepts 15000.0 as an integer.

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, EnumAccess, Error, MapAccess, SeqAccess, Visitor};

/// Parses JSON text. Every struct must be an object, and the text must end after the value.
///
/// # Errors
/// The text is not JSON, or does not fit the type.
pub fn read<'a, T: serde::Deserialize<'a>>(json: &'a [u8]) -> serde_json::Result<T> {
    let mut json = serde_json::Deserializer::from_slice(json);
    let read = T::deserialize(Objects(&mut json))?;
    json.end()?;
    Ok(read)
}

/// Wraps a part of a deserializer, so that every struct must be an object.
struct Objects<T>(T);

macro_rules! deserialize {
    ($wrapper:ident: $($method:ident($($argument:ident: $type:ty),*))*) => {
        $(fn $method<V: Visitor<'de>>(self, $($argument: $type,)* visitor: V) -> Result<V::Value, D::Error> {
            self.0.$method($($argument,)* $wrapper(visitor))
        })*
    };
}

impl<'de, D: Deserializer<'de>> Deserializer<'de> for Objects<D> {
    type Error = D::Error;

    deserialize! {
        Objects: deserialize_any() deserialize_bool() deserialize_f32() deserialize_f64() deserialize_char() deserialize_str() deserialize_string()
        deserialize_bytes() deserialize_byte_buf() deserialize_option() deserialize_unit()
        deserialize_unit_struct(name: &'static str) deserialize_newtype_struct(name: &'static str)
        deserialize_seq() deserialize_tuple(length: usize)
        deserialize_tuple_struct(name: &'static str, length: usize)
        deserialize_map() deserialize_enum(name: &'static str, variants: &'static [&'static str])
        deserialize_identifier() deserialize_ignored_any()
    }

    deserialize! {
        IntegerVisitor: deserialize_i8() deserialize_i16() deserialize_i32() deserialize_i64() deserialize_i128()
        deserialize_u8() deserialize_u16() deserialize_u32() deserialize_u64() deserialize_u128()
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, D::Error> {
        self.0.deserialize_map(Objects(visitor))
    }
}

macro_rules! visit {
    ($($method:ident($type:ty))*) => {
        $(fn $method<E: Error>(self, value: $type) -> Result<V::Value, E> {
            self.0.$method(value)
        })*
    };
}

impl<'de, V: Visitor<'de>> Visitor<'de> for Objects<V> {
    type Value = V::Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.expecting(f)
    }

    visit! {
        visit_bool(bool) visit_i64(i64) visit_i128(i128) visit_u64(u64) visit_u128(u128) visit_f64(f64)
        visit_str(&str) visit_borrowed_str(&'de str) visit_string(String) visit_bytes(&[u8])
    }

    fn visit_none<E: Error>(self) -> Result<V::Value, E> {
        self.0.visit_none()
    }

    fn visit_unit<E: Error>(self) -> Result<V::Value, E> {
        self.0.visit_unit()
    }

    fn visit_some<D: Deserializer<'de>>(self, value: D) -> Result<V::Value, D::Error> {
        self.0.visit_some(Objects(value))
    }

    fn visit_newtype_struct<D: Deserializer<'de>>(self, value: D) -> Result<V::Value, D::Error> {
        self.0.visit_newtype_struct(Objects(value))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, values: A) -> Result<V::Value, A::Error> {
        self.0.visit_seq(Objects(values))
    }

    fn visit_map<A: MapAccess<'de>>(self, values: A) -> Result<V::Value, A::Error> {
        self.0.visit_map(Objects(values))
    }

    /// Enums in requests have unit variants only, so no struct can be inside.
    fn visit_enum<A: EnumAccess<'de>>(self, variant: A) -> Result<V::Value, A::Error> {
        self.0.visit_enum(variant)
    }
}

/// Accepts an integer, also in the form 15000.0, which is an integer in JSON Schema. serde_json only calls it with
/// numbers.
struct IntegerVisitor<V>(V);

impl<'de, V: Visitor<'de>> Visitor<'de> for IntegerVisitor<V> {
    type Value = V::Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.expecting(f)
    }

    visit! { visit_i64(i64) visit_i128(i128) visit_u64(u64) visit_u128(u128) }

    fn visit_f64<E: Error>(self, value: f64) -> Result<V::Value, E> {
        // From 2^63 on, the conversion is inexact.
        if value.fract() == 0.0 && value.abs() < 9_223_372_036_854_775_808.0 {
            return self.0.visit_i64(value as i64);
        }
        self.0.visit_f64(value)
    }
}

impl<'de, S: DeserializeSeed<'de>> DeserializeSeed<'de> for Objects<S> {
    type Value = S::Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<S::Value, D::Error> {
        self.0.deserialize(Objects(deserializer))
    }
}

impl<'de, A: SeqAccess<'de>> SeqAccess<'de> for Objects<A> {
    type Error = A::Error;

    fn next_element_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<Option<S::Value>, A::Error> {
        self.0.next_element_seed(Objects(seed))
    }
}

impl<'de, A: MapAccess<'de>> MapAccess<'de> for Objects<A> {
    type Error = A::Error;

    fn next_key_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<Option<S::Value>, A::Error> {
        self.0.next_key_seed(Objects(seed))
    }

    fn next_value_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<S::Value, A::Error> {
        self.0.next_value_seed(Objects(seed))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use serde::Deserialize;
    use serde_json::value::RawValue;

    use super::*;

    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields, expecting = "an object")]
    struct Outer<'a> {
        #[serde(borrow)]
        raw: Option<&'a RawValue>,
        boxed: Option<Box<RawValue>>,
        #[serde(default)]
        list: Vec<Inner>,
        one: Option<Box<Inner>>,
        #[serde(default)]
        named: HashMap<String, Inner>,
        value: Option<serde_json::Value>,
    }

    #[derive(Debug, Deserialize, PartialEq)]
    struct Inner {
        n: Option<f64>,
    }

    #[test]
    fn a_struct_is_an_object_however_deep_it_stands() {
        for json in [
            "[]",
            "[null]",
            "[[]]",
            r#"[null,null,[],null,{},null]"#,
            r#"{"one":[1]}"#,
            r#"{"list":[[1]]}"#,
            r#"{"list":[{"n":1},[1]]}"#,
            r#"{"named":{"a":[1]}}"#,
            "5",
            "{} {}",
        ] {
            assert!(read::<Outer<'_>>(json.as_bytes()).is_err(), "{json}");
        }
        let error = read::<Outer<'_>>(b"[null]").unwrap_err().to_string();
        assert!(error.contains("invalid type: sequence, expected an object"), "{error}");
    }

    #[test]
    fn a_number_without_a_fraction_is_an_integer_however_it_is_written() {
        #[derive(Debug, Deserialize, PartialEq)]
        struct Limits {
            small: u32,
            signed: i64,
            list: Vec<Option<u64>>,
        }
        let read = |json: &str| read::<Limits>(json.as_bytes());
        let expected = Limits { small: 15000, signed: -2, list: vec![Some(1_000_000), None, Some(u64::MAX)] };
        let limits = r#"{"small": 15000.0, "signed": -2.0, "list": [1e6, null, 18446744073709551615]}"#;
        assert_eq!(read(limits).unwrap(), expected);
        for wrong in ["0.5", "-1.0", "4294967296.0", "1e300", "true", "\"1\"", "[1]", "null"] {
            let json = format!(r#"{{"small": {wrong}, "signed": 0, "list": []}}"#);
            assert!(read(&json).is_err(), "{json}");
        }
    }

    #[test]
    fn everything_else_is_read_as_ever() {
        let json = r#"{"raw": [1, 1.50], "boxed": {"b" : 1}, "list": [{"n": 1}, {}], "one": {"n": 2e3}, "named": {"a": {}},
                       "value": [1, {"x": [12345678901234567890, null, true, "\u00e9"]}]}"#;
        let outer: Outer<'_> = read(json.as_bytes()).unwrap();
        assert_eq!((outer.raw.unwrap().get(), outer.boxed.unwrap().get()), ("[1, 1.50]", r#"{"b" : 1}"#));
        assert_eq!((outer.list.len(), outer.one.unwrap().n, outer.named.len()), (2, Some(2000.0), 1));
        assert_eq!(
            outer.value.unwrap(),
            serde_json::json!([1, {"x": [12_345_678_901_234_567_890_u64, null, true, "é"]}])
        );
        assert!(read::<Outer<'_>>(br#"{"unknown": 1}"#).is_err());
    }
}
