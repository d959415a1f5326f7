//! Users of their own, the default of a worker that is root.

use std::collections::BTreeSet;
use std::os::unix::fs::MetadataExt as _;

use serde_json::json;

use super::stage::{Kind, Scene, Worker};

/// As the documentation says it.
const RANGE: std::ops::RangeInclusive<u64> = 1_900_000_000..=1_900_065_535;

#[tokio::test]
async fn runs_have_different_users_and_their_files_belong_to_the_owner_of_the_root() {
    let Some(scene) = Scene::new(Worker::Own).await else { return };
    let Some(stage) = scene.skills("attack", "attacks.py", "").start().await else { return };
    let mut users = Vec::new();
    for kind in [Kind::Process, Kind::Process, Kind::Exec, Kind::Exec, Kind::Fork] {
        let name = format!("kept-{}", users.len());
        let told = stage.value(&format!("attack_{}", kind.word()), json!({"do": "keeps", "name": name})).await;
        let user = told["user"].as_u64().unwrap();
        assert!(RANGE.contains(&user) && told["group"] == user && told["owner"] == user, "{told}");
        let on_disk = stage.path("data").join(name).metadata().unwrap();
        assert_eq!((on_disk.uid(), on_disk.gid()), (stage.uid, stage.uid), "{told}");
        users.push(user);
    }
    assert_eq!(users.iter().collect::<BTreeSet<_>>().len(), users.len(), "{users:?}");
}
