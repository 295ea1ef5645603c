//! Creates, repairs and deletes pods and their claims.
//!
//! A round is a few batches: claims are created before the pods that use them. A failure for one pod ends the round of
//! that pod only.
//!
//! Upstream: pkg/controller/statefulset/stateful_set_control.go: processReplica, processCondemned, runForAll,
//! slowStartBatch.
//! Upstream: pkg/controller/statefulset/stateful_pod_control.go: CreateStatefulPod, UpdateStatefulPod,
//! DeleteStatefulPod, UpdatePodClaimForRetentionPolicy, createMissingPersistentVolumeClaims,
//! createPersistentVolumeClaims.

use std::cell::OnceCell;
use std::collections::BTreeMap;

use flyball_sdk::prelude::*;

use crate::claims::{Claims, names};
use crate::events::{self, Verb};
use crate::history::History;
use crate::identity::pod_name;
use crate::members::Replica;
use crate::plan::{Need, Repair};
use crate::pod;
use crate::repair;
use crate::retention::Owners;
use crate::views::{Claim, Pod, StatefulSet};

/// The set, its history and its claims.
pub struct Actor<'a> {
    pub host: Host<'a>,
    pub set: &'a StatefulSet,
    pub history: &'a History,
    pub claims: &'a Claims,
}

/// A pod's need, and how far it was satisfied.
struct Task<'a> {
    replica: Replica<'a>,
    name: String,
    need: Need,
    /// The first failure.
    failure: OnceCell<Failure>,
}

/// The failure to satisfy a need.
struct Failure {
    message: String,
    /// The verb that the event about the failure names; `None` if there is no event.
    verb: Option<Verb>,
}

impl Task<'_> {
    fn repair(&self) -> Repair {
        match self.need {
            Need::Repair(repair) => repair,
            _ => Repair::default(),
        }
    }

    /// Whether the pod's missing claims are created.
    fn needs_claims(&self) -> bool {
        let repair = self.repair();
        self.need == Need::Creation || repair.claims || repair.storage
    }

    /// Whether the pod's existing claims get other owners.
    fn needs_owners(&self) -> bool {
        let repair = self.repair();
        self.need == Need::Creation || repair.claims || repair.owners
    }

    fn has_failed(&self) -> bool {
        self.failure.get().is_some()
    }

    /// Notes a failure, unless the task has failed before.
    fn fail(&self, message: String, verb: Option<Verb>) {
        self.failure.get_or_init(|| Failure { message, verb });
    }
}

