//! The enabled controllers of kube-controller-manager that Flyball does not have. The log and `flyball status` tell
//! what a cluster lacks without them. An operator who replaces kube-controller-manager must let it run exactly these
//! controllers.

use flyball_controllers::find;
use flyball_manager::PluginStatus;

/// The consequence for a cluster in which nothing else runs this controller, as a clause.
pub(crate) fn consequence(controller: &str) -> &'static str {
    let found = find(controller).and_then(|found| found.without);
    found.unwrap_or("nothing does its work")
}

/// The status of a controller that is enabled and missing.
pub(crate) fn status(controller: &str) -> PluginStatus {
    let consequence = consequence(controller);
    let reason = format!(
        "Flyball does not have it yet: {consequence}, unless a kube-controller-manager runs it beside this process"
    );
    PluginStatus::missing(controller, reason)
}
