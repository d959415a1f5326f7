//! A worker that is killed while it installs.

use std::os::unix::fs::PermissionsExt as _;

use openskill_tests::processes;
use openskill_tests::system::code;
use openskill_tests::wait::until;
use rustix::process::Signal;

use super::stage::{PATIENCE, Stage, TASK, has_jail, try_search};

#[tokio::test]
async fn a_worker_that_is_killed_publishes_nothing_and_what_it_left_is_swept() {
    if !has_jail() {
        return;
    }
    let stage = Stage::new();
    // What an earlier worker left when it was killed between two files.
    stage.folder.write("tools/.clock.partial/toolset.yaml", "toolset: clock\n");
    std::fs::set_permissions(stage.path("tools"), std::fs::Permissions::from_mode(0o755)).unwrap();
    let system = stage.setup("listed").start().await;
    until("the partial server is swept", PATIENCE, || async { stage.installed().is_empty().then_some(()) }).await;
    let call = try_search(&system, TASK);
    let kill = async {
        system.process.log.line(&["openskill::audit", "installing", "clock"]).await;
        for worker in system.worker_pids() {
            processes::send(worker, Signal::KILL);
        }
    };
    let (result, ()) = tokio::join!(call, kill);
    assert!(result.as_ref().is_none_or(|it| !code(it).is_empty()), "{result:?}");
    assert_eq!(stage.installed(), [""; 0], "nothing was published");
    let again = until("a new worker installs it", PATIENCE, || async {
        try_search(&system, TASK).await.filter(|it| code(it).is_empty())
    })
    .await;
    assert!(again.text.contains("is installed"), "{}", again.text);
    assert_eq!(stage.installed(), ["clock"]);
}
