//! The model's view of a conversation: messages, results and instructions. Does no I/O.
//!
//! - [`messages`]: the conversation within its window and budget
//! - [`result`]: a result in its envelope, truncated along its structure; parts of it
//! - [`prompt`]: the system prompt
//! - [`builtin_tools`]: the built-in tools, and questions for the user; [`elicitation`]: questions from skills

pub mod builtin_tools;
mod cut;
pub mod elicitation;
pub mod messages;
pub mod prompt;
mod raw;
pub mod result;
