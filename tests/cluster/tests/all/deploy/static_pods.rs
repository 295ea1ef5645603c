//! The static pods that replace kube-controller-manager.

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, chown};

use base64::Engine;
use base64::prelude::BASE64_STANDARD;

use super::*;

/// A static pod: its folder in `deploy/`, the path at which its credentials are mounted, and the kubelet's file for it.
struct StaticPod {
    folder: &'static str,
    credentials: &'static str,
}

const STATIC_PODS: [StaticPod; 2] = [
    StaticPod {
        folder: "kubeadm",
        credentials: "/etc/kubernetes/",
    },
    StaticPod {
        folder: "k3s",
        credentials: "/var/lib/rancher/k3s/server/",
    },
];

impl StaticPod {
    fn read(&self) -> Result<Value> {
        let file = deploy().join(self.folder).join("flyball.yaml");
        let text = fs::read_to_string(&file)?;
        let mut objects = read(&text)?;
        objects.pop().context("the file is empty")
    }

    /// The files that the flags name, in the folder of the credentials.
    fn files(&self, pod: &Value) -> BTreeSet<String> {
        let args = pod["spec"]["containers"][0]["args"].as_array();
        let args = args.into_iter().flatten().filter_map(Value::as_str);
        let values = args.filter_map(|arg| arg.split_once('='));
        let files = values.filter_map(|(_, value)| value.strip_prefix(self.credentials));
        files.map(str::to_owned).collect()
    }

    /// Creates the files as the README says: for the user of the pod alone.
    fn provide(&self, cluster: &Cluster, files: &BTreeSet<String>) -> Result<PathBuf> {
        let folder = cluster.plane.dir().join(self.folder);
        let mut contents = BTreeMap::from_iter(
            files
                .iter()
                .map(|file| Ok((file.clone(), self.content(cluster, file)?)))
                .collect::<Result<Vec<_>>>()?,
        );
        if self.folder == "k3s" {
            // The kubeconfig of k3s names these.
            let (certificate, key) = client(cluster)?;
            contents.insert("tls/client-controller.crt".to_owned(), certificate);
            contents.insert("tls/client-controller.key".to_owned(), key);
        }
        for (file, content) in contents {
            let file = folder.join(file);
            let parent = file.parent().context("a file has a folder")?;
            fs::create_dir_all(parent)?;
            fs::write(&file, content)?;
            fs::set_permissions(&file, Permissions::from_mode(0o400))?;
            for path in [&folder, parent, &file] {
                chown(path, Some(USER), Some(USER))?;
            }
        }
        Ok(folder)
    }

    fn content(&self, cluster: &Cluster, file: &str) -> Result<Vec<u8>> {
        let plane = &cluster.plane;
        let name = file.rsplit('/').next().unwrap_or_default();
        Ok(match name {
            "controller-manager.conf" => kubeconfig(
                cluster,
                |name, content| json!({format!("{name}-data"): BASE64_STANDARD.encode(content)}),
            )?,
            "controller.kubeconfig" => kubeconfig(cluster, |name, _| {
                let file = match name {
                    "certificate-authority" => "server-ca.crt",
                    "client-certificate" => "client-controller.crt",
                    _ => "client-controller.key",
                };
                json!({name: format!("{}tls/{file}", self.credentials)})
            })?,
            "sa.key" | "service.current.key" => fs::read(plane.service_account_key_file())?,
            _ if name.ends_with(".crt") => plane.ca_pem().into_bytes(),
            _ if name.ends_with(".key") => fs::read(plane.ca_key_file())?,
            other => bail!("the test does not know the file {other}"),
        })
    }
}

/// The certificate and the key of the user of kube-controller-manager.
fn client(cluster: &Cluster) -> Result<(Vec<u8>, Vec<u8>)> {
    let text = fs::read_to_string(cluster.plane.kcm_kubeconfig_path())?;
    let known: Value = serde_json::from_str(&text)?;
    let user = &known["users"][0]["user"];
    let content = |field: &str| -> Result<Vec<u8>> {
        Ok(fs::read(user[field].as_str().context("no file")?)?)
    };
    Ok((content("client-certificate")?, content("client-key")?))
}

