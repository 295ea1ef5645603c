//! The manager: loads plugins, starts, replaces and stops them, and elects the process whose plugins act.

mod admin;
mod manager;
mod plugins;

pub use admin::AdminHandle;
pub use manager::{Manager, ManagerError, Migration, Options};
pub use plugins::canary::{
    CanaryState, CanaryStatus, CandidateOrigin, Did, NamedVersion, Position,
};
pub use plugins::details::PluginDetails;
pub use plugins::inspect::{Inspection, inspect};
pub use plugins::load::{BuiltIn, PluginError};
pub use plugins::recordings::Recordings;
pub use plugins::requests::RequestError;
pub use plugins::rollback::RollbackTo;
pub use plugins::served::ServedKind;
pub use plugins::shadows::{ShadowState, ShadowStatus};
pub use plugins::status::{PluginDescription, PluginState, PluginStatus};
pub use plugins::{DropIns, PluginOptions, Telemetry};
