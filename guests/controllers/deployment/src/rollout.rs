//! A Deployment being reconciled: its state, its ReplicaSets and the writes that change them.
//!
//! Changes to the Deployment (conditions, collision count, revision) are collected and written
//! once, by [`Rollout::save`]. ReplicaSets are written at once, and the next step sees the server's
//! response.
//!
//! Upstream: pkg/controller/deployment/sync.go: getAllReplicaSetsAndSyncRevision, getNewReplicaSet, scaleReplicaSet,
//! cleanupDeployment, syncDeploymentStatus.
//! Upstream: pkg/controller/deployment/rollback.go: rollbackToTemplate, updateDeploymentAndClearRollbackTo.

use flyball_sdk::debug;
use flyball_sdk::error::is_namespace_terminating;
use flyball_sdk::prelude::*;
use serde::Deserialize;

use crate::create;
use crate::history;
use crate::progress::{self, CREATE_FAILED, Step};
use crate::recreate;
use crate::revision::{self, REVISION};
use crate::rollback;
use crate::sets::{Resize, Sets};
use crate::template::Template;
use crate::views::{Deployment, Pod, ReplicaSet, Status};

/// The fields that a write returns so that the same object can be written again.
pub(crate) const VERSION_FIELDS: &[&str] = &["metadata.resourceVersion", "metadata.generation"];

pub struct Rollout<'a> {
    pub(crate) host: Host<'a>,
    /// The Deployment. Its status and revision may not be saved yet.
    pub deployment: Deployment,
    /// Its ReplicaSets.
    pub sets: Sets,
    /// The current time, for all decisions of this reconcile.
    pub now: Time,
    /// The status that the API server has.
    stored: Status,
    /// The revision that the API server has.
    stored_revision: Option<String>,
}

impl<'a> Rollout<'a> {
    /// A Deployment and the ReplicaSets that it owns.
    pub fn new(host: Host<'a>, deployment: Deployment, owned: Vec<ReplicaSet>) -> Self {
        let sets = Sets::split(&Template::of(&deployment.template), owned);
        let stored = deployment.status.clone();
        let stored_revision = deployment.meta.annotation(REVISION).map(str::to_owned);
        Self {
            host,
            deployment,
            sets,
            now: host.now(),
            stored,
            stored_revision,
        }
    }

    /// Updates the existing new ReplicaSet: its annotations, its revision and its `minReadySeconds`. Sets the
    /// Deployment's revision to the ReplicaSet's revision.
    ///
    /// # Errors
    /// The ReplicaSet could not be written.
    pub fn sync_new_set(&mut self) -> Result<(), Error> {
        let revision = revision::next(&self.sets.old);
        let Some(new) = &mut self.sets.new else {
            return Ok(());
        };
        let annotations = revision::of_new_set(&self.deployment, &new.meta.annotations, revision);
        let min_ready_seconds = self.deployment.min_ready_seconds;
        let mut change = json!({});
        for (key, value) in annotations
            .iter()
            .filter(|&(key, value)| new.meta.annotations.get(key) != Some(value))
        {
            change["metadata"]["annotations"][key] = value.as_str().into();
        }
        if new.min_ready_seconds != min_ready_seconds {
            change["spec"]["minReadySeconds"] = min_ready_seconds.into();
        }
        if change != json!({}) {
            let answer = self.host.write(
                Write::update(ReplicaSet::KIND, &new.meta, &change).returning(VERSION_FIELDS),
            )?;
            set_version(&mut new.meta, &answer)?;
            new.meta.annotations = annotations;
            new.min_ready_seconds = min_ready_seconds;
        }
        let revision = new.meta.annotation(REVISION).unwrap_or("").to_owned();
        let name = new.meta.name.clone();
        self.set_revision(revision);
        progress::record(&mut self.deployment, Step::Found(&name), self.now);
        Ok(())
    }

