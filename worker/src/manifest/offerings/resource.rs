//! Resources, which have a URI. A URI with placeholders, `{name}`, makes a resource template (RFC 6570, level 1).

use openskill_proto::uri_template::Template;
use serde::Deserialize;
use serde_json::{Value, json};
use url::Url;

use super::body::{Body, FieldFault, media_type_of};
use super::prompt::{Argument, check_arguments};

/// A resource, or a resource template.
#[derive(Debug, Clone, PartialEq)]
pub struct Resource {
    /// The URI. Contains placeholders if this is a template.
    pub uri: String,
    /// The name for programs.
    pub name: String,
    /// The display name. May be empty.
    pub title: String,
    /// A description for models and people.
    pub description: String,
    /// The content's media type. May be empty.
    pub media_type: String,
    /// The content. A template's text has the same placeholders as its URI.
    pub body: Body,
    /// The variables of a template, one per placeholder. Empty for a resource.
    pub variables: Vec<Argument>,
}

/// The resource as the manifest contains it.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RawResource {
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
    /// Returns whether this is a resource template.
    pub(crate) fn is_template(&self) -> bool {
        !self.variables.is_empty()
    }

    /// Returns the definition in MCP's format.
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

pub(super) fn resolve(raw: RawResource) -> Result<Resource, FieldFault> {
    let RawResource { uri, name, title, description, media_type, text, file, variables } = raw;
    let fault = |reason: String| Err(("resources", format!("'{uri}': {reason}")));
    let Some(template) = Template::parse(&uri).filter(|it| it.is_simple()) else {
        return fault("URI placeholders must be {name}, where the name is [A-Za-z0-9_]{1,64}".to_owned());
    };
    let scheme = Url::parse(&uri).map(|it| it.scheme().to_owned()).unwrap_or_default();
    if scheme.is_empty() || scheme == "openskill" || uri.len() > 2048 {
        return fault("it must be a URI of at most 2048 bytes with a scheme other than openskill:".to_owned());
    }
    let body = match (text, file) {
        (Some(text), None) => Body::Text(text),
        (None, Some(file)) => Body::from_file("resources", &file)?,
        _ => return fault("set either text or file".to_owned()),
    };
    check_arguments("resources", &variables)?;
    let places: Vec<_> = template.names().collect();
    if let Some(stranger) = variables.iter().find(|it| !places.contains(&it.name.as_str())) {
        return fault(format!("the variable '{}' is not a placeholder in the URI", stranger.name));
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
    // People can't use a list of nameless resources.
    let name = if name.is_empty() { uri.clone() } else { name };
    Ok(Resource { uri, name, title, description, media_type, body, variables })
}
