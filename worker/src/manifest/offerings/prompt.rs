//! Prompts, whose messages contain placeholders for arguments.

use serde::Deserialize;
use serde_json::{Value, json};

use super::body::{Body, FieldFault, is_name, media_type_of, unique};

/// The maximum number of a prompt's arguments and messages, and of an argument's suggested values.
const MAX_PARTS: usize = 64;
const MAX_VALUES: usize = 1000;

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
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Argument {
    /// `[A-Za-z0-9_]{1,64}`
    pub name: String,
    /// A description for the person who enters the value.
    #[serde(default)]
    pub description: String,
    /// Whether a value is required.
    #[serde(default)]
    pub required: bool,
    /// The values that clients may suggest.
    #[serde(default)]
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
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RawPrompt {
    name: String,
    #[serde(default)]
    title: String,
    #[serde(default)]
    description: String,
    #[serde(default)]
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

    pub(super) fn size(&self) -> usize {
        let arguments: usize = self.arguments.iter().map(|it| it.name.len() + it.description.len() + 64).sum();
        128 + self.name.len() + self.title.len() + self.description.len() + arguments
    }
}

pub(super) fn resolve(raw: RawPrompt) -> Result<Prompt, FieldFault> {
    let RawPrompt { name, title, description, arguments, messages } = raw;
    let fault = |reason: String| Err(("prompts", format!("'{name}': {reason}")));
    if name.is_empty() || name.len() > 128 || name.chars().any(char::is_control) {
        return fault("a name must have 1 to 128 bytes on one line".to_owned());
    }
    check_arguments("prompts", &arguments)?;
    if messages.is_empty() || messages.len() > MAX_PARTS {
        return fault(format!("a prompt must have 1 to {MAX_PARTS} messages"));
    }
    let messages = messages.into_iter().map(message).collect::<Result<_, _>>()?;
    Ok(Prompt { name, title, description, arguments, messages })
}

/// Validates the arguments of a prompt, or the variables of a resource template.
pub(super) fn check_arguments(field: &'static str, arguments: &[Argument]) -> Result<(), FieldFault> {
    if arguments.len() > MAX_PARTS || arguments.iter().any(|it| it.values.len() > MAX_VALUES) {
        return Err((field, format!("must have at most {MAX_PARTS} arguments with {MAX_VALUES} values each")));
    }
    match arguments.iter().find(|it| !is_name(&it.name)) {
        Some(argument) => {
            Err((field, format!("'{}' is not a valid argument name: use [A-Za-z0-9_]{{1,64}}", argument.name)))
        }
        None => unique(field, arguments.iter().map(|it| it.name.as_str())),
    }
}

fn message(raw: RawMessage) -> Result<Message, FieldFault> {
    let RawMessage { role, text, file, image, audio, resource, media_type } = raw;
    let (kind, body) = match (text, file, image, audio, resource) {
        (Some(text), None, None, None, None) => (Kind::Text, Body::Text(text)),
        (None, Some(file), None, None, None) => (Kind::Text, Body::from_file("prompts", &file)?),
        (None, None, Some(image), None, None) => (Kind::Image, Body::from_file("prompts", &image)?),
        (None, None, None, Some(audio), None) => (Kind::Audio, Body::from_file("prompts", &audio)?),
        (Some(text), None, None, None, Some(uri)) => (Kind::Resource(uri), Body::Text(text)),
        (None, Some(file), None, None, Some(uri)) => (Kind::Resource(uri), Body::from_file("prompts", &file)?),
        _ => {
            let reason = "a message must have one of text, file, image, audio, or resource with a text or a file";
            return Err(("prompts", reason.to_owned()));
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
        return Err((
            "prompts",
            format!("'{media_type}' is not the media type of a picture or a sound: set media_type"),
        ));
    }
    Ok(Message { role, kind, body, media_type })
}
