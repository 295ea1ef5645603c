//! The contents of `deploy/`: Helm lints and renders the chart, the API server accepts all of it, and the host runs as
//! the rendered container, with the rendered roles and no others.

mod static_pods;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};
use flyball_cluster_tests::{
    Cluster, Pod, Running, Space, finish, greeted, guest, host_output, last_lines, log_of,
    projected, unable, until,
};
use flyball_controlplane::{Options, Registry, helm, skip};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{ConfigMap, Pod as PodObject, PodSpec, Secret};
use kube::api::{
    Api, ApiResource, DynamicObject, GroupVersionKind, ListParams, Patch, PatchParams,
    ValidationDirective,
};
use serde_json::{Value, json};

const NAMESPACE: &str = "flyball-system";
/// The account of the host in the release `flyball`.
const HOST_USER: &str = "system:serviceaccount:flyball-system:flyball";
/// The user and the group of the containers.
const USER: u32 = 65532;

fn deploy() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy")
}

/// Renders the objects of the chart with these values, on top of the mode's values. The release is `flyball`.
async fn render(mode: Mode, values: &Value) -> Result<Vec<Value>> {
    let folder = tempfile::tempdir()?;
    let file = folder.path().join("values.json");
    fs::write(&file, values.to_string())?;
    let chart = deploy().join("helm/flyball").display().to_string();
    let in_place = format!("{chart}/in-place.yaml");
    let file = file.display().to_string();
    let mut files = vec!["--values", &file];
    if mode == Mode::InPlace {
        files.splice(0..0, ["--values", &in_place]);
    }
    let release = ["--namespace", NAMESPACE];
    helm(&[&["lint", "--strict", &chart], &release[..], &files].concat()).await?;
    let template = ["template", "flyball", &chart];
    read(&helm(&[&template[..], &release, &files].concat()).await?)
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Mode {
    Beside,
    InPlace,
}

/// The documents of a text in YAML.
fn read(text: &str) -> Result<Vec<Value>> {
    let documents: Vec<Value> = serde_saphyr::from_multiple(text)?;
    Ok(documents
        .into_iter()
        .filter(|document| !document.is_null())
        .collect())
}

/// Applies objects as `kubectl apply --server-side --validate=strict` does.
async fn apply(cluster: &Cluster, objects: &[Value], dry_run: bool) -> Result<()> {
    for object in objects {
        let of = |field: &str| object[field].as_str().unwrap_or_default();
        let version = of("apiVersion");
        let (group, version) = version.rsplit_once('/').unwrap_or(("", version));
        let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, of("kind")));
        let metadata = &object["metadata"];
        let api: Api<DynamicObject> = match metadata["namespace"].as_str() {
            Some(namespace) => Api::namespaced_with(cluster.client.clone(), namespace, &resource),
            None => Api::all_with(cluster.client.clone(), &resource),
        };
        let params = PatchParams {
            dry_run,
            ..PatchParams::apply("helm").validation(ValidationDirective::Strict)
        };
        let name = metadata["name"].as_str().context("an object has no name")?;
        let applied = api.patch(name, &params, &Patch::Apply(object)).await;
        applied.with_context(|| format!("the API server refuses {object}"))?;
    }
    Ok(())
}

fn of_kind<'a>(objects: &'a [Value], kind: &str) -> Vec<&'a Value> {
    objects
        .iter()
        .filter(|object| object["kind"] == kind)
        .collect()
}

fn deployment(objects: &[Value]) -> Result<Deployment> {
    let found = of_kind(objects, "Deployment");
    let found = found.first().context("there is no Deployment")?;
    Ok(serde_json::from_value((*found).clone())?)
}

fn pod_spec(deployment: &Deployment) -> Result<PodSpec> {
    let spec = deployment.spec.template.spec.clone();
    spec.context("it has no pods")
}

