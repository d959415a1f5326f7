//! Resources: contents with a URI. A URI with places, `{name}`, is a template: RFC 6570, level 1.

use openskill_proto::uri_template::Template;
use serde::Deserialize;
use serde_json::{Value, json};
use url::Url;

use super::body::{Body, Fault, media_type_of};
use super::prompt::{Argument, check_arguments};

/// A resource, or a template of resources.
#[derive(Debug, Clone, PartialEq)]
pub struct Resource {
    /// Its URI, with places if it is a template.
    pub uri: String,
    /// Its name for programs.
    pub name: String,
    /// Its name for people. May be empty.
    pub title: String,
    /// What it is.
    pub description: String,
    /// Its media type. May be empty.
    pub media_type: String,
    /// Its content. A text of a template has the same places.
    pub body: Body,
    /// The variables of a template: all its places. Empty for a resource.
    pub variables: Vec<Argument>,
}

/// As written.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Raw {
    uri: String,
    #[serde(default)]
    name: String,
    #[serde(default)]
    title: String,
    #[serde(default)]
    description: String,
    #[serde(default)]
    media_type: String,
    text: Option<String>,
    file: Option<String>,
    #[serde(default)]
    variables: Vec<Argument>,
}

impl Resource {
    /// Whether its URI has places.
    pub(crate) fn is_template(&self) -> bool {
        !self.variables.is_empty()
    }

    /// Its definition, as MCP lists it.
    pub(crate) fn definition(&self) -> Value {
        let uri = if self.is_template() { "uriTemplate" } else { "uri" };
        let mut json = json!({ uri: self.uri, "name": self.name, "description": self.description });
        for (field, text) in [("title", &self.title), ("mimeType", &self.media_type)] {
            if !text.is_empty() {
                json[field] = text.as_str().into();
            }
        }
        json
    }

    pub(super) fn size(&self) -> usize {
        let texts = [&self.uri, &self.name, &self.title, &self.description, &self.media_type];
        256 + texts.iter().map(|it| it.len()).sum::<usize>()
    }
}

pub(super) fn resolve(raw: Raw) -> Result<Resource, Fault> {
    let Raw { uri, name, title, description, media_type, text, file, variables } = raw;
    let fault = |reason: String| Err(("resources", format!("'{uri}': {reason}")));
    let Some(template) = Template::parse(&uri).filter(|it| it.is_simple()) else {
        return fault("places in a URI are {name}, with [A-Za-z0-9_]{1,64}".to_owned());
    };
    let scheme = Url::parse(&uri).map(|it| it.scheme().to_owned()).unwrap_or_default();
    if scheme.is_empty() || scheme == "openskill" || uri.len() > 2048 {
        return fault("it must be a URI of at most 2048 bytes with a scheme, which is not openskill:".to_owned());
    }
    let body = match (text, file) {
        (Some(text), None) => Body::Text(text),
        (None, Some(file)) => Body::of_file("resources", &file)?,
        _ => return fault("give its text or its file".to_owned()),
    };
    check_arguments("resources", &variables)?;
    let places: Vec<_> = template.names().collect();
    if let Some(stranger) = variables.iter().find(|it| !places.contains(&it.name.as_str())) {
        return fault(format!("the variable '{}' has no place in it", stranger.name));
    }
    let variables = places.into_iter().map(|place| {
        let described = variables.iter().find(|it| it.name == place).cloned();
        described.unwrap_or_else(|| Argument {
            name: place.to_owned(),
            description: String::new(),
            required: true,
            values: Vec::new(),
        })
    });
    let variables = variables.collect();
    let media_type = match media_type.as_str() {
        "" => body.file().map_or("text/plain", media_type_of).to_owned(),
        _ => media_type,
    };
    // A list of resources without names is of no use to people.
    let name = if name.is_empty() { uri.clone() } else { name };
    Ok(Resource { uri, name, title, description, media_type, body, variables })
}
