//! Limits the size of a folder while a process fills it.

use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::time::Duration;

use openskill_proto::v1::SkillError;

use super::bounds::unfit;

/// The interval between measurements.
const EVERY: Duration = Duration::from_millis(200);

/// The maximum number of entries that are counted. A folder with more is too large.
const MOST_ENTRIES: usize = 200_000;

/// The size of a block in bytes, as stat(2) defines it.
const BLOCK: u64 = 512;

/// Runs work that fills a folder, and stops it if the folder exceeds `most` bytes.
///
/// # Errors
/// Returns the work's error, or fails if the folder became too large.
pub(super) async fn within<T>(
    folder: &Path,
    most: u64,
    work: impl Future<Output = Result<T, SkillError>>,
) -> Result<T, SkillError> {
    let watch = async {
        loop {
            tokio::time::sleep(EVERY).await;
            let folder = folder.to_owned();
            let size = tokio::task::spawn_blocking(move || size(&folder, &mut 0)).await.unwrap_or(0);
            if size > most {
                return;
            }
        }
    };
    tokio::select! {
        done = work => done,
        () = watch => {
            Err(unfit(format!("the package and what it needs have more than {most} bytes: it is not installed")))
        }
    }
}

/// Sums the folder's size on disk. Ignores files that disappear meanwhile.
fn size(folder: &Path, entries: &mut usize) -> u64 {
    let mut sum = 0_u64;
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        *entries += 1;
        if *entries > MOST_ENTRIES {
            return u64::MAX;
        }
        let Ok(about) = entry.metadata() else { continue };
        let own = if about.is_dir() { size(&entry.path(), entries) } else { about.blocks() * BLOCK };
        sum = sum.saturating_add(own);
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn work_that_writes_too_much_ends() {
        let folder = std::env::temp_dir().join(format!("openskill-watch-{}", std::process::id()));
        std::fs::create_dir_all(folder.join("below")).unwrap();
        let done = within(&folder, 64 * 1024, async { Ok(7) }).await;
        assert_eq!(done.unwrap(), 7);
        std::fs::write(folder.join("below/file"), vec![1; 256 * 1024]).unwrap();
        let endless = std::future::pending::<Result<(), SkillError>>();
        let refused = within(&folder, 64 * 1024, endless).await.unwrap_err();
        assert!(refused.message.contains("65536 bytes"), "{refused:?}");
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
