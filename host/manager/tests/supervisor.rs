//! The supervisor at work on real files, with a guest that the build makes and an API server that can't be reached.

mod support;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

use flyball_fakes::guest::{self, FOR_AN_HOUR, SLEEP};
use flyball_manager::{
    AdminHandle, DropIns, Manager, PluginState, PluginStatus, RequestError, RollbackTo,
};
use flyball_policy::grant::Grants;
use flyball_serving::Metrics;
use tokio_util::sync::CancellationToken;

use self::support::options;

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

/// A component whose `describe` sleeps for an hour.
fn sleeper() -> Vec<u8> {
    guest::component(&format!(
        r#"(module
        {SLEEP}
        (memory (export "memory") 1)
        (func (export "cabi_realloc") (param i32 i32 i32 i32) (result i32) (i32.const 1024))
        (func (export "flyball:controller/guest@0.2.0#describe") (result i32) {FOR_AN_HOUR} (i32.const 0))
        (func (export "flyball:controller/guest@0.2.0#reconcile") (param i32 i32 i32 i32 i32) (result i32) (i32.const 0))
        (func (export "flyball:controller/guest@0.2.0#route") (param i32 i32) (result i32) (i32.const 0)))"#
    ))
}

async fn load(plugins: &Path, policy: &Path, state: &Path) -> Manager {
    let options = options("http://127.0.0.1:1", &Metrics::new(), 16);
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
    assert_eq!(admin.approve("nobody", BTreeSet::new()).await, Err(unknown));

    // Once it is answered, the plugin is granted; then it waits for the API server.
    admin
        .approve(&name, BTreeSet::new())
        .await
        .expect("it is approved");
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

/// More files than may describe themselves at once sleep in `describe`. The policy names the other plugin only.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_describe_that_sleeps_holds_up_no_other_plugin_and_the_status_tells_of_it() {
    const SLEEPERS: usize = 5;
    let home = tempfile::tempdir().expect("a folder");
    let [plugins, policy, state] =
        ["plugins", "policy.toml", "state"].map(|name| home.path().join(name));
    std::fs::create_dir(&plugins).expect("a folder");
    std::fs::write(&policy, "[plugins.greeter]\n").expect("a file");
    let wasm = sleeper();
    for number in 0..SLEEPERS {
        let file = plugins.join(format!("a-sleeper-{number}.wasm"));
        std::fs::write(file, &wasm).expect("a file");
    }
    let manager = load(&plugins, &policy, &state).await;
    let (admin, shutdown) = (manager.admin(), CancellationToken::new());
    let running = tokio::spawn(manager.run(shutdown.clone()));

    let reasons = |status: &[PluginStatus]| -> Vec<String> {
        let sleepers = status.iter().filter(|plugin| {
            plugin.state == PluginState::Loading && plugin.name.contains("a-sleeper")
        });
        let reasons = sleepers.filter_map(|plugin| plugin.reason.clone());
        reasons.collect()
    };
    let count = |reasons: &[String], text: &str| {
        let matching = reasons.iter().filter(|reason| reason.contains(text));
        matching.count()
    };
    let all_wait = |status: &[PluginStatus]| {
        let reasons = reasons(status);
        let sleep = count(&reasons, "its `describe` is running");
        let wait = count(&reasons, "waits for its turn to describe itself");
        sleep > 0 && wait > 0 && sleep + wait == SLEEPERS
    };
    until(&admin, "each sleeper tells its step", all_wait).await;

    std::fs::write(plugins.join("greeter.wasm"), component("greeter")).expect("a file");
    let is_loaded = |status: &[PluginStatus]| {
        let mut all = status.iter();
        all.any(|plugin| plugin.name == "greeter" && !plugin.version.is_empty())
    };
    let status = until(&admin, "the other plugin is loaded", is_loaded).await;
    assert_eq!(reasons(&status).len(), SLEEPERS, "they sleep: {status:?}");

    shutdown.cancel();
    let ended = tokio::time::timeout(DEADLINE, running).await;
    let ended = ended.expect("it ends in time").expect("no panic");
    ended.expect("no lease can be lost");
}
