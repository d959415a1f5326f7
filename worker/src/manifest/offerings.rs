//! The prompts and resources that a manifest declares for MCP clients, as inline texts or as files next to the
//! manifest, with `{name}` as placeholders.
//!
//! A resource has a URI. A URI with placeholders makes a resource template (RFC 6570, level 1).

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use openskill_proto::uri_template::Template;
use serde::Deserialize;
use serde_json::{Value, json};
use url::Url;

use super::checks::{ManifestFault, folder_of, is_beneath, refuse, unique};

/// The maximum number of prompts and resources in a manifest.
const MAX_ITEMS: usize = 256;

/// The maximum number of a prompt's arguments and messages, and of an argument's suggested values.
const MAX_PARTS: usize = 64;
const MAX_VALUES: usize = 1000;

/// The media types of files by extension, one pair a line.
const MEDIA_TYPES: &str = include_str!("offerings/media_types.txt");

/// The prompts and resources that a manifest declares.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct McpOfferings {
    /// The prompts, in the manifest's order.
    pub prompts: Vec<Prompt>,
    /// The declared resources and resource templates.
    pub resources: Vec<Resource>,
    /// The manifest's folder, to which file paths are relative.
    pub folder: PathBuf,
}

/// A prompt that MCP clients can use.
#[derive(Debug, Clone, PartialEq)]
pub struct Prompt {
    /// The name, which is unique on this worker.
    pub name: String,
    /// The display name. May be empty.
    pub title: String,
    /// The purpose of the prompt.
    pub description: String,
    /// The arguments that its messages use.
    pub arguments: Vec<Argument>,
    /// The messages, at least one.
    pub messages: Vec<Message>,
}

/// An argument of a prompt, or a variable of a resource template.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Argument {
    /// `[A-Za-z0-9_]{1,64}`
    pub name: String,
    /// A description for the person who enters the value.
    pub description: String,
    /// Whether a value is required.
    pub required: bool,
    /// The values that clients may suggest.
    pub values: Vec<String>,
}

/// A message of a prompt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Message {
    /// The author of the message.
    pub role: Role,
    /// The kind of content in the message.
    pub kind: Kind,
    /// The content, which may contain placeholders.
    pub body: Body,
    /// The content's media type. Empty for text.
    pub media_type: String,
}

/// The author of a message.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// Written by the user.
    #[default]
    User,
    /// Written by the model.
    Assistant,
}

/// The kind of content in a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Kind {
    /// Text, which may contain placeholders.
    Text,
    /// An image in a file.
    Image,
    /// Audio in a file.
    Audio,
    /// An embedded resource with this URI, which may contain placeholders.
    Resource(String),
}

/// The prompt as the manifest contains it.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct RawPrompt {
    name: String,
    title: String,
    description: String,
    arguments: Vec<Argument>,
    messages: Vec<RawMessage>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct RawMessage {
    role: Role,
    text: Option<String>,
    file: Option<String>,
    image: Option<String>,
    audio: Option<String>,
    resource: Option<String>,
    media_type: String,
}

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
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct RawResource {
    uri: String,
    name: String,
    title: String,
    description: String,
    media_type: String,
    text: Option<String>,
    file: Option<String>,
    variables: Vec<Argument>,
}

/// The source of a prompt's or resource's content.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Body {
    /// Inline text.
    Text(String),
    /// A file, relative to the manifest's folder and below it.
    File(PathBuf),
}

/// Values for placeholders, by name.
pub(crate) type Values = BTreeMap<String, String>;

impl McpOfferings {
    /// Returns whether the manifest declares none.
    pub fn is_empty(&self) -> bool {
        self.prompts.is_empty() && self.resources.is_empty()
    }

    /// Returns the files that they refer to. The paths are absolute if the manifest's path is.
    pub(crate) fn files(&self) -> Vec<PathBuf> {
        let of_prompts = self.prompts.iter().flat_map(|it| &it.messages).filter_map(|it| it.body.file());
        let of_resources = self.resources.iter().filter_map(|it| it.body.file());
        of_prompts.chain(of_resources).map(|file| self.folder.join(file)).collect()
    }

    /// Returns their approximate size in a worker's state, in bytes.
    pub(super) fn size(&self) -> usize {
        self.prompts.iter().map(Prompt::size).sum::<usize>() + self.resources.iter().map(Resource::size).sum::<usize>()
    }
}

