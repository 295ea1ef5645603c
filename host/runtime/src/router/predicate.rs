//! The conditions on a delta that decide whether a mapping applies to it.

use flyball_cache::{Delta, Object};
use flyball_types::FieldPath;
use flyball_types::description::{DeltaType, Having, Mapping, Unless};

/// Selects the deltas that a mapping applies to.
pub(super) struct Predicate {
    orphans: bool,
    deleting: bool,
    having: Values,
    /// Whether `having` requires a finalizer.
    requires_finalizer: bool,
    /// Fields of which at least one must hold a string; empty if none is required.
    having_any: Vec<FieldPath>,
    /// Values that the newest version must not have. Without a value, the field must hold no string.
    unless: Vec<(FieldPath, Option<String>)>,
    on: Vec<DeltaType>,
}

/// Values that fields must have.
pub(super) struct Values(Vec<(FieldPath, String)>);

impl Predicate {
    pub(super) fn new(mapping: &Mapping) -> Option<Self> {
        let having = Values::parse(&mapping.having)?;
        let finalizers = FieldPath::of_fields(&["metadata", "finalizers"]);
        let requires_finalizer = having.0.iter().any(|(path, _)| *path == finalizers);
        let having_any = mapping.having_any.iter().map(|path| path.parse().ok());
        let unless = mapping
            .unless
            .iter()
            .map(|Unless { path, value }| Some((path.parse().ok()?, value.clone())));
        let (orphans, deleting) = (mapping.orphans, mapping.deleting);
        Some(Self {
            orphans,
            deleting,
            having,
            requires_finalizer,
            having_any: having_any.collect::<Option<_>>()?,
            unless: unless.collect::<Option<_>>()?,
            on: mapping.on.clone(),
        })
    }

    pub(super) fn is_on(&self, delta_type: DeltaType) -> bool {
        self.on.is_empty() || self.on.contains(&delta_type)
    }

    /// Whether it applies to this type of delta, and the newest version has no excluded value.
    pub(super) fn selects(&self, delta: &Delta) -> bool {
        self.is_on(delta.delta_type())
            && delta
                .versions()
                .last()
                .is_none_or(|newest| !self.excludes(newest))
    }

    /// Whether an object has a value that it must not have.
    fn excludes(&self, object: &Object) -> bool {
        self.unless.iter().any(|(path, value)| {
            let mut own = object.strings(path).into_iter();
            own.any(|own| value.as_ref().is_none_or(|value| *value == own))
        })
    }

    pub(super) fn matches(&self, object: &Object) -> bool {
        self.may_match(object) && self.having.are_in(object) && self.has_any(object)
    }

    fn has_any(&self, object: &Object) -> bool {
        let is_present = |path: &FieldPath| !object.strings(path).is_empty();
        self.having_any.is_empty() || self.having_any.iter().any(is_present)
    }

    /// Whether it may match an object, judged without decoding it.
    pub(super) fn may_match(&self, object: &Object) -> bool {
        (!self.orphans || object.controller().is_none())
            && (!self.deleting || object.is_deleting())
            && (!self.requires_finalizer || object.finalizers() > 0)
    }
}

impl Values {
    pub(super) fn parse(values: &[Having]) -> Option<Self> {
        values
            .iter()
            .map(|Having { path, value }| Some((path.parse().ok()?, value.clone())))
            .collect::<Option<_>>()
            .map(Self)
    }

    /// Whether an object has all of them.
    pub(super) fn are_in(&self, object: &Object) -> bool {
        self.0
            .iter()
            .all(|(path, value)| object.strings(path).iter().any(|own| own == value))
    }
}