impl Actor<'_> {
    /// Satisfies the needs of these pods.
    ///
    /// # Errors
    /// A request failed. All writes that don't depend on it were made.
    pub fn round(&self, needs: &[(Replica, Need)]) -> Result<(), Error> {
        let tasks: Vec<Task> = needs
            .iter()
            .filter(|(_, need)| *need != Need::Nothing)
            .map(|&(replica, need)| Task {
                replica,
                name: pod_name(&self.set.meta.name, replica.ordinal),
                need,
                failure: OnceCell::new(),
            })
            .collect();
        if tasks.is_empty() {
            return Ok(());
        }
        self.create_claims(&tasks);
        let refused = self.create_pods(&tasks)?;
        self.set_owners(&tasks);
        for (task, message) in refused {
            task.fail(message, Some(Verb::Create));
        }
        self.repair_pods(&tasks)?;
        for task in &tasks {
            self.report(task);
        }
        let is_deletion = |task: &&Task| task.need == Need::Deletion;
        let ended = tasks.iter().filter(is_deletion);
        let deleted = self.delete(ended.filter_map(|task| task.replica.pod));
        let failures = tasks
            .into_iter()
            .filter_map(|task| task.failure.into_inner());
        let failures = failures.map(|failure| Error::failed(failure.message));
        Error::join(failures.chain(deleted.err())).map_or(Ok(()), Err)
    }

    /// Creates missing claims. A claim that is being deleted is an error: the pod needs the next claim
    /// of its name.
    fn create_claims(&self, tasks: &[Task]) {
        let mut batch = self.host.tagged_batch();
        // The problems of claims, by the name of the pod.
        let mut problems: BTreeMap<&str, Vec<String>> = BTreeMap::new();
        for task in tasks.iter().filter(|task| task.needs_claims()) {
            let ordinal = task.replica.ordinal;
            let owners = Owners::of(self.set, ordinal, task.replica.uid());
            let templates = self.set.claim_templates.iter();
            for (template, claim) in templates.zip(names(self.set, ordinal)) {
                match self.claims.get(&claim) {
                    None => {
                        let creation = template.creation(self.set, ordinal, &owners);
                        batch = batch.with((task, claim), creation);
                    }
                    Some(found) if found.meta.deletion_timestamp.is_some() => {
                        let problem = format!("pvc {claim} is being deleted");
                        problems.entry(&task.name).or_default().push(problem);
                    }
                    Some(_) => {}
                }
            }
        }
        for ((task, claim), result) in batch.run() {
            let error = result.err();
            if !error.as_ref().is_some_and(ApiError::is_already_exists) {
                let failure = error.as_ref().map(|error| error.message.as_str());
                events::of_claim(&self.host, self.set, &task.name, &claim, failure);
            }
            if let Some(ApiError { message, .. }) = error {
                let problem = format!("failed to create PVC {claim}: {message}");
                problems.entry(&task.name).or_default().push(problem);
            }
        }
        for task in tasks {
            // For a pending pod, the events about the claims suffice.
            let verb = match task.need {
                Need::Creation => Some(Verb::Create),
                _ => (!task.repair().claims).then_some(Verb::Update),
            };
            match problems.remove(task.name.as_str()).as_deref() {
                None | Some([]) => {}
                Some([one]) => task.fail(one.clone(), verb),
                Some(several) => task.fail(format!("[{}]", several.join(", ")), verb),
            }
        }
    }

    /// Creates the pods whose claims exist. Returns the tasks whose pods could not be created, with the errors: the
    /// owners of their claims are still to be set.
    fn create_pods<'t, 'r>(
        &self,
        tasks: &'t [Task<'r>],
    ) -> Result<Vec<(&'t Task<'r>, String)>, Error> {
        let is_new = |task: &&Task| task.need == Need::Creation && !task.has_failed();
        let new: Vec<&Task> = tasks.iter().filter(is_new).collect();
        let is_current = |task: &Task| pod::is_current(self.set, task.replica.ordinal);
        let revision = |current| {
            let is_used = new.iter().any(|task| is_current(task) == current);
            is_used
                .then(|| self.history.revision(self.set, current))
                .transpose()
        };
        let (current, update) = (revision(true)?, revision(false)?);
        let creations = new.iter().filter_map(|&task| {
            let revision = if is_current(task) { &current } else { &update };
            let creation = pod::creation(self.set, revision.as_ref()?, task.replica.ordinal);
            Some((task, creation))
        });
        let mut refused = Vec::new();
        for (task, result) in self.host.tagged_batch().extend(creations).run() {
            match result {
                Ok(_) => {}
                // Another client has created the pod: no event is emitted.
                Err(error) if error.is_already_exists() => task.fail(error.message, None),
                Err(error) => refused.push((task, error.message)),
            }
        }
        Ok(refused)
    }

    /// Gives claims the owners that the retention policy asks for.
    fn set_owners(&self, tasks: &[Task]) {
        let must_change = |task: &&Task| task.needs_owners() && !task.has_failed();
        let updates = tasks.iter().filter(must_change).flat_map(|task| {
            let updates = self.owner_updates(&task.replica).into_iter();
            updates.map(move |(claim, update)| ((task, claim), update))
        });
        for ((task, claim), result) in self.host.tagged_batch().extend(updates).run() {
            if let Err(error) = result {
                task.fail(not_updated(claim, &error), Some(Verb::Update));
            }
        }
    }

    /// Returns the claims of a pod whose owners have to be changed, with the writes. Emits an event
    /// about each claim that another controller owns.
    fn owner_updates(&self, replica: &Replica) -> Vec<(&str, Write)> {
        let owners = Owners::of(self.set, replica.ordinal, replica.uid());
        let mut updates = Vec::new();
        for claim in self.claims.of(self.set, replica.ordinal) {
            let (meta, own) = (&claim.meta, &claim.meta.owner_references);
            if owners.conflict_with(own) {
                events::of_conflict(&self.host, self.set, &meta.name);
            }
            if !owners.match_those(own) {
                let change =
                    json!({"metadata": {"ownerReferences": Raw::of(&owners.applied(own))}});
                let update = Write::update(Claim::KIND, &meta.identity(), &change);
                updates.push((meta.name.as_str(), update));
            }
        }
        updates
    }

    /// Gives the claims of these condemned pods the owners that the retention policy asks for.
    ///
    /// # Errors
    /// A write failed. All others were made.
    pub fn condemn_claims(&self, condemned: &[Replica]) -> Result<(), Error> {
        let updates = condemned.iter().flat_map(|one| self.owner_updates(one));
        let results = self.host.tagged_batch().extend(updates).run();
        let failures = results.into_iter().filter_map(|(claim, result)| {
            let error = result.err()?;
            Some(Error::failed(not_updated(claim, &error)))
        });
        Error::join(failures).map_or(Ok(()), Err)
    }

    /// Repairs labels and volumes of pods.
    fn repair_pods(&self, tasks: &[Task]) -> Result<(), Error> {
        let mut batch = self.host.tagged_batch();
        for task in tasks.iter().filter(|task| !task.has_failed()) {
            let Some(pod) = task.replica.pod else {
                continue;
            };
            let ordinal = task.replica.ordinal;
            let update = repair::update(&self.host, self.set, pod, ordinal, task.repair())?;
            if let Some(update) = update {
                batch = batch.with(task, update);
            }
        }
        for (task, result) in batch.run() {
            if let Err(error) = result {
                task.fail(error.message, Some(Verb::Update));
            }
        }
        Ok(())
    }

    /// Emits the event about a pod that was created or repaired.
    fn report(&self, task: &Task) {
        let Repair {
            identity,
            storage,
            owners,
            ..
        } = task.repair();
        let failure = task.failure.get();
        let verb = match (failure, task.need) {
            (Some(failure), _) => failure.verb,
            (None, Need::Creation) => Some(Verb::Create),
            (None, _) => (identity || storage || owners).then_some(Verb::Update),
        };
        let message = failure.map(|failure| failure.message.as_str());
        if let Some(verb) = verb {
            events::of_pod(&self.host, self.set, verb, &task.name, message);
        }
    }

    /// Deletes pods and returns their number.
    ///
    /// # Errors
    /// A write failed. All others were made.
    pub fn delete<'p>(&self, pods: impl IntoIterator<Item = &'p Pod>) -> Result<usize, Error> {
        let deletions = pods.into_iter().map(|pod| {
            let namespace = &self.set.meta.namespace;
            let deletion = Write::delete(Pod::KIND, namespace, &pod.meta.name).uid(&pod.meta.uid);
            (pod, deletion)
        });
        let results = self.host.tagged_batch().extend(deletions).run();
        let (number, mut failures) = (results.len(), Vec::new());
        for (pod, result) in results {
            // A pod that another client has deleted is not a failure.
            let failure = result.found().err().map(|error| error.message);
            let name = &pod.meta.name;
            events::of_pod(&self.host, self.set, Verb::Delete, name, failure.as_deref());
            failures.extend(failure.map(Error::failed));
        }
        Error::join(failures).map_or(Ok(number), Err)
    }
}

fn not_updated(claim: &str, error: &ApiError) -> String {
    format!(
        "could not update claim {claim} for delete policy ownerRefs: {}",
        error.message
    )
}
