//! Follows the file of views. An invalid file changes nothing, and is reported and counted once.

use openskill_identity::file::shared_text;
use openskill_net::file_watcher::{FileWatcher, INTERVAL};

use super::{Contents, Views};

/// Polls the file until the future is dropped. Returns at once if no file is configured.
pub(crate) async fn follow(views: &Views) {
    let Some(path) = views.file.clone() else { return };
    let mut watcher = FileWatcher::new(None, move || shared_text(&path));
    loop {
        tokio::time::sleep(INTERVAL).await;
        let Some(read) = watcher.poll_change().await else { continue };
        match read.map_err(|error| error.to_string()).and_then(|text| Contents::parse(&text)) {
            // The file was already read at startup.
            Ok(contents) if watcher.changes() == 1 && **views.current.load() == contents => {}
            Ok(contents) => {
                let count = contents.named.len();
                views.replace(contents);
                tracing::info!(views = count, "the view file was reloaded");
            }
            Err(reason) => {
                views.failures.inc();
                tracing::error!(
                    reason,
                    "the view file cannot be used: the previous views stay in use (OPENSKILL_MCP_VIEWS_FILE)"
                );
            }
        }
    }
}
