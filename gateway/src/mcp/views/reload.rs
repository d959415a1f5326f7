//! Follows the file of views. One that can't be used changes nothing, and is reported and counted once.

use openskill_identity::file::shared_text;

use super::{Contents, Views};
use crate::state::followed::{Followed, INTERVAL};

/// Reads the file again and again, until it is dropped. Ends at once without a file.
pub(crate) async fn follow(views: &Views) {
    let Some(path) = &views.file else { return };
    let mut followed = Followed::new(shared_text);
    loop {
        tokio::time::sleep(INTERVAL).await;
        let Some((read, is_first)) = followed.look(path).await else { continue };
        match read.and_then(|text| Contents::parse(&text)) {
            // At the start it was read already.
            Ok(contents) if is_first && views.has(&contents) => {}
            Ok(contents) => {
                let count = contents.named.len();
                views.replace(contents);
                tracing::info!(views = count, "the file of views was read again");
            }
            Err(reason) => {
                views.failures.inc();
                tracing::error!(
                    reason,
                    "the file of views cannot be used: the views before it stay (OPENSKILL_MCP_VIEWS_FILE)"
                );
            }
        }
    }
}
