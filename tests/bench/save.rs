//! Writes what was found into a folder.

use std::path::Path;

use crate::plot;
use crate::report::Found;

/// A part that was not measured leaves its plot as it was.
pub(crate) fn write(folder: &Path, found: &Found, text: &str) -> std::io::Result<()> {
    std::fs::create_dir_all(folder)?;
    std::fs::write(folder.join("results.md"), text)?;
    if !found.throughput.is_empty() {
        let drawn = plot::throughput::draw(&found.contenders, &found.throughput);
        std::fs::write(folder.join("throughput.svg"), drawn)?;
    }
    if found.growth.iter().any(|line| line.points.len() > 1) {
        std::fs::write(folder.join("growth.svg"), plot::growth::draw(&found.growth))?;
    }
    Ok(())
}
