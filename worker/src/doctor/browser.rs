//! Reports which browser the browser tools would use, and whether it would find fonts.

use std::path::Path;

use openskill_builtins::config::browser::Browser;

use super::finding::{Finding, Status, finding};

/// The folders in which systems install fonts.
const FONTS: [&str; 2] = ["/usr/share/fonts", "/usr/local/share/fonts"];

/// The maximum depth of the search for fonts.
const MOST_LEVELS: usize = 5;

/// Checks the browser without starting it.
pub(super) fn look(settings: &Browser) -> Finding {
    let program = match settings.found() {
        Ok(program) => program,
        Err(reason) => return finding("browser", Status::Part, reason),
    };
    let program = program.display();
    match FONTS.iter().map(|it| fonts(Path::new(it), MOST_LEVELS)).sum::<usize>() {
        0 => finding(
            "browser",
            Status::Part,
            format!(
                "{program}; there are no fonts, so screenshots have no text: install some (Debian: fonts-dejavu-core)"
            ),
        ),
        count => finding("browser", Status::Ok, format!("{program}; {count} fonts")),
    }
}

/// Counts the font files below a folder.
fn fonts(folder: &Path, levels: usize) -> usize {
    let is_font = |path: &Path| {
        let extension = path.extension().and_then(|it| it.to_str()).unwrap_or_default().to_ascii_lowercase();
        ["ttf", "otf", "ttc", "pfb", "woff2"].contains(&extension.as_str())
    };
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let count = |path: std::path::PathBuf| match path.is_dir() {
        true if levels > 0 => fonts(&path, levels - 1),
        true => 0,
        false => usize::from(is_font(&path)),
    };
    entries.map(|it| count(it.path())).sum()
}
