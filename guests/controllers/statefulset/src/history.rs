//! The revisions of a StatefulSet: the current one, the update revision, and old ones.
//!
//! Upstream: pkg/controller/statefulset/stateful_set_control.go: getStatefulSetRevisions, truncateHistory,
//! ListRevisions, setMatchesLatestExistingRevision.
//! Upstream: pkg/controller/statefulset/stateful_set_utils.go: newRevision, nextRevision, ApplyRevision.

use std::collections::BTreeSet;

use flyball_pods::PodTemplate;
use flyball_revisions::{
    ControllerRevision, NewRevision, create, data, latest_equal, next_number, set_number, surplus,
    template,
};
use flyball_sdk::prelude::*;

use crate::equivalence;
use crate::pod::Revision;
use crate::views::{Annotated, Pod, StatefulSet, Status};

/// How many old revisions are kept by default.
const DEFAULT_LIMIT: usize = 10;
/// The gate by which a template equals a revision also if only defaults differ.
pub const SEMANTIC_COMPARISON: &str = "StatefulSetSemanticRevisionComparison";

/// The revisions of a set.
#[derive(Debug)]
pub struct History {
    /// All revisions that existed before, oldest first.
    all: Vec<ControllerRevision>,
    current: ControllerRevision,
    update: ControllerRevision,
    collisions: i32,
}

impl History {
    /// Finds the revision of the set's template among `all`, oldest first. It becomes the newest one
    /// if it is not, and is created if there is none.
    ///
    /// # Errors
    /// A request failed.
    pub fn resolve(
        host: &Host,
        set: &StatefulSet,
        all: Vec<ControllerRevision>,
    ) -> Result<Self, Error> {
        let data = data(&set.template);
        let mut collisions = set.status.collision_count.unwrap_or(0);
        let newest = all.last();
        let is_equivalent = |one: &&ControllerRevision| is_equivalent(host, set, one, &data);
        let update = if let Some(equal) = newest.filter(|newest| newest.data == data) {
            equal.clone()
        } else if let Some(older) = latest_equal(&all, &data) {
            set_number(host, older.clone(), next_number(&all))?
        } else if let Some(equivalent) = newest.filter(is_equivalent) {
            equivalent.clone()
        } else {
            let new = new_revision(host, set, data, next_number(&all))?;
            create(host, &set.meta, StatefulSet::KIND, &new, &mut collisions)?
        };
        let current = all
            .iter()
            .find(|one| one.meta.name == set.status.current_revision);
        Ok(Self {
            current: current.unwrap_or(&update).clone(),
            update,
            collisions,
            all,
        })
    }

    /// The name of the revision to update to.
    pub fn update(&self) -> &str {
        &self.update.meta.name
    }

    /// A status with these revisions and the set's conditions, without counters.
    pub fn status(&self, set: &StatefulSet) -> Status {
        Status {
            conditions: set.status.conditions.clone(),
            current_revision: self.current.meta.name.clone(),
            update_revision: self.update.meta.name.clone(),
            collision_count: Some(self.collisions),
            ..Status::default()
        }
    }

    /// Returns the current or the update revision, for creating pods.
    ///
    /// # Errors
    /// The revision does not restore a template.
    pub fn revision(&self, set: &StatefulSet, is_current: bool) -> Result<Revision, Error> {
        let revision = if is_current {
            &self.current
        } else {
            &self.update
        };
        let meta = &revision.meta;
        let restored = template(&revision.data)
            .doing(|| format!("restoring ControllerRevision {}", meta.key()))?
            .unwrap_or_else(|| set.template.clone());
        let template: Option<PodTemplate> = restored.parse()?;
        Ok(Revision {
            name: meta.name.clone(),
            template: template.unwrap_or_default(),
        })
    }

    /// Deletes the oldest revisions that no pod has, down to the set's limit.
    ///
    /// # Errors
    /// A request failed.
    pub fn truncate(&self, host: &Host, set: &StatefulSet, pods: &[Pod]) -> Result<(), Error> {
        let deletions = self
            .to_delete(set, pods)
            .into_iter()
            .map(|revision| Write::delete_exactly(ControllerRevision::KIND, &revision.meta));
        let results = host.batch().extend(deletions).stop_on_error().run();
        for result in results {
            result
                .found()
                .doing(|| "deleting an old ControllerRevision".into())?;
        }
        Ok(())
    }

    fn to_delete(&self, set: &StatefulSet, pods: &[Pod]) -> Vec<&ControllerRevision> {
        let used = [&self.current, &self.update].map(|one| one.meta.name.as_str());
        let used: BTreeSet<&str> = pods.iter().map(Pod::revision).chain(used).collect();
        let is_live = |one: &ControllerRevision| used.contains(one.meta.name.as_str());
        let limit = match set.revision_history_limit {
            Some(limit) => usize::try_from(limit).unwrap_or(usize::MAX),
            None => DEFAULT_LIMIT,
        };
        let old = self.all.iter().filter(|one| !is_live(one)).count();
        surplus(&self.all, old.saturating_sub(limit), is_live).collect()
    }
}

/// Whether the gate allows to compare by meaning and the revision restores the set's template.
fn is_equivalent(
    host: &Host,
    set: &StatefulSet,
    revision: &ControllerRevision,
    proposed: &Raw,
) -> bool {
    host.feature_enabled(SEMANTIC_COMPARISON)
        && template(&revision.data).is_ok_and(|restored| {
            let restored = restored.unwrap_or_else(|| set.template.clone());
            data(&equivalence::with_defaults(&restored)) == *proposed
        })
}

/// A revision of the set's template. It has the template's labels and the set's annotations.
fn new_revision(
    host: &Host,
    set: &StatefulSet,
    data: Raw,
    revision: i64,
) -> Result<NewRevision, Error> {
    let template: Option<PodTemplate> = set.template.parse()?;
    let annotated = host.get_by_key::<Annotated>(&set.meta.key())?;
    Ok(NewRevision {
        labels: template.unwrap_or_default().metadata.labels,
        annotations: annotated.unwrap_or_default().meta.annotations,
        data,
        revision,
    })
}