impl Prompt {
    /// Returns the definition in MCP's format.
    pub(crate) fn definition(&self) -> Value {
        let argument = |it: &Argument| {
            let mut json = json!({ "name": it.name, "required": it.required });
            if !it.description.is_empty() {
                json["description"] = it.description.as_str().into();
            }
            json
        };
        let arguments: Vec<_> = self.arguments.iter().map(argument).collect();
        let mut json = json!({ "name": self.name, "description": self.description });
        if !self.title.is_empty() {
            json["title"] = self.title.as_str().into();
        }
        if !arguments.is_empty() {
            json["arguments"] = arguments.into();
        }
        json
    }

    fn size(&self) -> usize {
        let arguments: usize = self.arguments.iter().map(|it| it.name.len() + it.description.len() + 64).sum();
        128 + self.name.len() + self.title.len() + self.description.len() + arguments
    }
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

    fn size(&self) -> usize {
        let texts = [&self.uri, &self.name, &self.title, &self.description, &self.media_type];
        256 + texts.iter().map(|it| it.len()).sum::<usize>()
    }
}

impl Body {
    /// Returns the file's path, unless the content is inline.
    pub(crate) fn file(&self) -> Option<&Path> {
        match self {
            Self::Text(_) => None,
            Self::File(file) => Some(file),
        }
    }

    fn from_file(field: &str, file: &str) -> Result<Self, ManifestFault> {
        let path = Path::new(file);
        if file.is_empty() || !is_beneath(path) {
            let reason = format!("'{file}' must be a file in the manifest's folder or below it, without '..'");
            return refuse(field, reason);
        }
        Ok(Self::File(path.to_owned()))
    }
}

/// Validates the prompts and resources. `file`: the manifest's path.
pub(super) fn resolve(
    prompts: Vec<RawPrompt>,
    resources: Vec<RawResource>,
    file: &Path,
) -> Result<McpOfferings, ManifestFault> {
    for (field, count) in [("prompts", prompts.len()), ("resources", resources.len())] {
        if count > MAX_ITEMS {
            return refuse(field, format!("a manifest can declare at most {MAX_ITEMS} items"));
        }
    }
    let offerings = McpOfferings {
        prompts: prompts.into_iter().map(RawPrompt::resolve).collect::<Result<_, _>>()?,
        resources: resources.into_iter().map(RawResource::resolve).collect::<Result<_, _>>()?,
        folder: folder_of(file).to_owned(),
    };
    unique("prompts", offerings.prompts.iter().map(|it| it.name.as_str()))?;
    unique("resources", offerings.resources.iter().map(|it| it.uri.as_str()))?;
    Ok(offerings)
}

impl RawPrompt {
    fn resolve(self) -> Result<Prompt, ManifestFault> {
        let Self { name, title, description, arguments, messages } = self;
        if name.is_empty() || name.len() > 128 || name.chars().any(char::is_control) {
            return refuse("prompts", format!("'{name}': a name must have 1 to 128 bytes on one line"));
        }
        check_arguments("prompts", &arguments)?;
        if messages.is_empty() || messages.len() > MAX_PARTS {
            return refuse("prompts", format!("'{name}': a prompt must have 1 to {MAX_PARTS} messages"));
        }
        let messages = messages.into_iter().map(RawMessage::resolve).collect::<Result<_, _>>()?;
        Ok(Prompt { name, title, description, arguments, messages })
    }
}

impl RawMessage {
    fn resolve(self) -> Result<Message, ManifestFault> {
        let Self { role, text, file, image, audio, resource, media_type } = self;
        let (kind, body) = match (text, file, image, audio, resource) {
            (Some(text), None, None, None, None) => (Kind::Text, Body::Text(text)),
            (None, Some(file), None, None, None) => (Kind::Text, Body::from_file("prompts", &file)?),
            (None, None, Some(image), None, None) => (Kind::Image, Body::from_file("prompts", &image)?),
            (None, None, None, Some(audio), None) => (Kind::Audio, Body::from_file("prompts", &audio)?),
            (Some(text), None, None, None, Some(uri)) => (Kind::Resource(uri), Body::Text(text)),
            (None, Some(file), None, None, Some(uri)) => (Kind::Resource(uri), Body::from_file("prompts", &file)?),
            _ => {
                let reason = "a message must have one of text, file, image, audio, or resource with a text or a file";
                return refuse("prompts", reason);
            }
        };
        let guessed = body.file().map_or("", media_type_of);
        let media_type = match (&kind, media_type.as_str()) {
            (Kind::Text, _) => String::new(),
            (Kind::Resource(_), "") if guessed.is_empty() => "text/plain".to_owned(),
            (_, "") => guessed.to_owned(),
            (_, _) => media_type,
        };
        let fits = match kind {
            Kind::Image => media_type.starts_with("image/"),
            Kind::Audio => media_type.starts_with("audio/"),
            Kind::Text | Kind::Resource(_) => true,
        };
        if !fits {
            let reason = format!("'{media_type}' is not the media type of a picture or a sound: set media_type");
            return refuse("prompts", reason);
        }
        Ok(Message { role, kind, body, media_type })
    }
}

