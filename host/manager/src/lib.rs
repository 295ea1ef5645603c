//! The manager: wires reflectors, router, workqueues, guests and the writer together.
//!
//! Its modules lie in rooms. A room imports only from the rooms before it:
//!
//! | room | holds |
//! |---|---|
//! | [`policy`] | what the operator grants, and whether a plugin may run |
//! | `limits` | rate limits, host limits, quarantine |
//! | `api` | the API server: connections, requests and their credentials, fence, lease, events, access reviews |
//! | `signer` | keys and certificate authorities that sign for plugins |
//! | `reads` | reads by guests |
//! | `writer` | writes by guests |
//! | `runtime` | one plugin at work: router, queues, workers, calls, memo, history |
//! | `plugins` | the life of plugins: files, packages, loading, starting, rollback, supervisor |
//! | `admin` | the operator's handle |
//! | `manager` | wires the rooms |

mod admin;
mod api;
#[doc(hidden)]
pub mod fuzzing;
mod limits;
mod manager;
mod plugins;
pub mod policy;
mod reads;
mod runtime;
mod signer;
mod writer;

pub use admin::AdminHandle;
pub use api::host_rights;
pub use api::lease::{CandidateVersions, LeaderElection, LeaseLost};
pub use api::rights::{HostRight, HostScope, HostVerb};
pub use manager::{Manager, ManagerError, Migration, Options};
pub use plugins::inspect::{Inspection, inspect};
pub use plugins::load::{BuiltIn, PluginError};
pub use plugins::requests::RequestError;
pub use plugins::rollback::RollbackTo;
pub use plugins::status::{PluginDescription, PluginState, PluginStatus};
pub use plugins::{PluginOptions, Sources, Telemetry};
pub use policy::grant::{ACCOUNTS_NAMESPACE, Grants};
pub use runtime::history::{Failure, Performance, Reconciled};
pub use signer::{AuthorityError, KeyError, Signer};

/// How the caches list.
pub use flyball_cache::ListMode;
/// The verbs that the host needs on what plugins watch.
pub use flyball_cache::source::VERBS as WATCH_VERBS;
