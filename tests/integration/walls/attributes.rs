//! Modes and times: nothing outside changes, and closing one's own places harms nobody else.

use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown};

use openskill_tests::system::code;
use serde_json::json;

use super::stage::{HIGHEST, Kind, Scene, Stage, Worker};

async fn stage(worker: Worker) -> Option<Stage> {
    let scene = Scene::new(worker).await?.skills("attack", HIGHEST, "attacks.py", "");
    scene.skills("neighbour", HIGHEST, "attacks.py", "").own_temp().start().await
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
    let mut harmed = Vec::new();
    for kind in Kind::ALL {
        let name = kind.word();
        for round in 0..5 {
            let told = stage.value(&format!("attack_{name}"), json!({"do": "close_temp"})).await;
            // The same skill, another one, and all kinds of start.
            let skills = [format!("attack_{name}"), format!("neighbour_{name}")];
            for skill in skills.into_iter().chain(Kind::ALL.map(|kind| format!("neighbour_{}", kind.word()))) {
                let result = stage.call(&skill, json!({"do": "works"}), 20_000).await;
                if !result.success {
                    harmed.push(format!("{skill} after {name} {round} ({told}): {}", code(&result)));
                }
            }
        }
    }
    assert!(harmed.is_empty(), "{} failed: {harmed:#?}", harmed.len());
}

async fn closing_the_allowed_root_harms_no_later_call(worker: Worker) {
    let Some(stage) = stage(worker).await else { return };
    let capabilities = |kind: Kind| {
        let (stage, input) = (&stage, json!({"do": "writes", "name": format!("file-{}", kind.word())}));
        async move { stage.call(&format!("neighbour_{}", kind.word()), input, 20_000).await }
    };
    let mut before = Vec::new();
    for kind in Kind::ALL {
        before.push(capabilities(kind).await);
    }
    let mut harmed = Vec::new();
    for kind in Kind::ALL {
        let told = stage.value(&format!("attack_{}", kind.word()), json!({"do": "close_root"})).await;
        for (kind, before) in Kind::ALL.into_iter().zip(&before) {
            let after = capabilities(kind).await;
            if after.output != before.output {
                harmed.push(format!("{} ({told}): {:?} {:?}", kind.word(), after.output, after.error));
            }
        }
        std::fs::set_permissions(stage.path("data"), std::fs::Permissions::from_mode(0o755)).unwrap();
        std::fs::set_permissions(stage.folder.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
    }
    assert!(harmed.is_empty(), "a later call can't write, or has a capability: {harmed:#?}");
}

super::for_each_worker! {
    mode_owner_and_times_outside_do_not_change
    closing_a_temporary_folder_harms_no_other_call
    closing_the_allowed_root_harms_no_later_call
}
