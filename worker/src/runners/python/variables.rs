//! Sets additional environment variables for Python scripts.

use std::collections::BTreeMap;
use std::path::Path;

use crate::environment::path_text;

/// Variables that limit the threads of numeric libraries, one per library. Libraries start threads at import and
/// lose them in a fork, so each call would have to import the library again. One thread is enough, because a
/// worker runs many calls concurrently.
const THREADS: [&str; 6] = [
    "OPENBLAS_NUM_THREADS",
    "OMP_NUM_THREADS",
    "MKL_NUM_THREADS",
    "BLIS_NUM_THREADS",
    "NUMEXPR_NUM_THREADS",
    "VECLIB_MAXIMUM_THREADS",
];

/// Adds the variables. The manifest's variables take precedence. `environment`: the root of the virtual
/// environment, if any.
pub(crate) fn complete(env: &mut BTreeMap<String, String>, environment: Option<&Path>) {
    for name in THREADS {
        env.entry(name.to_owned()).or_insert_with(|| "1".to_owned());
    }
    if let Some(root) = environment {
        let rest = env.get("PATH").cloned().unwrap_or_default();
        env.insert("PATH".to_owned(), format!("{}:{rest}", path_text(&root.join("bin"))));
        env.insert("VIRTUAL_ENV".to_owned(), path_text(root));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_manifest_decides_about_threads_where_it_says_so() {
        let mut env =
            BTreeMap::from([("OMP_NUM_THREADS".to_owned(), "4".to_owned()), ("PATH".to_owned(), "/bin".to_owned())]);
        complete(&mut env, Some(Path::new("/store/key")));
        assert_eq!((env["OMP_NUM_THREADS"].as_str(), env["OPENBLAS_NUM_THREADS"].as_str()), ("4", "1"));
        assert_eq!((env["PATH"].as_str(), env["VIRTUAL_ENV"].as_str()), ("/store/key/bin:/bin", "/store/key"));
    }
}
