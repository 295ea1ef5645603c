//! A plugin is a package that the policy names. Each promise of `docs/publishing.md` about such plugins holds: whatever
//! is wrong with the next package, the previous one continues to run, and the next one takes over once it is corrected.

use std::fs;
use std::path::PathBuf;

use anyhow::{Result, ensure};
use flyball_cluster_tests::{
    Cluster, finish, greeted, guest, host_output, replace, stamped, until,
};
use flyball_controlplane::Registry;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

const HOST: &str = "host";
const GREETER: &str = "greeter";
/// Nothing listens there.
const DOWN: &str = "127.0.0.1:1";

/// A public key whose private key was discarded.
const KEY: &str = "\
-----BEGIN PUBLIC KEY-----
MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAEFiXzFncsxhiv0mpfCzaRfXRS5LRj
idhIRw1df/CRaZTiBeNTQO9poeJAFeWFT/hZRttZWADLK6n50NubeAuyww==
-----END PUBLIC KEY-----
";

/// The host, the registry, and the policy that names a package.
struct Scene {
    cluster: Cluster,
    registry: Registry,
    policy: PathBuf,
    /// The output of `flyball policy`.
    grants: String,
}

impl Scene {
    async fn set() -> Result<Self> {
        let cluster = Cluster::for_plugins().await?;
        let registry = Registry::start().await?;
        let greeter = guest("greeter")?.display().to_string();
        let roles = host_output(&["rbac", "-o", "json", &greeter])?;
        cluster.apply(&roles).await?;
        fs::write(cluster.plane.dir().join("key.pem"), KEY)?;
        Ok(Self {
            policy: cluster.plane.dir().join("policy.toml"),
            grants: host_output(&["policy", &greeter])?,
            cluster,
            registry,
        })
    }

    /// Pushes a version of the greeter. Returns the package's address and the file's digest.
    fn push(&self, version: &str) -> Result<(String, String)> {
        let wasm = stamped(&fs::read(guest("greeter")?)?, version);
        let file = self.cluster.plane.dir().join(format!("{version}.wasm"));
        fs::write(&file, &wasm)?;
        let to = format!("oci://{}/team/greeter:{version}", self.registry.address());
        let pushed = host_output(&["push", &file.display().to_string(), &to])?;
        let digest: String = Sha256::digest(&wasm)
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect();
        Ok((pushed.trim().to_owned(), digest))
    }

    /// Lets the policy name a package. `more` are further lines of it.
    fn name(&self, package: &str, more: &str) -> Result<()> {
        let header = format!("[plugins.{GREETER}]\n");
        let named = format!("{header}source = \"{package}\"\n{more}");
        let policy = self.grants.replacen(&header, &named, 1);
        replace(&self.policy, policy.as_bytes())
    }

    /// Lets the policy name a package, and another one as a candidate, in this table with further lines.
    fn name_candidate(
        &self,
        package: &str,
        table: &str,
        candidate: &str,
        more: &str,
    ) -> Result<()> {
        self.name(package, "")?;
        let named = fs::read_to_string(&self.policy)?;
        let candidate = format!("\n[plugins.{GREETER}.{table}]\nsource = \"{candidate}\"\n{more}");
        replace(&self.policy, (named + &candidate).as_bytes())
    }

    /// Waits until the candidate is as wanted. The command of its table shows it.
    async fn until_candidate(&self, table: &str, is_met: impl Fn(&Value) -> bool) -> Result<Value> {
        until(&format!("the {table} is as wanted"), async || {
            let command = [table, GREETER, "-o", "json"];
            let shown = self.cluster.operator_command(HOST, &command);
            let shown = shown.unwrap_or_else(|error| json!(error.to_string()).to_string());
            let status: Value = serde_json::from_str(&shown)?;
            Ok(if is_met(&status) {
                Ok(status)
            } else {
                Err(shown)
            })
        })
        .await
    }

    async fn until(&self, what: &str, is_met: impl FnMut(&Value) -> bool) -> Result<Value> {
        self.cluster.until_plugin(HOST, GREETER, what, is_met).await
    }

    /// Waits until this version runs and the status says nothing else.
    async fn runs(&self, digest: &str) -> Result<()> {
        let is_it = |status: &Value| {
            status["state"] == "running" && status["digest"] == digest && status["reason"].is_null()
        };
        self.until(&format!("runs {digest}"), is_it).await.map(drop)
    }

    /// Waits until the status says why the next package doesn't run, while this version does.
    async fn goes_on(&self, digest: &str, why_not: &str) -> Result<()> {
        let goes_on = |status: &Value| {
            let reason = status["reason"].as_str().unwrap_or_default();
            status["state"] == "running" && status["digest"] == digest && reason.contains(why_not)
        };
        self.until(&format!("goes on: {why_not}"), goes_on)
            .await
            .map(drop)
    }
}

