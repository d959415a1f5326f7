//! The variables that manifests and installers may use: those of the worker's process, and those of its project.

use std::collections::HashMap;
use std::sync::Arc;

/// Variables by name. A variable of the process takes precedence over one of the project, unless it is empty. Values
/// may be secrets, and are never shown. Cheap to clone.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Variables {
    project: Arc<HashMap<String, String>>,
}

impl Variables {
    /// `project`: the variables of the project, such as those of its `.env`.
    #[must_use]
    pub fn new(project: HashMap<String, String>) -> Self {
        Self { project: Arc::new(project) }
    }

    /// Returns a variable's value. `None` if it is not set, or is not UTF-8.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<String> {
        self.choose(name, std::env::var(name).ok())
    }

    fn choose(&self, name: &str, process: Option<String>) -> Option<String> {
        match process {
            Some(value) if !value.is_empty() => Some(value),
            empty => self.project.get(name).cloned().or(empty),
        }
    }

    /// Returns all variables that are UTF-8.
    pub(crate) fn all(&self) -> impl Iterator<Item = (String, String)> {
        let process: HashMap<_, _> = std::env::vars_os()
            .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
            .collect();
        let names: Vec<_> = process.keys().chain(self.project.keys()).cloned().collect();
        let value = move |name: String| Some((name.clone(), self.choose(&name, process.get(&name).cloned())?));
        names.into_iter().filter_map(value)
    }
}

impl std::fmt::Debug for Variables {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Variables").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_variable_of_the_process_precedes_that_of_the_project_unless_it_is_empty() {
        let variables = Variables::new(["A", "PATH"].map(|it| (it.to_owned(), "project".to_owned())).into());
        assert_eq!(variables.get("A").as_deref(), Some("project"));
        assert_ne!(variables.get("PATH").as_deref(), Some("project"));
        assert_eq!(variables.choose("A", Some(String::new())).as_deref(), Some("project"));
        assert_eq!(variables.choose("B", Some(String::new())).as_deref(), Some(""));
        assert_eq!(variables.get("OPENSKILL_TEST_UNSET"), None);
        assert!(variables.all().any(|(name, value)| name == "A" && value == "project"));
        assert!(!format!("{variables:?}").contains("project"));
    }
}
