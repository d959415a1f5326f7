//! The places of a schema, with their defaults.

use std::collections::HashMap;

/// The defaults of a schema's optional parameters.
#[derive(Debug)]
pub struct Defaults {
    /// The first place is the arguments themselves. Schemas that recur share a place.
    pub(super) places: Vec<SchemaPlace>,
}

/// What applies to one place of the arguments, if an object or an array is there.
#[derive(Debug, Default)]
pub(super) struct SchemaPlace {
    /// The declared properties, in order.
    pub(super) properties: Vec<DeclaredProperty>,
    pub(super) by_name: HashMap<String, usize>,
    /// The place of the values of other properties.
    pub(super) others: Option<usize>,
    /// The place of an array's items.
    pub(super) items: Option<usize>,
    /// Whether a default is here or further inside.
    pub(super) leads_to_default: bool,
}

#[derive(Debug)]
pub(super) struct DeclaredProperty {
    pub(super) name: String,
    /// The default as JSON text. None if the property has none, or is required.
    pub(super) default: Option<String>,
    /// The place of its value.
    pub(super) place: Option<usize>,
}

impl Defaults {
    /// Marks the places that lead to a default, so that the rest of a call is skipped.
    pub(super) fn mark(&mut self) {
        self.places.iter_mut().for_each(|place| place.leads_to_default = false);
        let mut has_changed = true;
        while has_changed {
            has_changed = false;
            for index in 0..self.places.len() {
                let place = &self.places[index];
                let leads = |inner: Option<usize>| inner.is_some_and(|it| self.places[it].leads_to_default);
                let has_default = place.properties.iter().any(|it| it.default.is_some() || leads(it.place));
                if !place.leads_to_default && (has_default || leads(place.others) || leads(place.items)) {
                    self.places[index].leads_to_default = true;
                    has_changed = true;
                }
            }
        }
    }
}
