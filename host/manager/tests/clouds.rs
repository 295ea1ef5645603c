//! A cloud's provider and a controller that calls it, in one manager without an API server: the provider fails, is replaced
//! in the middle of calls, and is removed. The controller goes on.

mod support;

use std::path::Path;
use std::time::Duration;

use flyball_fakes::cloud;
use flyball_manager::{AdminHandle, DropIns, Manager, PluginState, PluginStatus};
use flyball_policy::grant::Grants;
use flyball_serving::Metrics;
use tokio_util::sync::CancellationToken;

use self::support::options;

/// The time limit of each wait. Only a fault takes this long.
const DEADLINE: Duration = Duration::from_secs(60);

const POLICY: &str = r#"
    [plugins.caller]
    imports = ["cloud"]
    cloud-provider = "sample"
    [plugins.sample]
    file = "sample.wasm"
    limits = { cpu = "100ms" }
"#;

/// A manager of a folder, until it is dropped.
struct Host {
    plugins: tempfile::TempDir,
    metrics: Metrics,
    admin: AdminHandle,
    shutdown: CancellationToken,
}

impl Host {
    /// Starts a manager with a controller that calls these methods again and again, and a provider.
    async fn start(methods: &[&str]) -> Self {
        let plugins = tempfile::tempdir().expect("a folder");
        let policy = plugins.path().join("policy.toml");
        std::fs::write(&policy, POLICY).expect("a file");
        let metrics = Metrics::new();
        let manager = load(plugins.path(), &policy, &metrics).await;
        let (admin, shutdown) = (manager.admin(), CancellationToken::new());
        tokio::spawn(manager.run(shutdown.clone()));
        let host = Self {
            plugins,
            metrics,
            admin,
            shutdown,
        };
        let ticker = |method: &&str| format!(r#"{{"key": "{method}", "periodMs": 100}}"#);
        let tickers: Vec<String> = methods.iter().map(ticker).collect();
        let description = format!(
            r#"{{"format": 1, "name": "caller", "queues": [{{"name": "q"}}], "imports": ["cloud"], "tickers": [{}]}}"#,
            tickers.join(", ")
        );
        host.put("caller.wasm", &cloud::caller(&description));
        host.provide("1");
        host
    }

    /// Writes this version of the provider.
    fn provide(&self, version: &str) {
        let description = format!(
            r#"{{"format": 1, "name": "sample", "version": "{version}", "queues": [{{"name": "q"}}]}}"#
        );
        self.put("sample.wasm", &cloud::provider(&description));
    }

    fn put(&self, name: &str, component: &[u8]) {
        std::fs::write(self.plugins.path().join(name), component).expect("a file");
    }

    /// How many calls of a method had this result.
    fn calls(&self, method: &str, result: &str) -> u64 {
        let series = format!(
            "flyball_cloud_calls_total{{method=\"{method}\",provider=\"sample\",result=\"{result}\"}} "
        );
        let text = self.metrics.render();
        let mut lines = text.lines();
        let count = lines.find_map(|line| line.strip_prefix(&series));
        count.map_or(0, |count| count.parse().expect("a number"))
    }

    /// Waits until this holds.
    async fn until(&self, what: &str, is_so: impl Fn(&[PluginStatus]) -> bool) {
        let asking = async {
            while !is_so(&self.admin.status().await.expect("the manager runs")) {
                tokio::task::yield_now().await;
            }
        };
        let ended = tokio::time::timeout(DEADLINE, asking).await;
        ended.unwrap_or_else(|_| panic!("not in time: {what}"));
    }

    /// Waits until a method was called once more with this result.
    async fn until_called(&self, method: &str, result: &str) {
        let before = self.calls(method, result);
        let what = format!("{method}: {result}");
        self.until(&what, |_| self.calls(method, result) > before)
            .await;
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        self.shutdown.cancel();
    }
}

async fn load(plugins: &Path, policy: &Path, metrics: &Metrics) -> Manager {
    let options = options("http://127.0.0.1:1", metrics, 64);
    let drop_ins = DropIns {
        folders: vec![plugins.to_owned()],
        policy: Some(policy.to_owned()),
        versions: None,
        grants: Grants::default(),
        enabled: Box::new(|_| true),
    };
    let loaded = Manager::load(options, drop_ins, &[]).await;
    loaded.expect("the manager loads")
}

fn is_running(status: &[PluginStatus], name: &str, version: &str) -> bool {
    let mut all = status.iter();
    all.any(|plugin| {
        plugin.name == name && plugin.version == version && plugin.state == PluginState::Running
    })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_failure_of_a_provider_is_the_error_of_one_call() {
    let host = Host::start(&["InstanceExists", "unreachable", "loop"]).await;
    host.until_called("InstanceExists", "success").await;
    // Methods of no name of the world are counted together.
    host.until_called("other", "failed").await;
    host.until_called("other", "failed").await;
    host.until_called("InstanceExists", "success").await;
    assert_eq!(host.calls("InstanceExists", "failed"), 0);
    host.until("the controller runs on", |status| {
        is_running(status, "caller", "")
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_provider_is_replaced_and_removed_while_it_is_called() {
    let host = Host::start(&["InstanceExists"]).await;
    host.until_called("InstanceExists", "success").await;
    for version in ["2", "3"] {
        host.provide(version);
        host.until("the new version runs", |status| {
            is_running(status, "sample", version)
        })
        .await;
        host.until_called("InstanceExists", "success").await;
    }
    assert_eq!(host.calls("InstanceExists", "failed"), 0);
    std::fs::remove_file(host.plugins.path().join("sample.wasm")).expect("it is there");
    host.until("the provider is gone", |status| {
        status.iter().all(|plugin| plugin.name != "sample")
    })
    .await;
    host.until("the controller runs on", |status| {
        is_running(status, "caller", "")
    })
    .await;
    host.provide("4");
    host.until_called("InstanceExists", "success").await;
}