/// The roles, bindings and accounts of a list, without their labels. The host's account and namespaces are left out.
fn roles(objects: &[Value]) -> BTreeSet<String> {
    let is_role = |object: &&Value| {
        let kind = object["kind"].as_str().unwrap_or_default();
        let is_of_host = object["metadata"]["name"] == "flyball";
        kind.contains("Role") || kind == "ServiceAccount" && !is_of_host
    };
    let bare = |object: &Value| {
        let mut object = object.clone();
        if let Some(metadata) = object["metadata"].as_object_mut() {
            metadata.remove("labels");
        }
        object.to_string()
    };
    objects.iter().filter(is_role).map(bare).collect()
}

#[tokio::test]
async fn the_chart_has_what_monitoring_needs_if_it_is_asked_for() -> Result<()> {
    const KINDS: [&str; 2] = ["ServiceMonitor", "NetworkPolicy"];
    let plain = render(Mode::Beside, &json!({})).await?;
    let has_none = |kind| of_kind(&plain, kind).is_empty();
    ensure!(KINDS.into_iter().all(has_none), "{plain:?}");
    let from = json!([{"namespaceSelector": {"matchLabels": {"a": "b"}}}]);
    let values = json!({
        "metricsReaders": [{"namespace": "monitoring", "name": "prometheus"}],
        "serviceMonitor": {"create": true, "interval": "15s"},
        "networkPolicy": {"create": true, "from": from},
    });
    let rendered = render(Mode::Beside, &values).await?;
    let [monitor, policy] =
        KINDS.map(|kind| of_kind(&rendered, kind).first().map(|one| &one["spec"]));
    let (monitor, policy) = (monitor.context("no monitor")?, policy.context("no policy")?);
    let service = of_kind(&rendered, "Service");
    let service = service.first().context("there is no Service")?;
    // It selects the Service, and the policy the pods, by these labels.
    let labels = &monitor["selector"]["matchLabels"];
    for (name, value) in labels.as_object().context("no labels")? {
        assert_eq!(service["metadata"]["labels"][name], *value);
        assert_eq!(service["spec"]["selector"][name], *value);
        assert_eq!(policy["podSelector"]["matchLabels"][name], *value);
    }
    let port = &service["spec"]["ports"][0];
    assert_eq!(monitor["endpoints"][0]["port"], port["name"]);
    assert_eq!(monitor["endpoints"][0]["interval"], "15s");
    assert_eq!(policy["ingress"][0]["ports"][0]["port"], port["targetPort"]);
    assert_eq!(policy["ingress"][0]["from"], from);
    let role = roles(&rendered);
    ensure!(
        role.iter().any(|role| role.contains("/metrics/slis"))
            && role.iter().any(|role| role.contains("prometheus")),
        "{role:?}"
    );
    let accepted = ["NetworkPolicy", "ClusterRole", "ClusterRoleBinding"];
    let accepted: Vec<Value> = rendered
        .iter()
        .filter(|object| accepted.iter().any(|kind| object["kind"] == *kind))
        .cloned()
        .collect();
    let cluster = Cluster::for_plugins().await?;
    let namespace =
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}});
    let result = async {
        apply(&cluster, &[namespace], false).await?;
        apply(&cluster, &accepted, true).await
    };
    let result = result.await;
    finish(cluster, [], result).await
}

#[tokio::test]
async fn without_values_the_chart_has_exactly_the_printed_roles_of_the_host() -> Result<()> {
    let printed = host_output(&["rbac", "--host"])?;
    let chart = deploy().join("helm/flyball");
    assert_eq!(
        fs::read_to_string(chart.join("files/host-roles.yaml"))?,
        printed,
        "write what `flyball rbac --host` prints into the file"
    );
    let rendered = render(Mode::Beside, &json!({})).await?;
    assert_eq!(roles(&rendered), roles(&read(&printed)?));
    let in_place = render(Mode::InPlace, &json!({})).await?;
    let bindings = of_kind(&in_place, "ClusterRoleBinding");
    let bound: Vec<&Value> = bindings
        .iter()
        .map(|binding| &binding["roleRef"]["name"])
        .collect();
    assert_eq!(bound, ["system:kube-controller-manager"]);
    assert_eq!(roles(&in_place).len(), 1);
    let version = format!("\nappVersion: {}\n", env!("CARGO_PKG_VERSION"));
    let described = fs::read_to_string(chart.join("Chart.yaml"))?;
    assert!(described.contains(&version), "{described}");
    Ok(())
}

