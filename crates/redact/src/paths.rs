//! Parameters that a manifest marks as secret, by JSON pointer.

use std::collections::BTreeMap;

/// Places in a JSON document whose values are secret. Cheap to look up; build it once for each skill.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SecretPaths {
    root: Node,
}

/// A place, and those below it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Node {
    pub(crate) is_secret: bool,
    children: BTreeMap<String, Self>,
}

impl SecretPaths {
    /// From JSON pointers (RFC 6901) such as `/auth/key`. The part `*` stands for every element of a list and every
    /// property: `/users/*/password`. Text without a leading slash is the name of a property of the document.
    pub fn new<P: AsRef<str>>(pointers: impl IntoIterator<Item = P>) -> Self {
        let mut paths = Self::default();
        pointers.into_iter().for_each(|pointer| paths.insert(pointer.as_ref()));
        paths
    }

    /// Adds a pointer.
    pub fn insert(&mut self, pointer: &str) {
        let parts = pointer.strip_prefix('/').unwrap_or(pointer).split('/');
        let mut node = &mut self.root;
        for part in parts {
            node = node.children.entry(part.replace("~1", "/").replace("~0", "~")).or_default();
        }
        node.is_secret = true;
    }

    /// Whether nothing is marked.
    pub fn is_empty(&self) -> bool {
        self.root.children.is_empty()
    }

    pub(crate) fn root(&self) -> &Node {
        &self.root
    }

    /// The names of the secret properties, without separators: for text that is no JSON.
    pub(crate) fn names(&self) -> Vec<Vec<u8>> {
        let mut names = Vec::new();
        self.root.names(&mut names);
        names
    }
}

impl<P: AsRef<str>> FromIterator<P> for SecretPaths {
    fn from_iter<I: IntoIterator<Item = P>>(pointers: I) -> Self {
        Self::new(pointers)
    }
}

impl Node {
    /// The place of a property.
    pub(crate) fn property(&self, name: &[u8]) -> Option<&Self> {
        let own = std::str::from_utf8(name).ok().and_then(|name| self.children.get(name));
        own.or_else(|| self.element())
    }

    /// The place of an element of a list.
    pub(crate) fn element(&self) -> Option<&Self> {
        self.children.get("*")
    }

    fn names(&self, names: &mut Vec<Vec<u8>>) {
        for (name, node) in &self.children {
            if node.is_secret && name != "*" {
                names.push(crate::keys::Words::of(name.as_bytes()).joined().to_vec());
            }
            node.names(names);
        }
    }
}
