//! Imports of a script, which a fork server runs outside of any call: with the right to make mounts.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use serde_json::json;

use super::stage::{Gateway, Kind, Scene, Worker};

/// `mode`: of the folder with the scripts, which belongs to root. Where others may not enter it, a call passes permissions.
async fn nothing_is_written_by_an_import(mode: u32) {
    let Some(scene) = Scene::new(Worker::Root).await else { return };
    scene.skill("imports", Kind::Fork, "remounts.py", "");
    std::fs::set_permissions(scene.path("skills"), std::fs::Permissions::from_mode(mode)).unwrap();
    let Some(stage) = scene.start().await else { return };
    write_nothing(stage.gateway(), &stage.path("skills")).await;
}

/// `skills`: the folder that they try to write to.
pub(super) async fn write_nothing(gateway: Gateway, skills: &Path) {
    for _ in 0..2 {
        let told = gateway.value("imports", json!({})).await;
        assert_ne!(told["ended"], "written", "{told}");
        assert!(!skills.join("written-by-an-import").exists(), "{told}");
    }
}

#[tokio::test]
async fn an_import_does_not_make_its_folder_writable() {
    nothing_is_written_by_an_import(0o755).await;
}

#[tokio::test]
async fn an_import_does_not_make_a_folder_writable_that_only_root_may_enter() {
    nothing_is_written_by_an_import(0o700).await;
}