    /// Creates the new ReplicaSet if it does not exist.
    ///
    /// # Errors
    /// The creation failed. The status reports why. If another ReplicaSet has the name, the
    /// collision count is raised so that the next attempt uses another name.
    pub fn create_new_set(&mut self) -> Result<(), Error> {
        if self.sets.new.is_some() {
            return Ok(());
        }
        let revision = revision::next(&self.sets.old);
        let object = create::new_set(&self.deployment, &self.sets, revision);
        let name = object["metadata"]["name"].as_str().unwrap_or("").to_owned();
        let write = Write::create(ReplicaSet::KIND, &self.deployment.meta.namespace, &object)
            .returning(&["."]);
        let new = match self.host.write(write) {
            Ok(answer) => {
                let new: ReplicaSet = answer.parse()?;
                if new.replicas() > 0 {
                    self.report_scaling(&name, 0, new.replicas());
                }
                progress::record(&mut self.deployment, Step::Created(&name), self.now);
                new
            }
            Err(error) if error.is_already_exists() => self.find_existing(&name, error)?,
            Err(error) if is_namespace_terminating(&error) => return Err(error.into()),
            Err(error) => {
                let message = format!(
                    "Failed to create new replica set \"{name}\": {}",
                    error.message
                );
                progress::record(&mut self.deployment, Step::CreateFailed(&message), self.now);
                self.host.emit(Event::warning(
                    &self.deployment.meta.reference(Deployment::KIND),
                    CREATE_FAILED,
                    &message,
                ));
                return Err(error.into());
            }
        };
        self.sets.old.retain(|set| set.meta.uid != new.meta.uid);
        self.sets.new = Some(new);
        self.set_revision(revision.to_string());
        Ok(())
    }

    /// Returns the existing ReplicaSet with the name if it is the one to be created: a response may
    /// have been lost, or the cache may be stale. Otherwise the hash collides, and the collision is
    /// counted.
    fn find_existing(&mut self, name: &str, error: ApiError) -> Result<ReplicaSet, Error> {
        let existing = self
            .host
            .live()
            .get::<ReplicaSet>(&self.deployment.meta.namespace, name)?;
        match existing {
            Some(existing) if create::is_own(&self.deployment, &existing) => Ok(existing),
            Some(_) => {
                let collisions = self.deployment.status.collision_count.get_or_insert(0);
                *collisions += 1;
                debug!(
                    self.host,
                    "the name {name} belongs to another ReplicaSet, collision count is {collisions}"
                );
                Err(error.into())
            }
            None => Err(error.into()),
        }
    }

    /// Scales ReplicaSets and updates their size annotations. Returns whether any size changed.
    ///
    /// # Errors
    /// A write failed; no further write is started.
    pub fn resize(&mut self, resizes: &[Resize]) -> Result<bool, Error> {
        let sizes = revision::sizes(&self.deployment);
        let mut batch = self.host.tagged_batch().stop_on_error();
        for resize in resizes {
            let Some(set) = self.sets.named_mut(&resize.name) else {
                continue;
            };
            let mut change = json!({});
            for (key, size) in &sizes {
                if set.meta.annotation(key) != Some(size) {
                    change["metadata"]["annotations"][key] = size.as_str().into();
                }
            }
            if set.replicas() != resize.to {
                change["spec"]["replicas"] = resize.to.into();
            }
            if change != json!({}) {
                let update = Write::update(ReplicaSet::KIND, &set.meta, &change);
                batch = batch.with(resize, update.returning(VERSION_FIELDS));
            }
        }

        let mut scaled = false;
        let mut failure = None;
        for (resize, answer) in batch.run() {
            let Some(set) = self.sets.named_mut(&resize.name) else {
                continue;
            };
            match answer {
                Ok(answer) => {
                    set_version(&mut set.meta, &answer)?;
                    set.meta.annotations.extend(
                        sizes
                            .iter()
                            .map(|(key, size)| ((*key).to_owned(), size.clone())),
                    );
                    let before = set.replicas();
                    set.desired = Some(resize.to);
                    if before != resize.to {
                        scaled = true;
                        self.report_scaling(&resize.name, before, resize.to);
                    }
                }
                // The first error is the cause; the remaining writes were skipped.
                Err(error) => failure = failure.or(Some(error)),
            }
        }
        failure.map_or(Ok(scaled), |error| {
            Err(error).doing(|| "scaling a ReplicaSet".into())
        })
    }

