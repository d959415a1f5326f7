//! The prompts and resources that a manifest declares for MCP clients: texts in it, or files beside it.
//!
//! - [`prompt`], [`resource`]: what there is; [`body`]: texts and files, and the places in them for arguments

use std::path::{Path, PathBuf};

pub(crate) mod body;
pub(crate) mod prompt;
pub(crate) mod resource;

use body::{Fault, unique};
use prompt::Prompt;
use resource::Resource;

/// How many prompts and resources a manifest may declare.
const MAX_ITEMS: usize = 256;

/// What a manifest declares.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Shelf {
    /// Prompts.
    pub prompts: Vec<Prompt>,
    /// Resources and templates of resources.
    pub resources: Vec<Resource>,
    /// The folder of the manifest, to which its files are relative.
    pub folder: PathBuf,
}

impl Shelf {
    /// Whether it declares nothing.
    pub fn is_empty(&self) -> bool {
        self.prompts.is_empty() && self.resources.is_empty()
    }

    /// The files that it names, absolute if the manifest's path is.
    pub(crate) fn files(&self) -> Vec<PathBuf> {
        let of_prompts = self.prompts.iter().flat_map(|it| &it.messages).filter_map(|it| it.body.file());
        let of_resources = self.resources.iter().filter_map(|it| it.body.file());
        of_prompts.chain(of_resources).map(|file| self.folder.join(file)).collect()
    }

    /// About how much of a worker's state it takes, in bytes.
    pub(super) fn size(&self) -> usize {
        self.prompts.iter().map(Prompt::size).sum::<usize>() + self.resources.iter().map(Resource::size).sum::<usize>()
    }
}

/// Reads what a manifest declares. `file`: the manifest.
pub(super) fn resolve(prompts: Vec<prompt::Raw>, resources: Vec<resource::Raw>, file: &Path) -> Result<Shelf, Fault> {
    if prompts.len() > MAX_ITEMS || resources.len() > MAX_ITEMS {
        let field = if prompts.len() > MAX_ITEMS { "prompts" } else { "resources" };
        return Err((field, format!("a manifest declares at most {MAX_ITEMS} of them")));
    }
    let shelf = Shelf {
        prompts: prompts.into_iter().map(prompt::resolve).collect::<Result<_, _>>()?,
        resources: resources.into_iter().map(resource::resolve).collect::<Result<_, _>>()?,
        folder: file.parent().unwrap_or(Path::new(".")).to_owned(),
    };
    unique("prompts", shelf.prompts.iter().map(|it| it.name.as_str()))?;
    unique("resources", shelf.resources.iter().map(|it| it.uri.as_str()))?;
    Ok(shelf)
}

#[cfg(test)]
mod tests;