impl RawResource {
    fn resolve(self) -> Result<Resource, ManifestFault> {
        let Self { uri, name, title, description, media_type, text, file, variables } = self;
        let fault = |reason: &str| refuse("resources", format!("'{uri}': {reason}"));
        let Some(template) = Template::parse(&uri).filter(|it| it.is_simple()) else {
            return fault("URI placeholders must be {name}, where the name is [A-Za-z0-9_]{1,64}");
        };
        let scheme = Url::parse(&uri).map(|it| it.scheme().to_owned()).unwrap_or_default();
        if scheme.is_empty() || scheme == "openskill" || uri.len() > 2048 {
            return fault("it must be a URI of at most 2048 bytes with a scheme other than openskill:");
        }
        let body = match (text, file) {
            (Some(text), None) => Body::Text(text),
            (None, Some(file)) => Body::from_file("resources", &file)?,
            _ => return fault("set either text or file"),
        };
        check_arguments("resources", &variables)?;
        let places: Vec<_> = template.names().collect();
        if let Some(stranger) = variables.iter().find(|it| !places.contains(&it.name.as_str())) {
            return fault(&format!("the variable '{}' is not a placeholder in the URI", stranger.name));
        }
        let variables = places.into_iter().map(|place| {
            let described = variables.iter().find(|it| it.name == place).cloned();
            described.unwrap_or_else(|| Argument { name: place.to_owned(), required: true, ..Argument::default() })
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
}

/// Validates the arguments of a prompt, or the variables of a resource template.
fn check_arguments(field: &str, arguments: &[Argument]) -> Result<(), ManifestFault> {
    if arguments.len() > MAX_PARTS || arguments.iter().any(|it| it.values.len() > MAX_VALUES) {
        return refuse(field, format!("must have at most {MAX_PARTS} arguments with {MAX_VALUES} values each"));
    }
    match arguments.iter().find(|it| !is_name(&it.name)) {
        Some(argument) => {
            refuse(field, format!("'{}' is not a valid argument name: use [A-Za-z0-9_]{{1,64}}", argument.name))
        }
        None => unique(field, arguments.iter().map(|it| it.name.as_str())),
    }
}

/// Replaces placeholders with values. A name in braces without a value stays unchanged. In JSON, values are
/// escaped for use inside a string. Returns `None` if the result would exceed `most` bytes, which is possible
/// because a text may repeat a placeholder many times.
pub(crate) fn fill(text: &str, values: &Values, is_json: bool, most: usize) -> Option<String> {
    if values.is_empty() {
        return Some(text.to_owned()).filter(|it| it.len() <= most);
    }
    let (mut filled, mut rest) = (String::with_capacity(text.len()), text);
    while let Some((before, after)) = rest.split_once('{') {
        filled.push_str(before);
        match after.split_once('}').and_then(|(name, after)| Some((values.get(name)?, after))) {
            Some((value, after)) => {
                let value = if is_json { escape(value) } else { value.clone() };
                if filled.len() + value.len() > most {
                    return None;
                }
                filled.push_str(&value);
                rest = after;
            }
            None => {
                filled.push('{');
                rest = after;
            }
        }
    }
    filled.push_str(rest);
    Some(filled).filter(|it| it.len() <= most)
}

fn escape(value: &str) -> String {
    let quoted = Value::from(value).to_string();
    quoted.strip_prefix('"').and_then(|it| it.strip_suffix('"')).unwrap_or_default().to_owned()
}

/// Returns whether this is a valid name of a placeholder or argument.
fn is_name(name: &str) -> bool {
    (1..=64).contains(&name.len()) && name.bytes().all(|it| it.is_ascii_alphanumeric() || it == b'_')
}

/// Returns whether content with this media type is JSON.
pub(crate) fn is_json(media_type: &str) -> bool {
    let essence = media_type.split(';').next().unwrap_or_default().trim();
    essence == "application/json" || essence.ends_with("+json")
}

/// Returns a file's media type according to its extension, or an empty string if that is unknown.
fn media_type_of(file: &Path) -> &'static str {
    let extension = file.extension().and_then(|it| it.to_str()).unwrap_or_default().to_ascii_lowercase();
    let mut known = MEDIA_TYPES.lines().filter_map(|line| line.split_once(' '));
    known.find(|(it, _)| *it == extension).map_or("", |(_, media_type)| media_type)
}

#[cfg(test)]
mod tests;
