//! The conditions on a delta that decide whether a mapping applies to it.

use flyball_cache::{Object, Seen};
use flyball_reads::lookup::Lookup;
use flyball_types::description::{DeltaType, Having, Mapping, Unless};
use flyball_types::{FieldPath, Kind, strings_in};

use super::columns::{Column, ColumnsOf};

/// Selects the deltas that a mapping applies to.
pub(super) struct Predicate {
    orphans: bool,
    deleting: bool,
    /// Values that fields must have.
    having: Vec<(Column, String)>,
    /// Whether `having` requires a finalizer.
    requires_finalizer: bool,
    /// Fields of which at least one must hold a string; empty if none is required.
    having_any: Vec<Column>,
    /// Values that the newest version must not have. Without a value, the field must hold no string.
    unless: Vec<(Column, Option<String>)>,
    on: Vec<DeltaType>,
    /// Kinds of which one must have an object in the namespace; empty if none is required.
    while_any: Vec<Kind>,
}

/// Values that the fields of an object of another kind must have.
pub(super) struct Values(Vec<(FieldPath, String)>);

impl Predicate {
    /// The predicate of a mapping. Adds what it reads to the columns. None if a path does not parse.
    pub(super) fn new(mapping: &Mapping, columns: &mut ColumnsOf) -> Option<Self> {
        let mut requires_finalizer = false;
        let mut having = Vec::new();
        for Having { path, value } in &mapping.having {
            requires_finalizer |= path == "metadata.finalizers";
            having.push((columns.add(path)?, value.clone()));
        }
        let having_any = mapping.having_any.iter().map(|path| columns.add(path));
        let having_any = having_any.collect::<Option<_>>()?;
        let unless = mapping.unless.iter();
        let unless = unless.map(|Unless { path, value }| Some((columns.add(path)?, value.clone())));
        Some(Self {
            orphans: mapping.orphans,
            deleting: mapping.deleting,
            having,
            requires_finalizer,
            having_any,
            unless: unless.collect::<Option<_>>()?,
            on: mapping.on.clone(),
            while_any: mapping.while_any.clone(),
        })
    }

    pub(super) fn is_on(&self, delta_type: DeltaType) -> bool {
        self.on.is_empty() || self.on.contains(&delta_type)
    }

    /// Whether it applies to this type of delta, and the newest version has no excluded value.
    pub(super) fn selects(&self, seen: &Seen<'_>) -> bool {
        self.is_on(seen.delta().delta_type())
            && seen
                .versions()
                .last()
                .is_none_or(|(newest, _)| !self.excludes(seen, newest))
    }

    /// Whether a version has a value that it must not have.
    fn excludes(&self, seen: &Seen<'_>, version: usize) -> bool {
        self.unless.iter().any(|(column, value)| match value {
            Some(value) => has_string(seen, version, *column, value),
            None => has_some_string(seen, version, *column),
        })
    }

    pub(super) fn matches(&self, seen: &Seen<'_>, version: usize, object: &Object) -> bool {
        let mut having = self.having.iter();
        let mut any = self.having_any.iter();
        self.may_match(object)
            && having.all(|(column, value)| has_string(seen, version, *column, value))
            && (self.having_any.is_empty()
                || any.any(|column| has_some_string(seen, version, *column)))
    }

    /// Whether it may match an object, judged by its metadata.
    pub(super) fn may_match(&self, object: &Object) -> bool {
        (!self.orphans || object.controller().is_none())
            && (!self.deleting || object.is_deleting())
            && (!self.requires_finalizer || object.finalizers() > 0)
    }

    /// Whether the caches hold what the mapping needs besides the object.
    pub(super) fn is_possible(&self, object: &Object, lookup: &impl Lookup) -> bool {
        let mut kinds = self.while_any.iter();
        self.while_any.is_empty() || kinds.any(|kind| lookup.has_any(kind, object.namespace()))
    }
}

/// Whether a version of a delta has a string at a column.
pub(super) fn has_some_string(seen: &Seen<'_>, version: usize, column: Column) -> bool {
    let mut values = seen.values_of(version, column);
    values.any(|value| strings_in(value).next().is_some())
}

/// Whether a version of a delta has this string at a column.
fn has_string(seen: &Seen<'_>, version: usize, column: Column, wanted: &str) -> bool {
    let mut values = seen.values_of(version, column);
    values.any(|value| strings_in(value).any(|own| own == wanted))
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
