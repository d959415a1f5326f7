//! The prompts and resources that a manifest declares for MCP clients, as inline texts or as files next to the
//! manifest.
//!
//! - [`prompt`], [`resource`]: the offerings; [`body`]: texts and files, and the placeholders in them

use std::path::{Path, PathBuf};

pub(crate) mod body;
pub(crate) mod prompt;
pub(crate) mod resource;

use body::{FieldFault, unique};
use prompt::Prompt;
use resource::Resource;

/// The maximum number of prompts and resources in a manifest.
const MAX_ITEMS: usize = 256;

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

/// Validates the prompts and resources. `file`: the manifest's path.
pub(super) fn resolve(
    prompts: Vec<prompt::RawPrompt>,
    resources: Vec<resource::RawResource>,
    file: &Path,
) -> Result<McpOfferings, FieldFault> {
    if prompts.len() > MAX_ITEMS || resources.len() > MAX_ITEMS {
        let field = if prompts.len() > MAX_ITEMS { "prompts" } else { "resources" };
        return Err((field, format!("a manifest can declare at most {MAX_ITEMS} items")));
    }
    let offerings = McpOfferings {
        prompts: prompts.into_iter().map(prompt::resolve).collect::<Result<_, _>>()?,
        resources: resources.into_iter().map(resource::resolve).collect::<Result<_, _>>()?,
        folder: file.parent().unwrap_or(Path::new(".")).to_owned(),
    };
    unique("prompts", offerings.prompts.iter().map(|it| it.name.as_str()))?;
    unique("resources", offerings.resources.iter().map(|it| it.uri.as_str()))?;
    Ok(offerings)
}

#[cfg(test)]
mod tests;