/// A kubeconfig of the user of kube-controller-manager. `field` writes a certificate or a key.
fn kubeconfig(cluster: &Cluster, field: impl Fn(&str, &[u8]) -> Value) -> Result<Vec<u8>> {
    let (certificate, key) = client(cluster)?;
    let merged = |mut one: Value, other: Value| {
        flyball_cluster_tests::merge(&mut one, other);
        one
    };
    let of_cluster = merged(
        json!({"server": cluster.plane.url()}),
        field("certificate-authority", cluster.plane.ca_pem().as_bytes()),
    );
    let user = merged(
        field("client-certificate", &certificate),
        field("client-key", &key),
    );
    let text = json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "a",
        "clusters": [{"name": "a", "cluster": of_cluster}],
        "users": [{"name": "a", "user": user}],
        "contexts": [{"name": "a", "context": {"cluster": "a", "user": "a"}}],
    });
    Ok(text.to_string().into_bytes())
}

#[test]
fn the_readme_copies_every_file_that_the_flags_of_a_static_pod_name() -> Result<()> {
    let readme = fs::read_to_string(deploy().join("README.md"))?;
    for pod in &STATIC_PODS {
        let files = pod.files(&pod.read()?);
        assert!(files.len() > 4, "{files:?}");
        let unnamed = files.iter().filter(|file| !readme.contains(file.as_str()));
        assert_eq!(unnamed.count(), 0, "{files:?}");
    }
    Ok(())
}

#[test]
fn the_cluster_of_kind_fits_the_static_pod_of_kubeadm() -> Result<()> {
    let text = fs::read_to_string(deploy().join("kind/cluster.yaml"))?;
    let cluster = &read(&text)?[0];
    let mount = &cluster["nodes"][0]["extraMounts"][0]["hostPath"];
    let folder = mount.as_str().context("there is no mount")?;
    assert!(
        deploy()
            .join("..")
            .join(folder)
            .join("flyball.yaml")
            .is_file()
    );
    let pod = STATIC_PODS[0].read()?;
    let args = &pod["spec"]["containers"][0]["args"];
    let args = args.as_array().context("there are no flags")?;
    for (flag, range) in [
        ("cluster-cidr", "podSubnet"),
        ("service-cluster-ip-range", "serviceSubnet"),
    ] {
        let range = cluster["networking"][range].as_str().unwrap_or_default();
        assert!(
            args.contains(&json!(format!("--{flag}={range}"))),
            "{args:?}"
        );
    }
    Ok(())
}

#[tokio::test]
async fn the_static_pods_work_in_place_of_kube_controller_manager() -> Result<()> {
    let name = "the_static_pods_work_in_place_of_kube_controller_manager";
    if let Some(reason) = unable() {
        return skip(name, reason);
    }
    let cluster = Cluster::for_plugins().await?;
    let result = async {
        for pod in STATIC_PODS {
            work(&cluster, &pod)
                .await
                .with_context(|| format!("the static pod of {}", pod.folder))?;
        }
        Ok(())
    };
    let result = result.await;
    finish(cluster, [], result).await
}

async fn work(cluster: &Cluster, pod: &StaticPod) -> Result<()> {
    let object = pod.read()?;
    let files = pod.files(&object);
    // Another process of this machine may have the port.
    let port = cluster.plane.spare_port().to_string();
    let object: Value = serde_json::from_str(&object.to_string().replace("10257", &port))?;
    let spec: PodSpec = serde_json::from_value(object["spec"].clone())?;
    let host = Pod {
        spec: &spec,
        volumes: BTreeMap::from([("credentials", pod.provide(cluster, &files)?)]),
        account: None,
        apiserver_port: super::port(cluster)?,
    };
    let mut host = host.start(cluster.plane.dir(), &format!("{}-host", pod.folder))?;
    let worked = async {
        let space = Space::create(cluster.client.clone(), pod.folder).await?;
        space.deploy(2, "web:1", json!({})).await?;
        until("the Deployment has its pods", async || {
            let pods = space.pods().await?;
            Ok(match pods.len() {
                2 => Ok(()),
                _ => Err(format!("{} pods", pods.len())),
            })
        })
        .await?;
        // Kubelets create the pod in the API server without admission of a service account.
        let mut mirrored = object.clone();
        mirrored["spec"]["automountServiceAccountToken"] = json!(false);
        until("the namespace has its account", async || {
            let applied = apply(cluster, std::slice::from_ref(&mirrored), true).await;
            Ok(applied.map_err(|error| format!("{error:#}")))
        })
        .await?;
        let status = host.stop().await?;
        ensure!(status.success(), "the host ended with {status}");
        Ok(())
    };
    explained(worked.await, &host)
}
