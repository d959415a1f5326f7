//! Restricts containers as much as the engine allows. The engine's seccomp filter and user namespaces remain in
//! effect.

use std::collections::HashMap;
use std::path::Path;

use bollard::models::{
    ContainerCreateBody, HealthConfig, HostConfig, HostConfigLogConfig, Mount, MountBindOptions,
    MountBindOptionsPropagationEnum, MountType, ResourcesUlimits,
};
use openskill_sandbox::Limits;

use super::engine::{ResolvedImage, UsableImage};
use crate::manifest::Manifest;
use crate::manifest::docker::{DATA_FOLDER, Docker, MountRoot, Network};

const MIB: u64 = 1024 * 1024;

/// Returns a skill's command line. The image provides the parts that the manifest does not set. An entry point in
/// the manifest replaces both of the image's parts.
pub(super) fn argv(docker: &Docker, image: &ResolvedImage) -> Vec<String> {
    let own = docker.entrypoint.is_none();
    let entrypoint = docker.entrypoint.as_ref().unwrap_or(&image.entrypoint);
    let command = docker.command.as_deref().unwrap_or(if own { &image.command } else { &[] });
    entrypoint.iter().chain(command).cloned().collect()
}

/// Describes a skill's container. `root`: the folder to mount, if the manifest requests it. It
/// comes from the worker's settings and the manifest, never from a call.
pub(super) fn body(
    manifest: &Manifest,
    docker: &Docker,
    usable: &UsableImage,
    root: Option<&Path>,
    env: Vec<String>,
    labels: HashMap<String, String>,
) -> ContainerCreateBody {
    ContainerCreateBody {
        image: Some(usable.image.id.clone()),
        // With an explicit entry point, the engine ignores the image's command.
        entrypoint: Some(argv(docker, &usable.image)),
        cmd: Some(Vec::new()),
        env: Some(env),
        user: Some(docker.user.clone()),
        labels: Some(labels),
        attach_stdin: Some(true),
        open_stdin: Some(true),
        stdin_once: Some(true),
        attach_stdout: Some(true),
        attach_stderr: Some(true),
        tty: Some(false),
        hostname: Some("skill".to_owned()),
        network_disabled: Some(docker.network == Network::None),
        // The image's health check would start additional processes next to the skill.
        healthcheck: Some(HealthConfig { test: Some(vec!["NONE".to_owned()]), ..HealthConfig::default() }),
        host_config: Some(host_config(&manifest.limits, docker, usable.cpus, root)),
        ..ContainerCreateBody::default()
    }
}

fn host_config(limits: &Limits, docker: &Docker, cpus: f64, root: Option<&Path>) -> HostConfig {
    let memory = i64::try_from(limits.memory_mb.saturating_mul(MIB)).unwrap_or(i64::MAX);
    HostConfig {
        network_mode: Some(match docker.network {
            Network::None => "none".to_owned(),
            Network::Bridge => "bridge".to_owned(),
        }),
        readonly_rootfs: Some(true),
        privileged: Some(false),
        cap_drop: Some(vec!["ALL".to_owned()]),
        security_opt: Some(vec!["no-new-privileges:true".to_owned()]),
        ipc_mode: Some("private".to_owned()),
        memory: Some(memory),
        // The limit on memory and swap together, so that the container gets no swap.
        memory_swap: Some(memory),
        // An engine rejects more CPUs than it has.
        nano_cpus: Some((docker.cpus.min(cpus) * 1e9) as i64),
        // Add one for the init process.
        pids_limit: Some(i64::try_from(limits.processes).unwrap_or(i64::MAX).saturating_add(1)),
        ulimits: Some(ulimits(limits)),
        tmpfs: Some(tmpfs(docker)),
        mounts: Some(root.map(|root| mount(docker.mount_root, root)).into_iter().collect()),
        // The worker reads the output while the process runs, so the engine need not store it.
        log_config: Some(HostConfigLogConfig { typ: Some("none".to_owned()), config: None }),
        // The init process reaps the skill's orphans, and exits on signals that a program would ignore as process
        // 1.
        init: Some(true),
        // The worker removes the container after it has requested its exit status.
        auto_remove: Some(false),
        ..HostConfig::default()
    }
}

fn ulimits(limits: &Limits) -> Vec<ResourcesUlimits> {
    let most = |limit: u64| Some(i64::try_from(limit).unwrap_or(i64::MAX));
    let ulimit =
        |name: &str, soft, hard| ResourcesUlimits { name: Some(name.to_owned()), soft: most(soft), hard: most(hard) };
    let file_size = limits.file_size_mb.saturating_mul(MIB);
    vec![
        ulimit("nofile", limits.open_files, limits.open_files),
        ulimit("fsize", file_size, file_size),
        // SIGXCPU shows why the process ended. A process that ignores it is killed one second later.
        ulimit("cpu", limits.cpu_seconds, limits.cpu_seconds.saturating_add(1)),
        ulimit("core", 0, 0),
    ]
}

