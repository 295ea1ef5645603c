//! The life of plugins: files and packages are followed, loaded, granted what the policy says, started, replaced and
//! stopped.
//!
//! In the order of a plugin's life: `files.rs` follows folders and `packages.rs` pulls packages; `load.rs` compiles
//! them and has them describe themselves, as many at once as `load_turns.rs` lets; `open.rs` opens what a version
//! watches; `start.rs` starts it; `canary.rs` lets a candidate take over its keys; `rollback.rs` keeps the versions that ran. `plan.rs` decides on all of that, as a pure
//! function; `supervisor.rs` carries it out.

pub(crate) mod canary;
pub(crate) mod details;
pub(crate) mod files;
pub(crate) mod inspect;
pub(crate) mod load;
pub(crate) mod load_turns;
pub(crate) mod metrics;
pub(crate) mod open;
pub(crate) mod packages;
pub(crate) mod plan;
pub(crate) mod recordings;
pub(crate) mod requests;
pub(crate) mod rollback;
pub(crate) mod served;
pub(crate) mod shadows;
pub(crate) mod start;
pub(crate) mod status;
pub(crate) mod supervisor;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use flyball_plugin::Engine;
use flyball_policy::grant::Grants;
use flyball_runtime::context::Lookup;
use flyball_serving::{DebugPages, HealthChecks, Metrics};
use flyball_signer::Signer;
use flyball_traces::Tracer;

/// Options that all plugins run with.
pub struct PluginOptions {
    /// Runs the guests.
    pub engine: Engine,
    /// The keys that sign for guests.
    pub signer: Arc<Signer>,
    /// Requests per second that each plugin may send to the API server; 0 for no limit.
    pub qps: f64,
    /// Requests at once.
    pub burst: u32,
    /// Whether each built-in acts with the credentials of its own service account.
    pub use_service_account_credentials: bool,
    /// How long a plugin that is stopped may take to end.
    pub drain: Duration,
    /// How long each built-in waits before it begins; the pause is longer by a random factor of up to 2.
    pub start_interval: Duration,
    /// How often each built-in goes through all objects of its own kind; zero for never. The pause is longer by a
    /// random factor of up to 2.
    pub resync_period: Duration,
    /// The periods of some built-ins, by name.
    pub resync_periods: BTreeMap<String, Duration>,
    /// Whether a cloud may lack an ID of the cluster.
    pub allow_untagged_cloud: bool,
    /// The built-ins that the metrics show as another component's: that component's name, and its name of them.
    pub shown_as: BTreeMap<String, (&'static str, &'static str)>,
    /// The configuration values of some built-ins that are looked up when a guest asks for them, by name.
    pub lookups: BTreeMap<String, Arc<Lookup>>,
}

/// The log, metrics and health checks that plugins report to.
#[derive(Clone)]
pub struct Telemetry {
    pub metrics: Metrics,
    /// Each running plugin has a check.
    pub health: HealthChecks,
    /// Pages of plugins under `/debug`.
    pub debug: DebugPages,
    pub tracer: Tracer,
}

/// Where drop-ins come from, and the rules that decide on them.
pub struct DropIns {
    /// Folders whose `.wasm` files are plugins. They are followed.
    pub folders: Vec<PathBuf>,
    /// The operator's policy, a file or a folder. It is followed.
    pub policy: Option<PathBuf>,
    /// The folder for versions that the operator can roll back to, and for pulled packages; none to keep none.
    pub versions: Option<PathBuf>,
    /// The grants at the start.
    pub grants: Grants,
    /// Whether a plugin of this name is enabled.
    pub enabled: Box<dyn Fn(&str) -> bool + Send + Sync>,
}