#[tokio::test]
async fn the_server_accepts_the_chart_with_the_values_of_both_modes_and_with_others() -> Result<()>
{
    let cluster = Cluster::for_plugins().await?;
    let result = accepted(&cluster).await;
    finish(cluster, [], result).await
}

async fn accepted(cluster: &Cluster) -> Result<()> {
    let namespace =
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}});
    apply(cluster, &[namespace], false).await?;
    for mode in [Mode::Beside, Mode::InPlace] {
        let objects = render(mode, &json!({})).await?;
        for kind in ["Deployment", "PodDisruptionBudget", "ConfigMap", "Service"] {
            assert_eq!(of_kind(&objects, kind).len(), 1, "{mode:?}: {kind}");
        }
        assert_eq!(
            objects[0]["metadata"]["labels"]["app.kubernetes.io/name"],
            "flyball"
        );
        apply(cluster, &objects, true).await?;
    }
    let digest = format!("sha256:{}", "a".repeat(64));
    let values = json!({
        "mode": "in-place",
        "image": {"repository": "registry.example.com/flyball", "digest": digest, "pullPolicy": "Always"},
        "imagePullSecrets": [{"name": "pull"}],
        "replicas": 1,
        "policyConfigMap": "own",
        "registrySecret": "registry",
        "rbac": {"create": false},
        "serviceAccount": {"name": "other", "annotations": {"example.com/a": "b"}},
        "inPlace": {"controllers": ["*", "tokencleaner"], "keys": {"secret": "keys", "signingKey": ""}},
        "verbosity": 4,
        "extraArgs": ["--kube-api-qps=100"],
        "extraEnv": [{"name": "SSL_CERT_FILE", "value": "/etc/authorities/ca.crt"}],
        "extraVolumes": [{"name": "authorities", "configMap": {"name": "authorities"}}],
        "extraVolumeMounts": [{"name": "authorities", "mountPath": "/etc/authorities"}],
        "securePort": 8443,
        "resources": {"limits": {"memory": "1Gi"}},
        "volumes": {"state": "2Gi", "cache": "3Gi"},
        "priorityClassName": "",
        "terminationGracePeriodSeconds": 60,
        "podDisruptionBudget": {"create": false},
        "service": {"create": false},
        "nodeSelector": {"kubernetes.io/os": "linux"},
        "tolerations": [{"operator": "Exists"}],
        "affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [
            {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"a": "b"}}},
        ]}},
        "topologySpreadConstraints": [],
        "podLabels": {"a": "b"},
        "podAnnotations": {"c": "d"},
    });
    let objects = render(Mode::Beside, &values).await?;
    apply(cluster, &objects, true).await?;
    let kinds: Vec<&Value> = objects.iter().map(|object| &object["kind"]).collect();
    assert_eq!(kinds, ["ServiceAccount", "Deployment"]);
    let deployment = deployment(&objects)?;
    let pod = pod_spec(&deployment)?;
    let container = &pod.containers[0];
    assert_eq!(
        container.image,
        Some(format!("registry.example.com/flyball@{digest}"))
    );
    assert_eq!(
        container.args.clone().unwrap_or_default(),
        [
            "--controllers=*,tokencleaner",
            "--use-service-account-credentials=true",
            "--root-ca-file=/var/run/secrets/kubernetes.io/serviceaccount/ca.crt",
            "--service-account-private-key-file=/etc/flyball/keys/sa.key",
            "--policy=/etc/flyball/policy",
            "--secure-port=8443",
            "--v=4",
            "--kube-api-qps=100",
        ]
    );
    let volumes = pod.volumes.iter().flatten();
    let volumes: Vec<&str> = volumes.map(|volume| volume.name.as_str()).collect();
    assert_eq!(
        volumes,
        [
            "policy",
            "state",
            "cache",
            "registry",
            "keys",
            "authorities"
        ]
    );
    assert_eq!(pod.service_account_name.as_deref(), Some("other"));
    assert_eq!(pod.termination_grace_period_seconds, Some(60));
    assert_eq!(pod.priority_class_name, None);
    for (values, named) in [
        (json!({"replica": 3}), "replica"),
        (json!({"mode": "instead"}), "mode"),
    ] {
        let refused = render(Mode::Beside, &values).await;
        let error = refused.expect_err("the schema refuses it").to_string();
        ensure!(error.contains(named), "{error}");
    }
    Ok(())
}