#[tokio::test]
async fn packages_keep_the_promises_of_the_docs() -> Result<()> {
    let scene = Scene::set().await?;
    let plugins = scene.cluster.folder_with("plugins", &[])?;
    let (package, first) = scene.push("first")?;
    scene.name(&package, "signed-by = \"key.pem\"\n")?;
    let args = Cluster::plugins_alone(&plugins, &scene.policy);
    let kubeconfig = scene.cluster.plane.kubeconfig_path().to_owned();
    let host = scene.cluster.spawn_host(HOST, &kubeconfig, &args)?;
    let result = async {
        // The host runs only packages that the key signed.
        let unsigned = |status: &Value| {
            let reason = status["reason"].as_str().unwrap_or_default();
            status["state"] == "failed" && reason.contains("is not signed")
        };
        scene.until("is not signed", unsigned).await?;
        scene.name(&package, "")?;
        scene.runs(&first).await?;
        let status = scene.until("runs", |_| true).await?;
        ensure!(status["origin"] == *package, "another origin: {status}");
        greeted(&scene.cluster.client, "greeted").await?;

        // Files with this plugin's name are refused.
        let file = plugins.join("greeter.wasm");
        fs::copy(guest("greeter")?, &file)?;
        scene.goes_on(&first, "both hold a plugin").await?;
        fs::remove_file(&file)?;
        scene.runs(&first).await?;

        next_packages(&scene, &first).await
    };
    let result = result.await;
    finish(scene.cluster, [host], result).await
}

/// A package of this registry that nobody has pushed.
fn unpushed(registry: &str) -> String {
    let digest = "0".repeat(64);
    format!("oci://{registry}/team/greeter@sha256:{digest}")
}

async fn next_packages(scene: &Scene, first: &str) -> Result<()> {
    // A registry that is down, and a package that nobody pushed.
    scene.name(&unpushed(DOWN), "")?;
    scene.goes_on(first, "can't pull").await?;
    let missing = unpushed(scene.registry.address());
    scene.name(&missing, "")?;
    scene.goes_on(first, "can't find").await?;

    // Another key, and a key that isn't there.
    let (package, second) = scene.push("second")?;
    scene.name(&package, "signed-by = \"key.pem\"\n")?;
    scene.goes_on(first, "is not signed").await?;
    scene.name(&package, "signed-by = \"no-key.pem\"\n")?;
    scene.goes_on(first, "no-key.pem").await?;

    // A layer that was changed in the registry. Once it is corrected, the policy need not be changed.
    let layer = scene.registry.blob(&second);
    let intact = fs::read(&layer)?;
    let mut changed = intact.clone();
    changed[intact.len() - 1] ^= 1;
    fs::write(&layer, changed)?;
    scene.name(&package, "")?;
    scene.goes_on(first, "does not match its digest").await?;
    fs::write(&layer, intact)?;
    scene.runs(&second).await?;

    // The way back and forth.
    let roll_back = |to: &[&str]| {
        let command = [&["rollback", GREETER], to].concat();
        scene.cluster.operator_command(HOST, &command)
    };
    roll_back(&[])?;
    scene.runs(first).await?;
    roll_back(&["--forward"])?;
    scene.runs(&second).await?;
    scene.name(&missing, "")?;
    scene.goes_on(&second, "can't find").await?;
    roll_back(&[])?;
    scene.goes_on(first, "can't find").await?;
    let (package, third) = scene.push("third")?;
    scene.name(&package, "")?;
    scene.runs(&third).await
}

#[tokio::test]
async fn the_candidates_of_a_shadow_and_of_a_canary_are_packages_too() -> Result<()> {
    let scene = Scene::set().await?;
    let plugins = scene.cluster.folder_with("plugins", &[])?;
    let (package, first) = scene.push("first")?;
    scene.name(&package, "")?;
    let args = Cluster::plugins_alone(&plugins, &scene.policy);
    let kubeconfig = scene.cluster.plane.kubeconfig_path().to_owned();
    let host = scene.cluster.spawn_host(HOST, &kubeconfig, &args)?;
    let result = async {
        scene.runs(&first).await?;
        let down = unpushed(DOWN);
        for (table, reason) in [("shadow", "reason"), ("canary", "waitsFor")] {
            scene.name_candidate(&package, table, &down, "")?;
            let says_why = |status: &Value| {
                let reason = status[reason].as_str();
                reason.is_some_and(|reason| reason.contains("can't pull"))
            };
            scene.until_candidate(table, says_why).await?;
        }
        let (candidate, second) = scene.push("second")?;
        scene.name_candidate(&package, "shadow", &candidate, "")?;
        let is_called =
            |status: &Value| status["state"] == "running" && status["digest"] == *second;
        let status = scene.until_candidate("shadow", is_called).await?;
        ensure!(status["file"] == *candidate, "another file: {status}");
        greeted(&scene.cluster.client, "in-the-shadow").await?;
        let is_the_same = |status: &Value| {
            let findings = &status["findings"];
            let groups = findings["groups"].as_array();
            findings["same"].as_u64() > Some(3) && groups.is_none_or(Vec::is_empty)
        };
        scene.until_candidate("shadow", is_the_same).await?;

        let rollout = "steps = [\"90%\"]\ninterval = \"1s\"\ncalls = 1\n\
                       thresholds = { p99 = 1000.0, writes = 1000.0 }\n";
        scene.name_candidate(&package, "canary", &candidate, rollout)?;
        let has_all_keys = |status: &Value| {
            status["state"] == "promoted" && status["candidate"]["digest"] == *second
        };
        let status = scene.until_candidate("canary", has_all_keys).await?;
        ensure!(status["origin"] == *candidate, "another origin: {status}");
        greeted(&scene.cluster.client, "by-the-candidate").await?;
        // The operator makes it the plugin's package, and the canary ends.
        scene.name(&candidate, "")?;
        scene.runs(&second).await?;
        greeted(&scene.cluster.client, "afterwards").await
    };
    let result = result.await;
    finish(scene.cluster, [host], result).await
}
