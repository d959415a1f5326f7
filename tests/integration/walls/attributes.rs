//! Modes and times: nothing outside changes, and closing one's own places harms nobody else.

use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown};

use openskill_tests::system::{code, data};
use serde_json::{Value, json};

use super::stage::{Gateway, Kind, Scene, Stage, Worker};

async fn stage(worker: Worker) -> Option<Stage> {
    let scene = Scene::new(worker).await?.skills("attack", "attacks.py", "");
    scene.skills("neighbour", "attacks.py", "").own_temp().start().await
}

async fn mode_owner_and_times_outside_do_not_change(worker: Worker) {
    let Some(stage) = stage(worker).await else { return };
    let mut changed = Vec::new();
    for kind in Kind::ALL {
        // What others may write, and what belongs to the skills' user.
        for (name, owner) in [("outside/theirs", stage.uid), ("outside/open", 0), ("beside", stage.uid)] {
            let path = stage.folder.write(name, "x");
            let mode = if owner == 0 { 0o666 } else { 0o640 };
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
            chown(&path, Some(owner), Some(owner)).unwrap();
            let picture = || {
                let it = path.metadata().unwrap();
                (it.mode() & 0o7777, it.uid(), it.gid(), it.mtime(), it.mtime_nsec(), it.ctime(), it.ctime_nsec())
            };
            let before = picture();
            let input = json!({"do": "change_outside", "path": path});
            let told = stage.value(&format!("attack_{}", kind.word()), input).await;
            if picture() != before {
                changed.push(format!("{name}, {}: {told}; {before:?} became {:?}", kind.word(), picture()));
            }
        }
    }
    assert!(changed.is_empty(), "{changed:#?}");
}

async fn closing_a_temporary_folder_harms_no_other_call(worker: Worker) {
    let Some(stage) = stage(worker).await else { return };
    closing_temporary_folders_harms_nobody(stage.gateway()).await;
}

pub(super) async fn closing_temporary_folders_harms_nobody(gateway: Gateway) {
    let mut harmed = Vec::new();
    for kind in Kind::ALL {
        let name = kind.word();
        for round in 0..5 {
            let told = gateway.value(&format!("attack_{name}"), json!({"do": "close_temp"})).await;
            // The same skill, another one, and all kinds of start.
            let skills = [format!("attack_{name}"), format!("neighbour_{name}")];
            for skill in skills.into_iter().chain(Kind::ALL.map(|kind| format!("neighbour_{}", kind.word()))) {
                let result = gateway.call(&skill, json!({"do": "works"}), 20_000).await;
                if !result.success {
                    harmed.push(format!("{skill} after {name} {round} ({told}): {}", code(&result)));
                }
            }
        }
    }
    assert!(harmed.is_empty(), "{} failed: {harmed:#?}", harmed.len());
}

/// What calls of all kinds find before and after one of each kind has closed the allowed root: pairs of words that differ.
async fn after_closing_the_allowed_root(worker: Worker, input: Value) -> Vec<String> {
    let Some(stage) = stage(worker).await else { return Vec::new() };
    let found = |kind: Kind| {
        let (stage, input) = (&stage, input.clone());
        async move {
            let result = stage.call(&format!("neighbour_{}", kind.word()), input, 20_000).await;
            if result.success { data(&result).to_string() } else { code(&result).to_owned() }
        }
    };
    let mut differences = Vec::new();
    for closing in Kind::ALL {
        let mut before = Vec::new();
        for kind in Kind::ALL {
            before.push(found(kind).await);
        }
        let told = stage.value(&format!("attack_{}", closing.word()), json!({"do": "close_root"})).await;
        for (kind, before) in Kind::ALL.into_iter().zip(&before) {
            let after = found(kind).await;
            if after != *before {
                let (closing, kind) = (closing.word(), kind.word());
                differences.push(format!("{kind}, after {closing} closed it ({told}): {before} became {after}"));
            }
        }
        for folder in [stage.path("data"), stage.folder.path().to_owned()] {
            std::fs::set_permissions(folder, std::fs::Permissions::from_mode(0o755)).unwrap();
        }
    }
    differences
}

async fn closing_the_allowed_root_keeps_no_later_call_from_writing(worker: Worker) {
    let differences = after_closing_the_allowed_root(worker, json!({"do": "writes", "name": "file"})).await;
    assert!(differences.is_empty(), "{differences:#?}");
}

async fn closing_the_allowed_root_gives_no_later_call_a_capability(worker: Worker) {
    let differences = after_closing_the_allowed_root(worker, json!({"do": "capabilities"})).await;
    assert!(differences.is_empty(), "{differences:#?}");
}

super::for_each_worker! {
    mode_owner_and_times_outside_do_not_change
    closing_a_temporary_folder_harms_no_other_call
    closing_the_allowed_root_keeps_no_later_call_from_writing
    closing_the_allowed_root_gives_no_later_call_a_capability
}
