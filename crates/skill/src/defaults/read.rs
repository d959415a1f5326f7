//! Reads the defaults of a schema.

use std::collections::HashMap;

use jsonschema::Validator;
use serde_json::{Map, Value};

use super::places::{DeclaredProperty, Defaults, SchemaPlace};
use crate::schema::{Id, children, id, join, lookup};

/// The maximum number of places of a schema that are examined. Parameters beyond it get no default.
pub(super) const MAX_PLACES: usize = 1000;

/// The maximum number of schemas that apply to one place. A place with more gets no defaults.
const MAX_AT_ONE_PLACE: usize = 64;

/// The maximum number of errors that are examined to find unfit defaults.
const MAX_ERRORS: usize = 1000;

/// The maximum length of a reason, which quotes the default.
const MAX_REASON_CHARS: usize = 200;

/// A default that its own schema refuses. It is never filled in.
#[derive(Debug, Clone, PartialEq)]
pub struct UnfitDefault {
    /// The parameter's name.
    pub name: String,
    /// The default.
    pub value: Value,
    /// Why its schema refuses it.
    pub reason: String,
}

impl Defaults {
    /// Reads the defaults of a schema of draft 2020-12. `validator` is compiled from it. None if there are none.
    /// Returns those that can't be used as well.
    pub fn from_schema(schema: &Value, validator: &Validator) -> (Option<Self>, Vec<UnfitDefault>) {
        let mut reader = PlaceReader { root: schema, places: Vec::new(), by_schemas: HashMap::new() };
        reader.read();
        let mut unfit = Vec::new();
        let mut places: Vec<SchemaPlace> = Vec::with_capacity(reader.places.len());
        for index in 0..reader.places.len() {
            let mut place = std::mem::take(&mut reader.places[index].place);
            reader.take_unfit(index, &mut place, validator, &mut unfit);
            places.push(place);
        }
        let mut defaults = Self { places };
        defaults.mark();
        defaults.drop_endless();
        defaults.mark();
        let has_any = defaults.places.first().is_some_and(|place| place.leads_to_default);
        (has_any.then_some(defaults), unfit)
    }

    /// Drops defaults that are completed without end, because they contain themselves.
    fn drop_endless(&mut self) {
        for index in 0..self.places.len() {
            for at in 0..self.places[index].properties.len() {
                let property = &self.places[index].properties[at];
                if property.default.as_deref().is_some_and(|text| self.grows_endlessly(text, property.place)) {
                    self.places[index].properties[at].default = None;
                }
            }
        }
    }
}

/// The way from one place to the next.
#[derive(Clone)]
enum PathStep {
    Property(String),
    Item,
}

/// A place that is being read.
struct OpenPlace<'a> {
    schemas: Vec<&'a Map<String, Value>>,
    place: SchemaPlace,
    /// The way to it. None for the arguments themselves.
    way: Option<(usize, PathStep)>,
    /// The defaults of its optional properties.
    defaults: Map<String, Value>,
}

/// Reads the places of a schema, each once.
struct PlaceReader<'a> {
    root: &'a Value,
    places: Vec<OpenPlace<'a>>,
    by_schemas: HashMap<Vec<Id>, usize>,
}

impl<'a> PlaceReader<'a> {
    fn read(&mut self) {
        self.enter(vec![self.root], None);
        let mut index = 0;
        while index < self.places.len() {
            self.read_place(index);
            index += 1;
        }
    }

    /// Returns the place to which these schemas apply. None if it can have no defaults.
    fn enter(&mut self, schemas: Vec<&'a Value>, way: Option<(usize, PathStep)>) -> Option<usize> {
        let all = self.applying(schemas)?;
        let key: Vec<Id> = all.iter().map(|it| id(it)).collect();
        if let Some(known) = self.by_schemas.get(&key) {
            return Some(*known);
        }
        let schemas: Vec<_> = all.into_iter().filter_map(Value::as_object).collect();
        let leads_on = ["properties", "items", "additionalProperties"];
        if self.places.len() >= MAX_PLACES || !schemas.iter().any(|it| leads_on.iter().any(|key| it.contains_key(*key)))
        {
            return None;
        }
        self.places.push(OpenPlace { schemas, place: SchemaPlace::default(), way, defaults: Map::new() });
        self.by_schemas.insert(key, self.places.len() - 1);
        Some(self.places.len() - 1)
    }

