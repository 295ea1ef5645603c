//! Translates a watch of a description to the interest that an informer is opened with.

use std::sync::Arc;

use flyball_cache::{ApiResource, Interest, Scope};
use flyball_types::Mask;
use flyball_types::description::{Description, Watch};

/// Returns the interest of a watch in this kind; none if its selectors do not parse, which was checked before.
pub fn interest(
    description: &Description,
    watch: &Watch,
    resource: Arc<ApiResource>,
) -> Option<Interest> {
    let scope = Scope {
        namespace: watch.namespace.clone(),
        labels: watch.label_selector.parse().ok()?,
        fields: watch.field_selector.parse().ok()?,
    };
    let paths = description.watched_paths(watch, &resource.kind);
    let mask = Mask::of(&paths.fields).ok()?;
    let metadata_only = watch.metadata_only || watch.discovered.is_some();
    Some(Interest {
        resource,
        scope,
        metadata_only,
        mask,
        indexes: paths.indexes,
        selectors: paths.selectors,
    })
}