#[tokio::test]
async fn beside_kube_controller_manager_the_rendered_host_runs_a_plugin_of_a_registry() -> Result<()>
{
    let name = "beside_kube_controller_manager_the_rendered_host_runs_a_plugin_of_a_registry";
    if let Some(reason) = unable() {
        return skip(name, reason);
    }
    let cluster = audited().await?;
    let result = async {
        let registry = Registry::start().await?;
        let greeter = guest("greeter")?.display().to_string();
        let to = format!("oci://{}/team/greeter:1.0", registry.address());
        let package = host_output(&["push", &greeter, &to])?;
        let grants = host_output(&["policy", &greeter])?;
        let header = "[plugins.greeter]\n";
        let sourced = format!("{header}source = \"{}\"\n", package.trim());
        let policy = cluster.plane.dir().join("greeter.toml");
        fs::write(&policy, grants.replacen(header, &sourced, 1))?;
        let path = policy.display().to_string();
        let of_host = host_output(&["rbac", "--host", "--policy", &path])?;
        let of_plugin = host_output(&["rbac", "--policy", &path, &greeter])?;
        let values = json!({
            "policy": {"greeter.toml": fs::read_to_string(&policy)?},
            "rbac": {"host": of_host, "plugins": {"greeter": of_plugin}},
            "securePort": cluster.plane.spare_port(),
        });
        let objects = render(Mode::Beside, &values).await?;
        assert_eq!(
            roles(&objects),
            roles(&read(&format!("{of_host}\n---\n{of_plugin}"))?)
        );
        let mut host = install(&cluster, &objects).await?;
        let worked = async {
            greeted(&cluster.client, "greeted").await?;
            answers_probes(&cluster, &deployment(&objects)?).await?;
            let status = host.stop().await?;
            ensure!(status.success(), "the host ended with {status}");
            let used = refused_nothing(&cluster)?;
            ensure!(used.contains(HOST_USER), "the host sent nothing: {used:?}");
            Ok(())
        };
        explained(worked.await, &host)
    };
    let result = result.await;
    finish(cluster, [], result).await
}

