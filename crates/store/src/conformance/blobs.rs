//! Blobs, and how many bytes are kept.

use sha2::{Digest as _, Sha256};

use super::steps::operation;
use crate::Store;
use crate::blobs::PIECE_BYTES;
use crate::engine::StoreError;
use crate::operation::{Blob, Claim, End, NewOperation, State, Submission};

/// The sizes of blobs: less than a chunk, one byte more than a chunk, some pieces.
const SIZES: [usize; 4] = [0, 1000, 256 * 1024 + 1, 3 * PIECE_BYTES - 7];

/// Runs all checks, each on an empty store of its own.
pub(super) async fn check_all(open: impl AsyncFn() -> Store) {
    reads_ranges_of_what_was_written(&open().await).await;
    removes_blobs_that_no_operation_names(&open().await).await;
    keeps_a_number_of_bytes(&open().await).await;
}

async fn submit(store: &Store, id: &str, principal: &str, request: Vec<u8>) {
    let new = NewOperation { request, ..operation(id, principal) };
    assert_eq!(store.submit(&new).await, Ok(Submission::Stored));
}

async fn claim(store: &Store) -> Claim {
    store.claim("gateway", 60_000, 1).await.unwrap().pop().unwrap()
}

fn end(blobs: &[Blob]) -> End {
    End { state: State::Succeeded, result: b"result".to_vec(), blobs: blobs.to_owned(), keep_ms: 60_000 }
}

fn content(size: usize) -> Vec<u8> {
    (0..=250).cycle().take(size).collect()
}

async fn write(store: &Store, claim: &Claim, content: &[u8]) -> Blob {
    let mut writer = store.begin_blob(claim.fence()).await.unwrap().unwrap();
    for part in content.chunks(300_000) {
        writer.write(part).await.unwrap();
    }
    writer.complete().await.unwrap().unwrap()
}

fn is_damaged<T>(outcome: Result<T, StoreError>) -> bool {
    matches!(outcome, Err(StoreError::Damaged(_)))
}

async fn reads_ranges_of_what_was_written(store: &Store) {
    submit(store, "a", "A", Vec::new()).await;
    let claim = claim(store).await;
    let mut blobs = Vec::new();
    for size in SIZES {
        blobs.push(write(store, &claim, &content(size)).await);
    }
    assert!(is_damaged(store.blob(&blobs[0].id).await), "no result names it yet");
    assert_eq!(store.finish(claim.fence(), &end(&blobs)).await, Ok(true));
    assert_eq!(store.sweep_blobs().await, Ok(0));
    for (blob, size) in blobs.iter().zip(SIZES) {
        let (content, found) = (content(size), store.blob(&blob.id).await.unwrap());
        assert_eq!(found.size_bytes, size as u64);
        assert_eq!(found.sha256, Sha256::digest(&content).to_vec());
        for (offset, length) in [(0, 1), (size / 2, 300_000), (size.saturating_sub(1), 9), (size, 9), (0, usize::MAX)] {
            let read = store.read_blob(&found, offset as u64, length as u64).await.unwrap();
            let until = size.min(offset.saturating_add(length.min(PIECE_BYTES)));
            assert!(read == content[offset.min(until)..until], "{size}: {length} bytes from {offset}");
        }
    }
    assert_eq!(store.delete("a").await, Ok(true));
    for blob in &blobs[1..] {
        assert!(is_damaged(store.blob(&blob.id).await) && is_damaged(store.read_blob(blob, 0, 9).await));
    }
}

async fn removes_blobs_that_no_operation_names(store: &Store) {
    submit(store, "a", "A", Vec::new()).await;
    let old = claim(store).await;
    let abandoned = write(store, &old, &content(300_000)).await;
    let mut late = store.begin_blob(old.fence()).await.unwrap().unwrap();
    assert_eq!(store.sweep_blobs().await, Ok(0), "the claim is valid");
    // As if the lease of its gateway had ended.
    store.renew("gateway", -1).await.unwrap();
    assert_eq!(store.recover().await, Ok(1));
    assert_eq!(store.sweep_blobs().await, Ok(2));
    assert!(is_damaged(store.read_blob(&abandoned, 0, 9).await));
    late.write(&content(300_000)).await.unwrap();
    assert_eq!(late.complete().await, Ok(None), "it was removed");
    assert!(store.begin_blob(old.fence()).await.unwrap().is_none());

    // Of the next claim, one blob is named and one is not.
    let claim = claim(store).await;
    let (kept, unused) = (write(store, &claim, b"kept").await, write(store, &claim, b"unused").await);
    let end = end(std::slice::from_ref(&kept));
    assert_eq!(store.finish(old.fence(), &end).await, Ok(false));
    assert_eq!(store.finish(claim.fence(), &end).await, Ok(true));
    assert_eq!(store.sweep_blobs().await, Ok(1));
    assert!(is_damaged(store.read_blob(&unused, 0, 9).await));
    assert_eq!(store.read_blob(&kept, 1, 2).await, Ok(b"ep".to_vec()));
}

async fn keeps_a_number_of_bytes(store: &Store) {
    for (id, principal) in [("a1", "A"), ("b1", "B"), ("a2", "A"), ("a3", "A"), ("b2", "B")] {
        submit(store, id, principal, Vec::new()).await;
        let claim = claim(store).await;
        let blob = write(store, &claim, &content(100_000)).await;
        assert_eq!(store.finish(claim.fence(), &end(&[blob])).await, Ok(true));
    }
    submit(store, "a4", "A", content(1_000_000)).await;
    let is_kept = async |id: &str| store.get(id).await.unwrap().is_some();
    assert_eq!(store.trim(510_000).await, Ok(0));
    // The oldest one of the principal that has most, and then of the one that has most without it.
    assert_eq!(store.trim(450_000).await, Ok(1));
    assert!(!is_kept("a1").await && is_kept("b1").await);
    assert_eq!(store.trim(250_000).await, Ok(2));
    assert!(!is_kept("a2").await && !is_kept("b1").await && is_kept("a3").await && is_kept("b2").await);
    assert_eq!(store.trim(0).await, Ok(2));
    assert!(is_kept("a4").await, "it has not ended");
    assert_eq!(store.sweep_blobs().await, Ok(5));
}
