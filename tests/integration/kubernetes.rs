//! The manifests for Kubernetes: valid by the API's own schemas, and in agreement with the product.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use openskill_tests::folder::Folder;
use openskill_tests::require::{Need, skip};
use openskill_tests::{binary, repository};
use serde_json::{Value, json};

use crate::metrics::lint::table;

const OVERLAYS: [&str; 2] = ["overlays/development", "overlays/production"];
const ROUTES: &str = "routes";

/// What `kubectl kustomize` makes of a folder of `deploy/kubernetes`. None after the test was skipped.
fn built(folder: &str) -> Option<String> {
    rendered(&repository().join("deploy/kubernetes").join(folder))
}

/// The overlay `production` with all components. None after the test was skipped.
fn with_components() -> Option<String> {
    let manifests = repository().join("deploy/kubernetes");
    let listed = std::fs::read_dir(manifests.join("components")).unwrap();
    let names: BTreeSet<_> = listed.map(|it| it.unwrap().file_name().into_string().unwrap()).collect();
    let docs = std::fs::read_to_string(repository().join("docs/kubernetes.md")).unwrap();
    for name in &names {
        assert!(docs.contains(&format!("| `{name}` |")), "the page leaves out the component {name}");
    }
    let lines: String = names.iter().map(|it| format!("- ../../deploy/kubernetes/components/{it}\n")).collect();
    let folder = Folder::beneath(&repository().join("target"));
    let base = "resources: [../../deploy/kubernetes/overlays/production]\nnamespace: openskill\ncomponents:\n";
    folder.write("kustomization.yaml", format!("{base}{lines}"));
    rendered(folder.path())
}

fn rendered(path: &Path) -> Option<String> {
    let folder = path.display();
    let output = match Command::new("kubectl").arg("kustomize").arg(path).output() {
        Ok(output) => output,
        Err(error) => {
            skip(Need::Kubectl, &format!("kubectl: {error}; install it: apt-get install kubernetes-client"));
            return None;
        }
    };
    let (made, said) =
        (String::from_utf8(output.stdout).unwrap(), String::from_utf8_lossy(&output.stderr).into_owned());
    // That of Debian 12 has a kustomize of 2018, which lacks `patches` of a path.
    if said.contains("unknown field") || said.contains("invalid Kustomization") {
        skip(Need::Kubectl, &format!("this kubectl is too old: {said}"));
        return None;
    }
    assert!(output.status.success() && !said.contains("deprecated"), "{folder}: {said}");
    Some(made)
}

/// The Python of `make test-venv`, with kubernetes-validate. None after the test was skipped.
fn python() -> Option<PathBuf> {
    let python = repository().join("target/test-venv/bin/python");
    if python.exists() {
        return Some(python);
    }
    skip(Need::Venv, "target/test-venv is not there; run `make test-venv`");
    None
}

/// The objects of some YAML.
fn objects(python: &PathBuf, yaml: &str) -> Vec<Value> {
    let script = "import json, sys, yaml; print(json.dumps(list(yaml.safe_load_all(sys.stdin))))";
    let mut child =
        Command::new(python).args(["-c", script]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    std::io::Write::write_all(&mut child.stdin.take().unwrap(), yaml.as_bytes()).unwrap();
    serde_json::from_slice(&child.wait_with_output().unwrap().stdout).unwrap()
}

/// The object of a kind and a name.
fn find<'a>(objects: &'a [Value], kind: &str, name: &str) -> &'a Value {
    let found = objects.iter().find(|it| it["kind"] == kind && it["metadata"]["name"] == name);
    found.unwrap_or_else(|| panic!("there is no {kind} {name}"))
}

#[test]
fn every_manifest_is_valid_by_the_schemas_of_the_api() {
    let Some(python) = python() else { return };
    let folder = Folder::new();
    let validate = |yaml: &str| {
        let file = folder.write("all.yaml", yaml);
        let script = "from kubernetes_validate.__main__ import main; import sys; sys.exit(main())";
        let mut command = Command::new(&python);
        command.args(["-c", script, "--strict", "--no-warn"]).arg(file);
        let output = command.output().unwrap();
        let said = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
        (output.status.success(), said)
    };
    let Some(all) = with_components() else { return };
    // The schemas are of the API's own kinds.
    let own: Vec<_> =
        all.split("\n---\n").filter(|it| !it.contains("cert-manager.io") && !it.contains("coreos.com")).collect();
    let (is_valid, said) = validate(&own.join("\n---\n"));
    assert!(is_valid, "components: {said}");
    for overlay in OVERLAYS {
        let Some(yaml) = built(overlay) else { return };
        let (is_valid, said) = validate(&yaml);
        assert!(is_valid && said.matches("passed").count() >= 13, "{overlay}: {said}");
        let (is_valid, said) = validate(&yaml.replace("readinessProbe:", "readynessProbe:"));
        assert!(!is_valid, "a field that is not there is not found: {said}");
    }
}

