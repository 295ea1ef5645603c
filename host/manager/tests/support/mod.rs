//! Options of a manager for tests.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use flyball_cache::ListMode;
use flyball_manager::{Options, PluginOptions, Telemetry};
use flyball_plugin::{Engine, EngineOptions};
use flyball_serving::{DebugPages, HealthChecks, Metrics};
use flyball_signer::Signer;
use flyball_traces::Tracer;

/// Options for an API server, without leader election and limits of requests.
pub(crate) fn options(url: &str, metrics: &Metrics, max_instances: u32) -> Options {
    let engine = EngineOptions {
        max_instances,
        ..EngineOptions::default()
    };
    Options {
        migration: None,
        cluster: kube::Config::new(url.parse().expect("a URL")),
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
            allow_untagged_cloud: false,
            shown_as: BTreeMap::new(),
            lookups: BTreeMap::new(),
        },
        telemetry: Telemetry {
            metrics: metrics.clone(),
            health: HealthChecks::default(),
            debug: DebugPages::default(),
            tracer: Tracer::default(),
        },
    }
}