#[tokio::test]
async fn in_place_of_kube_controller_manager_the_rendered_host_creates_the_pods_of_its_deployment()
-> Result<()> {
    let name =
        "in_place_of_kube_controller_manager_the_rendered_host_creates_the_pods_of_its_deployment";
    if let Some(reason) = unable() {
        return skip(name, reason);
    }
    let cluster = audited().await?;
    let result = async {
        let values = json!({
            "inPlace": {"keys": {"secret": "keys"}},
            "securePort": cluster.plane.spare_port(),
        });
        let objects = render(Mode::InPlace, &values).await?;
        let keys = [
            ("sa.key", cluster.plane.service_account_key_file()),
            ("ca.crt", cluster.plane.root_ca_file()),
            ("ca.key", cluster.plane.ca_key_file()),
        ];
        let keys = keys.map(|(name, file)| Ok((name, fs::read_to_string(file)?)));
        let keys: BTreeMap<_, _> = keys.into_iter().collect::<Result<_>>()?;
        let secret = json!({
            "apiVersion": "v1", "kind": "Secret", "metadata": {"name": "keys", "namespace": NAMESPACE}, "stringData": keys,
        });
        let all = [&[secret], objects.as_slice()].concat();
        let mut host = install(&cluster, &all).await?;
        let worked = async {
            until("the replicas of the chart are created", async || {
                let pods: Api<PodObject> = Api::namespaced(cluster.client.clone(), NAMESPACE);
                let labels = ListParams::default().labels("app.kubernetes.io/instance=flyball");
                let pods = pods.list(&labels).await?.items;
                Ok(match pods.len() {
                    3 => Ok(()),
                    _ => Err(format!("{} pods", pods.len())),
                })
            })
            .await?;
            until_authority(&cluster).await?;
            answers_probes(&cluster, &deployment(&objects)?).await?;
            let status = host.stop().await?;
            ensure!(status.success(), "the host ended with {status}");
            let used = refused_nothing(&cluster)?;
            let controller = "system:serviceaccount:kube-system:replicaset-controller";
            ensure!(
                used.contains(HOST_USER) && used.contains(controller),
                "{used:?}"
            );
            Ok(())
        };
        explained(worked.await, &host)
    };
    let result = result.await;
    finish(cluster, [], result).await
}

async fn audited() -> Result<Cluster> {
    Cluster::without_nodes(Options {
        scheduler: false,
        audit: true,
        ..Options::default()
    })
    .await
}

/// Applies the objects in a namespace that refuses pods with privileges, and starts a replica of the Deployment.
async fn install(cluster: &Cluster, objects: &[Value]) -> Result<Running> {
    let namespace = json!({
        "apiVersion": "v1", "kind": "Namespace",
        "metadata": {"name": NAMESPACE, "labels": {"pod-security.kubernetes.io/enforce": "restricted"}},
    });
    apply(cluster, &[namespace], false).await?;
    apply(cluster, objects, false).await?;
    let spec = pod_spec(&deployment(objects)?)?;
    // Creates a pod, because the namespace checks privileges of pods alone.
    let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "flyball-0", "namespace": NAMESPACE}, "spec": spec});
    apply(cluster, &[pod], true).await?;
    let pod = Pod {
        spec: &spec,
        volumes: volumes(cluster, &spec).await?,
        account: Some(account(cluster, &spec).await?),
        apiserver_port: port(cluster)?,
    };
    pod.start(cluster.plane.dir(), "replica")
}

fn port(cluster: &Cluster) -> Result<u16> {
    let (_, port) = cluster.plane.url().rsplit_once(':').context("no port")?;
    Ok(port.parse()?)
}

/// The folders of the volumes with the content of ConfigMaps and Secrets.
async fn volumes<'a>(cluster: &Cluster, spec: &'a PodSpec) -> Result<BTreeMap<&'a str, PathBuf>> {
    let mut folders = BTreeMap::new();
    for volume in spec.volumes.iter().flatten() {
        let client = cluster.client.clone();
        let files = match (&volume.config_map, &volume.secret) {
            (Some(map), _) => {
                let map = Api::<ConfigMap>::namespaced(client, NAMESPACE)
                    .get(&map.name)
                    .await?;
                let data = map.data.unwrap_or_default().into_iter();
                data.map(|(name, text)| (name, text.into_bytes())).collect()
            }
            (_, Some(secret)) => {
                let name = secret.secret_name.as_deref().unwrap_or_default();
                let secret = Api::<Secret>::namespaced(client, NAMESPACE)
                    .get(name)
                    .await?;
                let data = secret.data.unwrap_or_default().into_iter();
                data.map(|(name, bytes)| (name, bytes.0)).collect()
            }
            _ => continue,
        };
        let folder = cluster.plane.dir().join(format!("volume-{}", volume.name));
        projected(&folder, USER, &files)?;
        folders.insert(volume.name.as_str(), folder);
    }
    Ok(folders)
}