#[test]
fn the_autoscaler_uses_metrics_that_workers_have_and_the_adapter_offers() {
    let (Some(python), Some(yaml)) = (python(), built(OVERLAYS[1])) else { return };
    let objects = objects(&python, &yaml);
    let scaler = &find(&objects, "HorizontalPodAutoscaler", "openskill-worker")["spec"];
    let metrics = scaler["metrics"].as_array().unwrap();
    let named: Vec<_> = metrics.iter().map(|it| it["pods"]["metric"]["name"].as_str().unwrap()).collect();
    assert!(!named.is_empty());
    let adapter = std::fs::read_to_string(repository().join("deploy/kubernetes/prometheus-adapter.yaml")).unwrap();
    for name in named {
        let row = table().into_iter().find(|it| it.name == name).unwrap_or_else(|| panic!("{name} is not a metric"));
        assert!(row.kind == "gauge" && row.of.contains("worker"), "{row:?}");
        let end = name.strip_prefix("openskill_worker_calls_").unwrap();
        assert!(adapter.contains("openskill_worker_calls_(") && adapter.contains(end), "the adapter leaves out {name}");
    }
    // The autoscaler decides how many there are: no update may reset that.
    let target = &scaler["scaleTargetRef"];
    let deployment = find(&objects, target["kind"].as_str().unwrap(), target["name"].as_str().unwrap());
    assert_eq!(deployment["spec"]["replicas"], Value::Null);
}

#[test]
fn services_probes_policies_and_settings_fit_the_pods() {
    let Some(python) = python() else { return };
    let settings = Command::new(binary()).args(["config", "--reference"]).output().unwrap();
    let settings = String::from_utf8(settings.stdout).unwrap();
    for overlay in OVERLAYS {
        let Some(yaml) = built(overlay) else { return };
        let objects = objects(&python, &yaml);
        for part in ["gateway", "worker"] {
            let name = format!("openskill-{part}");
            let deployment = find(&objects, "Deployment", &name);
            let pod = &deployment["spec"]["template"];
            let labels = &pod["metadata"]["labels"];
            assert_eq!(&deployment["spec"]["selector"]["matchLabels"], labels);
            for (kind, path) in [("Service", "/spec/selector"), ("PodDisruptionBudget", "/spec/selector/matchLabels")] {
                assert_eq!(find(&objects, kind, &name).pointer(path).unwrap(), labels, "{kind} {name}");
            }
            let policy = find(&objects, "NetworkPolicy", &name);
            assert_eq!(&policy["spec"]["podSelector"]["matchLabels"], labels);
            fits(&pod["spec"], part, &settings);
        }
        let service = find(&objects, "Service", "openskill-worker");
        assert_eq!(service["spec"]["clusterIP"], "None", "gateways find each worker by its name");
    }
}

/// Checks a pod by itself.
fn fits(pod: &Value, part: &str, settings: &str) {
    let container = &pod["containers"][0];
    assert_eq!(container["name"], part);
    let image = format!("openskill-{part}:");
    assert!(container["image"].as_str().unwrap().starts_with(&image), "{container}");
    let ports = container["ports"].as_array().unwrap();
    let names: BTreeSet<_> = ports.iter().map(|it| it["name"].as_str().unwrap()).collect();
    for probe in ["startupProbe", "readinessProbe", "livenessProbe"] {
        let port = container[probe].pointer("/httpGet/port").or(container[probe].pointer("/tcpSocket/port"));
        assert!(names.contains(port.unwrap().as_str().unwrap()), "{probe} of {part}");
    }
    let env: Vec<_> = container["env"].as_array().unwrap().iter().collect();
    let value = |name: &str| env.iter().find(|it| it["name"] == name).and_then(|it| it["value"].as_str());
    for it in &env {
        let name = it["name"].as_str().unwrap();
        assert!(settings.contains(&format!("| `{name}` |")), "{name} is not a setting");
        // Files are where a volume is.
        let Some(path) = it["value"].as_str().filter(|it| it.starts_with("/etc/")) else { continue };
        let mounts = container["volumeMounts"].as_array().unwrap();
        assert!(mounts.iter().any(|it| path.starts_with(it["mountPath"].as_str().unwrap())), "{name}: {path}");
    }
    let time = |name: &str| value(name).map_or(0, |it| it.parse::<u64>().unwrap());
    let needed_ms = time("OPENSKILL_LAME_DUCK_MS") + time("OPENSKILL_DRAIN_TIMEOUT_MS");
    let grace_s = pod["terminationGracePeriodSeconds"].as_u64().unwrap();
    assert!(grace_s * 1000 > needed_ms, "{part}: a drain of {needed_ms} ms does not fit into {grace_s} s");
    let mounted: BTreeSet<_> =
        container["volumeMounts"].as_array().unwrap().iter().map(|it| it["name"].as_str().unwrap()).collect();
    let volumes: BTreeSet<_> =
        pod["volumes"].as_array().unwrap().iter().map(|it| it["name"].as_str().unwrap()).collect();
    assert_eq!(mounted, volumes, "{part}");
    let all =
        pod["containers"].as_array().unwrap().iter().chain(pod["initContainers"].as_array().into_iter().flatten());
    for container in all {
        let expected = json!({"allowPrivilegeEscalation": false, "readOnlyRootFilesystem": true, "capabilities": {"drop": ["ALL"]}});
        assert_eq!(container["securityContext"], expected, "{part}");
    }
    assert_eq!((&pod["securityContext"]["runAsNonRoot"], &pod["enableServiceLinks"]), (&json!(true), &json!(false)));
}

