//! What the model reads: messages, results, instructions. Pure.
//!
//! - [`messages`]: the conversation within its window and budget
//! - [`result`]: a result in its envelope, cut along its structure; parts of it
//! - [`prompt`] has the instructions
//! - [`own_tools`]: the agent's own tools, and questions to the user; [`elicitation`]: those that skills ask

mod cut;
pub mod elicitation;
pub mod messages;
pub mod own_tools;
pub mod prompt;
mod raw;
pub mod result;