/// The folder with the token of the pod's account and the authority of the API server.
async fn account(cluster: &Cluster, spec: &PodSpec) -> Result<PathBuf> {
    let name = spec.service_account_name.as_deref();
    let token = cluster.token(NAMESPACE, name.unwrap_or("default")).await?;
    let files = [
        ("token", token),
        ("ca.crt", cluster.plane.ca_pem()),
        ("namespace", NAMESPACE.to_owned()),
    ];
    let files = files.map(|(name, text)| (name.to_owned(), text.into_bytes()));
    let folder = cluster.plane.dir().join("account");
    projected(&folder, USER, &files.into())?;
    Ok(folder)
}

/// Sends the requests of the container's probes, as the kubelet does: without credentials.
async fn answers_probes(cluster: &Cluster, deployment: &Deployment) -> Result<()> {
    let spec = pod_spec(deployment)?;
    let container = &spec.containers[0];
    let probes = [
        &container.startup_probe,
        &container.liveness_probe,
        &container.readiness_probe,
    ];
    for probe in probes {
        let request = probe.as_ref().and_then(|probe| probe.http_get.as_ref());
        let request = request.context("a probe is missing")?;
        let ports = container.ports.iter().flatten();
        let port = ports.map(|port| port.container_port).next();
        ensure!(request.scheme.as_deref() == Some("HTTPS"), "{request:?}");
        let mut config =
            kube::Config::new(format!("https://127.0.0.1:{}", port.context("no port")?).parse()?);
        config.accept_invalid_certs = true;
        let client = kube::Client::try_from(config)?;
        let path = request.path.as_deref().context("a probe has no path")?;
        until(&format!("{path} is ok"), async || {
            let request = hyper::Request::get(path).body(Vec::new())?;
            let answer = client.request_text(request).await;
            Ok(answer.map(drop).map_err(|error| error.to_string()))
        })
        .await?;
    }
    let metrics = cluster
        .https(cluster.plane.spare_port(), "/metrics")
        .await?;
    ensure!(
        metrics.contains("leader_election_master_status"),
        "{metrics}"
    );
    Ok(())
}

/// Waits until the host has published the authority that its flags name.
async fn until_authority(cluster: &Cluster) -> Result<()> {
    let space = Space {
        client: cluster.client.clone(),
        name: "default".to_owned(),
    };
    until("the authority is published", async || {
        let map = space.api::<ConfigMap>().get_opt("kube-root-ca.crt").await?;
        let text = map.and_then(|map| map.data?.remove("ca.crt"));
        Ok(match text {
            Some(text) if text == cluster.plane.ca_pem() => Ok(()),
            other => Err(format!("{other:?}")),
        })
    })
    .await
}

/// Fails if a request of the host, of a controller or of a plugin was refused. Returns all of these users.
fn refused_nothing(cluster: &Cluster) -> Result<BTreeSet<String>> {
    let events = cluster.plane.audit_events()?;
    let mut users = BTreeSet::new();
    for event in &events {
        let user = event["user"]["username"].as_str().unwrap_or_default();
        if !user.starts_with("system:serviceaccount:") {
            continue;
        }
        if event["responseStatus"]["code"] == 403 {
            bail!("the API server refused a request: {event}");
        }
        users.insert(user.to_owned());
    }
    Ok(users)
}

/// Adds the end of the host's log to an error.
fn explained(result: Result<()>, host: &Running) -> Result<()> {
    let log = log_of(host.process())?;
    result.with_context(|| format!("the log of the host ends with:\n{}", last_lines(&log)))
}