#[test]
fn components_fit_the_overlay_that_they_extend() {
    let (Some(python), Some(yaml)) = (python(), with_components()) else { return };
    let objects = objects(&python, &yaml);
    let worker = &find(&objects, "Deployment", "openskill-worker")["spec"]["template"]["spec"];
    // The API refuses an unmasked /proc in a pod without its own users.
    assert_eq!(
        (&worker["hostUsers"], &worker["containers"][0]["securityContext"]["procMount"]),
        (&json!(false), &json!("Unmasked"))
    );
    let profile = &worker["securityContext"]["seccompProfile"];
    assert_eq!((&profile["type"], &profile["localhostProfile"]), (&json!("Localhost"), &json!("openskill.json")));
    let mounts = worker["containers"][0]["volumeMounts"].as_array().unwrap();
    assert!(mounts.iter().any(|it| it["mountPath"] == "/app/skills" && it["readOnly"] == true), "{mounts:?}");
    // The skills in it are valid.
    let (folder, config) = (Folder::new(), objects.iter().find(|it| it["kind"] == "ConfigMap").unwrap());
    for (name, text) in config["data"].as_object().unwrap() {
        folder.write(name, text.as_str().unwrap());
    }
    let mut check = Command::new(binary());
    let checked = check.args(["check", "--skills-dir"]).arg(folder.path()).current_dir(repository()).output().unwrap();
    assert!(checked.status.success(), "{}", String::from_utf8_lossy(&checked.stdout));
    // Certificates are in the secrets that the pods mount, with the names of the mesh.
    let secret = |name: &str| find(&objects, "Certificate", name)["spec"].clone();
    for (name, role) in [("openskill-gateway-mesh", "gateway"), ("openskill-worker-mesh", "worker")] {
        assert_eq!(secret(name)["secretName"], name);
        assert_eq!(secret(name)["dnsNames"], json!([format!("{role}.openskill.internal")]));
        assert!(yaml.contains(&format!("secretName: {name}\n")), "{name}");
    }
    assert_eq!(secret("openskill-gateway-tls")["secretName"], "openskill-gateway-tls");
    for part in ["gateway", "worker"] {
        let ports = &find(&objects, "Deployment", &format!("openskill-{part}"))["spec"]["template"]["spec"]["containers"]
            [0]["ports"];
        let scraped =
            &find(&objects, "PodMonitor", &format!("openskill-{part}"))["spec"]["podMetricsEndpoints"][0]["port"];
        assert!(ports.as_array().unwrap().iter().any(|it| &it["name"] == scraped), "{part}: {scraped}");
    }
}

#[test]
fn routes_lead_to_services_and_name_services_of_the_contract() {
    let (Some(python), Some(yaml), Some(routes)) = (python(), built(OVERLAYS[1]), built(ROUTES)) else { return };
    let (objects, routes) = (objects(&python, &yaml), self::objects(&python, &routes));
    let mut matched = BTreeSet::new();
    for route in &routes {
        assert_eq!(route["apiVersion"], "gateway.networking.k8s.io/v1");
        if route["kind"] == "BackendTLSPolicy" {
            find(&objects, "Service", route["spec"]["targetRefs"][0]["name"].as_str().unwrap());
            continue;
        }
        for rule in route["spec"]["rules"].as_array().unwrap() {
            for backend in rule["backendRefs"].as_array().unwrap() {
                let service = find(&objects, "Service", backend["name"].as_str().unwrap());
                assert_eq!(service["metadata"]["namespace"], route["metadata"]["namespace"]);
                let ports = service["spec"]["ports"].as_array().unwrap();
                assert!(ports.iter().any(|it| it["port"] == backend["port"]), "{backend}");
            }
            let methods = rule["matches"].as_array().unwrap().iter().filter_map(|it| it["method"]["service"].as_str());
            matched.extend(methods.map(str::to_owned));
        }
    }
    // All services of clients; administrators have an address of their own, or a port-forward.
    for service in ["SkillService", "AgentService", "TraceService"] {
        assert!(matched.contains(&format!("openskill.v1.{service}")), "{matched:?}");
        let path = repository().join("proto/openskill/v1");
        let files = std::fs::read_dir(path).unwrap().map(|it| std::fs::read_to_string(it.unwrap().path()).unwrap());
        assert!(files.into_iter().any(|it| it.contains(&format!("service {service} {{"))), "{service}");
    }
}