    /// Adds the schemas to which these refer and those of their `allOf`. None if they are too many.
    fn applying(&self, schemas: Vec<&'a Value>) -> Option<Vec<&'a Value>> {
        let mut all: Vec<&Value> = Vec::new();
        let mut open = schemas;
        open.reverse();
        while let Some(schema) = open.pop() {
            if all.iter().any(|it| std::ptr::eq(*it, schema)) {
                continue;
            }
            if all.len() >= MAX_AT_ONE_PLACE {
                return None;
            }
            all.push(schema);
            let Some(object) = schema.as_object() else { continue };
            open.extend(children(object, "allOf").into_iter().rev());
            open.extend(object.get("$ref").and_then(Value::as_str).and_then(|it| lookup(self.root, it)));
        }
        Some(all)
    }

    fn read_place(&mut self, index: usize) {
        let schemas = self.places[index].schemas.clone();
        let mut named: Vec<(&str, Vec<&Value>)> = Vec::new();
        let mut by_name = HashMap::new();
        for (name, schema) in schemas.iter().filter_map(|it| it.get("properties")?.as_object()).flatten() {
            let at = *by_name.entry(name.clone()).or_insert_with(|| {
                named.push((name, Vec::new()));
                named.len() - 1
            });
            named[at].1.push(schema);
        }
        let mut place = SchemaPlace { by_name, ..SchemaPlace::default() };
        for (name, own) in named {
            let is_required = |it: &&Map<String, Value>| {
                it.get("required").and_then(Value::as_array).is_some_and(|names| names.iter().any(|it| it == name))
            };
            // Generated schemas write `default: null` for parameters that have no default.
            let default = self.own_default(&own).filter(|it| !it.is_null() && !schemas.iter().any(is_required));
            if let Some(default) = default {
                self.places[index].defaults.insert(name.to_owned(), default.clone());
            }
            let inner = self.enter(own, Some((index, PathStep::Property(name.to_owned()))));
            place.properties.push(DeclaredProperty {
                name: name.to_owned(),
                default: default.map(Value::to_string),
                place: inner,
            });
        }
        let all = |keyword: &str| schemas.iter().filter_map(|it| it.get(keyword)).collect::<Vec<_>>();
        let (items, others) = (all("items"), all("additionalProperties"));
        // Which schema applies depends on the position, or on the name.
        if !items.is_empty() && all("prefixItems").is_empty() {
            place.items = self.enter(items, Some((index, PathStep::Item)));
        }
        if !others.is_empty() && all("patternProperties").is_empty() {
            place.others = self.enter(others, Some((index, PathStep::Property(unused_name(&place)))));
        }
        self.places[index].place = place;
    }

    /// Returns the default of a property: the one beside a `$ref`, or else that of the schemas behind it. None if
    /// there are several.
    fn own_default(&self, own: &[&'a Value]) -> Option<&'a Value> {
        let only = |schemas: &[&'a Value]| {
            let mut found = schemas.iter().filter_map(|it| it.get("default"));
            let first = found.next();
            (first, found.all(|other| Some(other) == first))
        };
        match only(own) {
            (None, _) => match only(&self.applying(own.to_vec())?) {
                (default, true) => default,
                (_, false) => None,
            },
            (default, true) => default,
            (_, false) => None,
        }
    }

    /// Removes the defaults of a place that their schemas refuse: validates them in arguments that have nothing else.
    fn take_unfit(&self, index: usize, place: &mut SchemaPlace, validator: &Validator, unfit: &mut Vec<UnfitDefault>) {
        let defaults = &self.places[index].defaults;
        if defaults.is_empty() {
            return;
        }
        let (mut arguments, mut pointer, mut at) = (Value::Object(defaults.clone()), String::new(), index);
        while let Some((outer, step)) = &self.places[at].way {
            let name = match step {
                PathStep::Property(name) => {
                    arguments = Value::Object(Map::from_iter([(name.clone(), arguments)]));
                    name.as_str()
                }
                PathStep::Item => {
                    arguments = Value::Array(vec![arguments]);
                    "0"
                }
            };
            pointer = join("", name) + &pointer;
            at = *outer;
        }
        for error in validator.iter_errors(&arguments).take(MAX_ERRORS) {
            let path = error.instance_path().as_str();
            let is_refused = |property: &&mut DeclaredProperty| {
                let own = join(&pointer, &property.name);
                let rest = path.strip_prefix(own.as_str());
                property.default.is_some() && rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
            };
            if let Some(property) = place.properties.iter_mut().find(is_refused) {
                property.default = None;
                let (name, value) = (property.name.clone(), defaults.get(&property.name).cloned().unwrap_or_default());
                let reason = error.to_string().chars().take(MAX_REASON_CHARS).collect();
                unfit.push(UnfitDefault { name, value, reason });
            }
        }
    }
}

/// Returns a name that is not one of the declared properties.
fn unused_name(place: &SchemaPlace) -> String {
    let mut name = "x".to_owned();
    while place.by_name.contains_key(&name) {
        name.push('x');
    }
    name
}