fn tmpfs(docker: &Docker) -> HashMap<String, String> {
    let (user, group) = docker.user.split_once(':').unwrap_or_default();
    // Set the owner, because engines give the mount the mode of the image's own folder.
    let options = format!("rw,noexec,nosuid,nodev,mode=1777,uid={user},gid={group},size={}m", docker.writable_mb);
    docker.writable.iter().map(|path| (path.clone(), options.clone())).collect()
}

fn mount(mount_root: MountRoot, root: &Path) -> Mount {
    let bind = MountBindOptions {
        propagation: Some(MountBindOptionsPropagationEnum::RPRIVATE),
        // Without this, mounts below the folder would not be read-only.
        non_recursive: Some(true),
        ..MountBindOptions::default()
    };
    Mount {
        target: Some(DATA_FOLDER.to_owned()),
        source: Some(crate::environment::path_text(root)),
        typ: Some(MountType::BIND),
        read_only: Some(mount_root != MountRoot::Rw),
        bind_options: Some(bind),
        ..Mount::default()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::manifest::{Rules, RunnerSpec};

    fn manifest(settings: &str) -> Manifest {
        let id = "a".repeat(64);
        let text = format!("id: x\ntype: docker\nentry: sha256:{id}\ndocker: {settings}\n");
        let rules = Rules { allowed_root: Path::new("/nonexistent"), toolset: None };
        Manifest::parse(Path::new("/x.yaml"), &text, rules).unwrap()
    }

    fn made(settings: &str) -> ContainerCreateBody {
        let manifest = manifest(settings);
        let RunnerSpec::Docker(docker) = &manifest.how else { panic!("no container") };
        let image = ResolvedImage {
            id: "sha256:1".to_owned(),
            entrypoint: vec!["/own".to_owned()],
            command: vec!["x".to_owned()],
            has_volumes: false,
        };
        let usable = UsableImage { image: Arc::new(image), cpus: 2.0 };
        let root = (docker.mount_root != MountRoot::None).then_some(Path::new("/srv/data"));
        body(&manifest, docker, &usable, root, Vec::new(), HashMap::new())
    }

    #[test]
    fn a_container_is_closed_unless_the_manifest_opens_it() {
        let host = made("{}").host_config.unwrap();
        assert_eq!(host.network_mode.as_deref(), Some("none"));
        assert_eq!((host.readonly_rootfs, host.privileged), (Some(true), Some(false)));
        assert_eq!(host.cap_drop, Some(vec!["ALL".to_owned()]));
        assert_eq!(host.security_opt, Some(vec!["no-new-privileges:true".to_owned()]));
        assert_eq!(host.memory, host.memory_swap);
        assert_eq!((host.pids_limit, host.nano_cpus), (Some(257), Some(1_000_000_000)));
        assert_eq!((host.mounts, host.binds, host.devices), (Some(Vec::new()), None, None));
        assert!(host.tmpfs.unwrap()["/tmp"].contains("noexec,nosuid,nodev"));
        assert_eq!((host.init, host.ipc_mode.as_deref()), (Some(true), Some("private")));
    }

    #[test]
    fn the_root_is_mounted_only_when_asked_for_and_as_asked_for() {
        for (settings, read_only) in [("{mount_root: ro}", true), ("{mount_root: rw}", false)] {
            let mounts = made(settings).host_config.unwrap().mounts.unwrap();
            assert_eq!((mounts.len(), mounts[0].read_only), (1, Some(read_only)));
            assert_eq!((mounts[0].source.as_deref(), mounts[0].target.as_deref()), (Some("/srv/data"), Some("/data")));
        }
    }

    #[test]
    fn the_command_of_the_manifest_replaces_that_of_the_image() {
        for (settings, expected) in [
            ("{}", &["/own", "x"][..]),
            ("{command: [y]}", &["/own", "y"]),
            ("{entrypoint: [/z]}", &["/z"]),
            ("{entrypoint: [/z], command: [y]}", &["/z", "y"]),
        ] {
            assert_eq!(made(settings).entrypoint.unwrap(), expected, "{settings}");
        }
    }

    #[test]
    fn processors_are_capped_at_what_the_engine_has() {
        assert_eq!(made("{cpus: 64}").host_config.unwrap().nano_cpus, Some(2_000_000_000));
    }
}
