//! The objects of a watch, for the routing of its deltas. Routing gets no lister. It can only tell whether the plugin
//! sees an object, and reduce the object for the plugin's `route`.

use std::sync::Arc;

use flyball_cache::{Lister, Object, Projection};
use flyball_policy::access::Access;
use flyball_types::Mask;

/// Tells which objects of a watch the plugin sees.
pub struct WatchView(Lister);

/// Reduces the objects of a watch to the part that the plugin's `route` may receive. Making one takes the policy's
/// decision.
#[derive(Clone)]
pub struct RouteView {
    lister: Lister,
    visible: Option<Arc<Mask>>,
}

impl WatchView {
    pub(super) fn new(lister: Lister) -> Self {
        Self(lister)
    }

    /// Whether the plugin sees this object.
    pub fn shows(&self, object: &Object) -> bool {
        self.0.shows(object)
    }
}

impl RouteView {
    pub(super) fn new(lister: Lister, access: Access) -> Self {
        let visible = access.mask().map(Arc::new);
        Self { lister, visible }
    }

    /// Returns the reduction of the objects; none if the decision shows fields that the view does not have, which would
    /// be a fault of the host.
    pub fn projection(&self) -> Option<Projection> {
        self.lister.projection(self.visible.as_ref()).ok()
    }
}