    fn report_scaling(&self, name: &str, from: i64, to: i64) {
        let direction = if from < to { "up" } else { "down" };
        let message = format!("Scaled {direction} replica set {name} from {from} to {to}");
        self.host.emit(Event::normal(
            &self.deployment.meta.reference(Deployment::KIND),
            "ScalingReplicaSet",
            &message,
        ));
    }

    /// Whether a pod of an old ReplicaSet may still run.
    ///
    /// # Errors
    /// The pods can't be read.
    pub fn old_pods_run(&self) -> Result<bool, Error> {
        if recreate::counts_pods(&self.sets.old) {
            return Ok(true);
        }
        for set in &self.sets.old {
            let pods = self
                .host
                .list::<Pod>()
                .namespace(&set.meta.namespace)
                .controller(&set.meta.uid)
                .all()?;
            if pods.iter().any(recreate::may_run) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Deletes old ReplicaSets beyond the revision history limit.
    ///
    /// # Errors
    /// A deletion failed; no further deletion is started.
    pub fn clean_up(&mut self) -> Result<(), Error> {
        let surplus = history::surplus(&self.deployment, &self.sets.old);
        let deletions = surplus
            .iter()
            .map(|set| Write::delete_exactly(ReplicaSet::KIND, &set.meta));
        for answer in self.host.batch().stop_on_error().extend(deletions).run() {
            answer
                .found()
                .doing(|| "deleting an old ReplicaSet".into())?;
        }
        Ok(())
    }

    /// Rolls back to an older revision if possible, and removes the request.
    ///
    /// # Errors
    /// The Deployment could not be written.
    pub fn roll_back(&mut self, requested: i64) -> Result<(), Error> {
        self.save()?;
        let rollback = rollback::plan(&self.deployment, &self.sets, requested);
        let about = self.deployment.meta.reference(Deployment::KIND);
        if rollback.warning {
            self.host
                .emit(Event::warning(&about, rollback.reason, &rollback.message));
        }
        self.host
            .update(Deployment::KIND, &self.deployment.meta, &rollback.change)?;
        if !rollback.warning {
            self.host
                .emit(Event::normal(&about, rollback.reason, &rollback.message));
        }
        Ok(())
    }

    /// Writes the status and the revision if they differ from the API server's.
    ///
    /// # Errors
    /// A write failed.
    pub fn save(&mut self) -> Result<(), Error> {
        let Deployment { meta, status, .. } = &mut self.deployment;
        let mut write = Write::update_status(Deployment::KIND, meta, status);
        let revision = meta.annotation(REVISION);
        let has_new_revision = revision != self.stored_revision.as_deref();
        if has_new_revision {
            // The API server accepts a Deployment's annotations with a status update, which does
            // not raise the generation.
            write = write.with_metadata(&json!({"annotations": {REVISION: revision}}));
        }
        if *status == self.stored && !has_new_revision {
            return Ok(());
        }
        let answer = self.host.write(write.returning(VERSION_FIELDS))?;
        self.stored_revision = meta.annotation(REVISION).map(str::to_owned);
        self.stored = status.clone();
        let Versioned { metadata } = answer.parse()?;
        meta.resource_version = metadata.resource_version;
        Ok(())
    }

    fn set_revision(&mut self, revision: String) {
        self.deployment
            .meta
            .annotations
            .insert(REVISION.into(), revision);
    }
}

#[derive(Deserialize)]
struct Versioned {
    metadata: Meta,
}

/// Copies the resource version and generation from a write's response.
pub(crate) fn set_version(meta: &mut Meta, answer: &Answer) -> Result<(), Error> {
    let Versioned { metadata } = answer.parse()?;
    meta.resource_version = metadata.resource_version;
    meta.generation = metadata.generation;
    Ok(())
}
