//! The supervisor at work on real files, with a guest that the build makes and an API server that can't be reached.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use flyball_cache::ListMode;
use flyball_manager::{
    AdminHandle, DropIns, Manager, Options, PluginOptions, PluginState, PluginStatus, RequestError,
    RollbackTo, Telemetry,
};
use flyball_plugin::{Engine, EngineOptions};
use flyball_policy::grant::Grants;
use flyball_serving::{DebugPages, HealthChecks, Metrics};
use flyball_signer::Signer;
use tokio_util::sync::CancellationToken;

/// The time limit of each wait. Only a fault takes this long.
const DEADLINE: Duration = Duration::from_secs(60);

/// A component that the build of the guests makes.
fn component(name: &str) -> Vec<u8> {
    let target = std::env::var_os("CARGO_TARGET_DIR").map(PathBuf::from);
    let target =
        target.unwrap_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target"));
    let path = target.join(format!("guests/components/{name}.wasm"));
    std::fs::read(&path).unwrap_or_else(|error| {
        panic!(
            "{}: {error}: make it with `cargo xtask guests rust`",
            path.display()
        )
    })
}

async fn load(plugins: &Path, policy: &Path, state: &Path) -> Manager {
    let engine = EngineOptions {
        max_instances: 16,
        ..EngineOptions::default()
    };
    let options = Options {
        migration: None,
        cluster: kube::Config::new("http://127.0.0.1:1".parse().expect("a URL")),
        list_mode: ListMode::default(),
        holder_identity: "test".into(),
        leader_election: None,
        plugins: PluginOptions {
            engine: Engine::new(engine).expect("an engine"),
            signer: Arc::new(Signer::default()),
            qps: 0.0,
            burst: 1,
            use_service_account_credentials: false,
            drain: Duration::from_secs(1),
            start_interval: Duration::ZERO,
            resync_period: Duration::ZERO,
            resync_periods: BTreeMap::new(),
            lookups: BTreeMap::new(),
        },
        telemetry: Telemetry {
            metrics: Metrics::new(),
            health: HealthChecks::default(),
            debug: DebugPages::default(),
        },
    };
    let drop_ins = DropIns {
        folders: vec![plugins.to_owned()],
        policy: Some(policy.to_owned()),
        versions: Some(state.to_owned()),
        grants: Grants::default(),
        enabled: Box::new(|_| true),
    };
    let loaded = Manager::load(options, drop_ins, &[]).await;
    loaded.expect("the manager loads")
}

/// Asks for the status until it is as wanted.
async fn until(
    admin: &AdminHandle,
    what: &str,
    is_so: impl Fn(&[PluginStatus]) -> bool,
) -> Vec<PluginStatus> {
    let asking = async {
        loop {
            let status = admin.status().await.expect("the manager runs");
            if is_so(&status) {
                return status;
            }
            tokio::task::yield_now().await;
        }
    };
    let status = tokio::time::timeout(DEADLINE, asking).await;
    status.unwrap_or_else(|_| panic!("not in time: {what}"))
}

fn is(status: &[PluginStatus], state: PluginState) -> bool {
    matches!(status, [plugin] if plugin.state == state)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_plugin_is_loaded_granted_and_removed_while_the_host_runs() {
    let home = tempfile::tempdir().expect("a folder");
    let [plugins, policy, state] =
        ["plugins", "policy", "state"].map(|name| home.path().join(name));
    std::fs::create_dir(&plugins).expect("a folder");
    let file = plugins.join("greeter.wasm");
    std::fs::write(&file, component("greeter")).expect("a file");
    let manager = load(&plugins, &policy, &state).await;
    let (admin, shutdown) = (manager.admin(), CancellationToken::new());
    let running = tokio::spawn(manager.run(shutdown.clone()));

    let pending = |status: &[PluginStatus]| is(status, PluginState::Pending);
    let status = until(&admin, "it waits for a policy", pending).await;
    let name = status[0].name.clone();
    let reason = status[0].reason.as_deref().unwrap_or_default();
    assert!(
        reason.starts_with("pending: no policy grants it"),
        "{reason}"
    );
    let refused = admin
        .roll_back(&name, RollbackTo::Previous)
        .await
        .expect_err("nothing ran");
    assert!(
        refused.to_string().contains("no other version"),
        "{refused}"
    );
    let unknown = RequestError::Unknown("nobody".into());
    assert_eq!(admin.approve("nobody").await, Err(unknown));

    // Once it is answered, the plugin is granted; then it waits for the API server.
    admin.approve(&name).await.expect("it is approved");
    let status = admin.status().await.expect("the manager runs");
    assert!(is(&status, PluginState::Starting), "{status:?}");
    let waits = |status: &[PluginStatus]| {
        let reason = status.first().and_then(|plugin| plugin.reason.as_deref());
        reason.is_some_and(|reason| reason.contains("the API server"))
    };
    until(&admin, "it waits for the API server", waits).await;

    // The operator takes the grant away again.
    std::fs::remove_file(policy.join(format!("{name}.toml"))).expect("the policy was written");
    until(&admin, "its grant is revoked", pending).await;

    let broken = plugins.join("broken.wasm");
    std::fs::write(&broken, "no component").expect("a file");
    let has_failed = |status: &[PluginStatus]| {
        let mut all = status.iter();
        all.any(|plugin| plugin.state == PluginState::Failed && plugin.name.contains("broken"))
    };
    until(&admin, "a file that is no plugin is shown", has_failed).await;

    std::fs::remove_file(&broken).expect("it is there");
    std::fs::remove_file(&file).expect("it is there");
    until(&admin, "what is removed is shown no more", |status| {
        status.is_empty()
    })
    .await;

    shutdown.cancel();
    let ended = tokio::time::timeout(DEADLINE, running).await;
    let ended = ended.expect("it ends in time").expect("no panic");
    ended.expect("no lease can be lost");
}
