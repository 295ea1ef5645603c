//! Translates a watch of a description to the interest that an informer is opened with.

use std::sync::Arc;

use flyball_cache::{ApiResource, Interest, Scope};
use flyball_types::description::{Change, Description, To, Watch};
use flyball_types::{FieldPath, Mask};

/// Returns the interest of a watch in this kind; none if its selectors do not parse, which was checked before.
pub(crate) fn interest(
    description: &Description,
    watch: &Watch,
    resource: Arc<ApiResource>,
) -> Option<Interest> {
    let scope = Scope {
        namespace: watch.namespace.clone(),
        labels: watch.label_selector.parse().ok()?,
        fields: watch.field_selector.parse().ok()?,
    };
    let mut mask = Mask::parse(&watch.fields).ok()?;
    // The fields that mappings and predicates read are kept too.
    let changes = watch.changes.iter().filter_map(|change| match change {
        Change::Path(path) => path.parse::<FieldPath>().ok(),
        _ => None,
    });
    let named = watch.map.iter().filter_map(|mapping| match &mapping.to {
        To::Named { path, .. } => path.parse::<FieldPath>().ok(),
        _ => None,
    });
    let having = watch
        .map
        .iter()
        .flat_map(|mapping| &mapping.having)
        .filter_map(|having| having.path.parse().ok());
    let kind = &resource.kind;
    let mappings = description.watches.iter().flat_map(|watch| &watch.map);
    let (selectors, whose): (Vec<_>, Vec<_>) = mappings
        .filter_map(|mapping| match &mapping.to {
            To::Selecting {
                kind: selecting,
                path,
                whose,
            } if selecting == kind => Some((path, whose)),
            _ => None,
        })
        .unzip();
    let selectors = selectors
        .into_iter()
        .filter_map(|path| path.parse().ok())
        .collect();
    let whose = whose
        .into_iter()
        .flatten()
        .filter_map(|whose| whose.path.parse().ok());
    changes
        .chain(named)
        .chain(having)
        .chain(whose)
        .for_each(|path| mask.add(&path));
    let indexes = description
        .indexes
        .iter()
        .filter(|index| index.kind == *kind);
    let indexes = indexes
        .filter_map(|index| index.path.parse().ok())
        .collect();
    let metadata_only = watch.metadata_only || watch.discovered.is_some();
    Some(Interest {
        resource,
        scope,
        metadata_only,
        mask,
        indexes,
        selectors,
    })
}
