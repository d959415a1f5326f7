//! Prompts: messages with places for arguments.

use serde::Deserialize;
use serde_json::{Value, json};

use super::body::{Body, Fault, is_name, media_type_of, unique};

/// How many arguments and messages a prompt may have, and how many values an argument may suggest.
const MAX_PARTS: usize = 64;
const MAX_VALUES: usize = 1000;

/// A prompt.
#[derive(Debug, Clone, PartialEq)]
pub struct Prompt {
    /// Its name, unique on this worker.
    pub name: String,
    /// Its name for people. May be empty.
    pub title: String,
    /// What it is for.
    pub description: String,
    /// What its messages have places for.
    pub arguments: Vec<Argument>,
    /// At least one.
    pub messages: Vec<Message>,
}

/// An argument of a prompt, or a variable of a template.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Argument {
    /// `[A-Za-z0-9_]{1,64}`
    pub name: String,
    /// What it is. Whoever is asked for it reads this.
    #[serde(default)]
    pub description: String,
    /// Whether it must be given.
    #[serde(default)]
    pub required: bool,
    /// Values that clients may suggest.
    #[serde(default)]
    pub values: Vec<String>,
}

/// A message of a prompt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Message {
    /// Who says it.
    pub role: Role,
    /// What kind of content it is.
    pub kind: Kind,
    /// The content.
    pub body: Body,
    /// Its media type. Empty for text.
    pub media_type: String,
}

/// Who says a message.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// The user.
    #[default]
    User,
    /// The model.
    Assistant,
}

/// What kind of content a message has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Kind {
    /// A text.
    Text,
    /// A picture.
    Image,
    /// A sound.
    Audio,
    /// A resource of this URI, in which there may be places.
    Resource(String),
}

/// As written.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Raw {
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
    /// Its definition, as MCP lists it.
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

pub(super) fn resolve(raw: Raw) -> Result<Prompt, Fault> {
    let Raw { name, title, description, arguments, messages } = raw;
    let fault = |reason: String| Err(("prompts", format!("'{name}': {reason}")));
    if name.is_empty() || name.len() > 128 || name.chars().any(char::is_control) {
        return fault("a name has 1 to 128 bytes on one line".to_owned());
    }
    check_arguments("prompts", &arguments)?;
    if messages.is_empty() || messages.len() > MAX_PARTS {
        return fault(format!("a prompt has 1 to {MAX_PARTS} messages"));
    }
    let messages = messages.into_iter().map(message).collect::<Result<_, _>>()?;
    Ok(Prompt { name, title, description, arguments, messages })
}

/// Checks the arguments of a prompt, or the variables of a template.
pub(super) fn check_arguments(field: &'static str, arguments: &[Argument]) -> Result<(), Fault> {
    if arguments.len() > MAX_PARTS || arguments.iter().any(|it| it.values.len() > MAX_VALUES) {
        return Err((field, format!("at most {MAX_PARTS} arguments with {MAX_VALUES} values each")));
    }
    match arguments.iter().find(|it| !is_name(&it.name)) {
        Some(argument) => {
            Err((field, format!("'{}' is not a valid argument name: use [A-Za-z0-9_]{{1,64}}", argument.name)))
        }
        None => unique(field, arguments.iter().map(|it| it.name.as_str())),
    }
}

fn message(raw: RawMessage) -> Result<Message, Fault> {
    let RawMessage { role, text, file, image, audio, resource, media_type } = raw;
    let (kind, body) = match (text, file, image, audio, resource) {
        (Some(text), None, None, None, None) => (Kind::Text, Body::Text(text)),
        (None, Some(file), None, None, None) => (Kind::Text, Body::of_file("prompts", &file)?),
        (None, None, Some(image), None, None) => (Kind::Image, Body::of_file("prompts", &image)?),
        (None, None, None, Some(audio), None) => (Kind::Audio, Body::of_file("prompts", &audio)?),
        (Some(text), None, None, None, Some(uri)) => (Kind::Resource(uri), Body::Text(text)),
        (None, Some(file), None, None, Some(uri)) => (Kind::Resource(uri), Body::of_file("prompts", &file)?),
        _ => {
            let reason = "a message has one of text, file, image, audio, or resource with a text or a file";
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
