//! Creates, repairs and deletes pods and their claims.
//!
//! A round is a few batches: claims are created before the pods that use them. Whatever fails for a
//! pod ends its round, and not that of the others.
//!
//! Upstream: pkg/controller/statefulset/stateful_set_control.go: processReplica, processCondemned, runForAll,
//! slowStartBatch.
//! Upstream: pkg/controller/statefulset/stateful_pod_control.go: CreateStatefulPod, UpdateStatefulPod,
//! DeleteStatefulPod, UpdatePodClaimForRetentionPolicy, createMissingPersistentVolumeClaims,
//! createPersistentVolumeClaims.

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

/// The set, and what is known about it.
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
    failure: Option<Failure>,
}

/// Why a need was not satisfied.
struct Failure {
    message: String,
    /// What the event about it names; `None` if there is none.
    verb: Option<Verb>,
}

impl Task<'_> {
    fn repair(&self) -> Repair {
        match self.need {
            Need::Repair(repair) => repair,
            _ => Repair::default(),
        }
    }

    /// Whether its missing claims are created.
    fn needs_claims(&self) -> bool {
        let repair = self.repair();
        self.need == Need::Creation || repair.claims || repair.storage
    }

    /// Whether its existing claims get other owners.
    fn needs_owners(&self) -> bool {
        let repair = self.repair();
        self.need == Need::Creation || repair.claims || repair.owners
    }

    fn fail(&mut self, message: String, verb: Option<Verb>) {
        self.failure.get_or_insert(Failure { message, verb });
    }
}

impl Actor<'_> {
    /// Satisfies the needs of these pods.
    ///
    /// # Errors
    /// A request failed. All writes that don't depend on it were made.
    pub fn round(&self, needs: &[(Replica, Need)]) -> Result<(), Error> {
        let mut tasks: Vec<Task> = needs
            .iter()
            .filter(|(_, need)| *need != Need::Nothing)
            .map(|&(replica, need)| Task {
                replica,
                name: pod_name(&self.set.meta.name, replica.ordinal),
                need,
                failure: None,
            })
            .collect();
        if tasks.is_empty() {
            return Ok(());
        }
        self.create_claims(&mut tasks);
        self.create_pods(&mut tasks)?;
        self.set_owners(&mut tasks);
        self.repair_pods(&mut tasks)?;
        for task in &tasks {
            self.report(task);
        }
        let is_deletion = |task: &&Task| task.need == Need::Deletion;
        let ended = tasks.iter().filter(is_deletion);
        let deleted = self.delete(ended.filter_map(|task| task.replica.pod));
        let failures = tasks.into_iter().filter_map(|task| task.failure);
        let failures = failures.map(|failure| Error::failed(failure.message));
        Error::join(failures.chain(deleted.err())).map_or(Ok(()), Err)
    }

    /// Creates missing claims. A claim that is being deleted is an error: the pod needs the next claim
    /// of its name.
    fn create_claims(&self, tasks: &mut [Task]) {
        let mut problems: Vec<Vec<String>> = vec![Vec::new(); tasks.len()];
        let (mut creations, mut about) = (Vec::new(), Vec::new());
        for (at, task) in tasks.iter().enumerate() {
            if !task.needs_claims() {
                continue;
            }
            let ordinal = task.replica.ordinal;
            let owners = Owners::of(self.set, ordinal, task.replica.uid());
            for (template, claim) in self
                .set
                .claim_templates
                .iter()
                .zip(names(self.set, ordinal))
            {
                match self.claims.get(&claim) {
                    None => {
                        creations.push(template.creation(self.set, ordinal, &owners));
                        about.push((at, claim));
                    }
                    Some(found) if found.meta.deletion_timestamp.is_some() => {
                        problems[at].push(format!("pvc {claim} is being deleted"));
                    }
                    Some(_) => {}
                }
            }
        }
        let results = self.host.batch().extend(creations).run();
        for ((at, claim), result) in about.into_iter().zip(results) {
            let error = result.err();
            if !error.as_ref().is_some_and(ApiError::is_already_exists) {
                let failure = error.as_ref().map(|error| error.message.as_str());
                events::of_claim(&self.host, self.set, &tasks[at].name, &claim, failure);
            }
            let problem =
                |error: ApiError| format!("failed to create PVC {claim}: {}", error.message);
            problems[at].extend(error.map(problem));
        }
        for (task, problems) in tasks.iter_mut().zip(problems) {
            // For a pending pod, the events about the claims suffice.
            let verb = match task.need {
                Need::Creation => Some(Verb::Create),
                _ => (!task.repair().claims).then_some(Verb::Update),
            };
            match problems.as_slice() {
                [] => {}
                [one] => task.fail(one.clone(), verb),
                several => task.fail(format!("[{}]", several.join(", ")), verb),
            }
        }
    }

    /// Creates the pods whose claims exist.
    fn create_pods(&self, tasks: &mut [Task]) -> Result<(), Error> {
        let is_new = |task: &&mut Task| task.need == Need::Creation && task.failure.is_none();
        let new: Vec<&mut Task> = tasks.iter_mut().filter(is_new).collect();
        let ordinals: Vec<i64> = new.iter().map(|task| task.replica.ordinal).collect();
        let is_current = |ordinal: i64| pod::is_current(self.set, ordinal);
        let revision = |current| {
            let is_used = ordinals
                .iter()
                .any(|&ordinal| is_current(ordinal) == current);
            is_used
                .then(|| self.history.revision(self.set, current))
                .transpose()
        };
        let (current, update) = (revision(true)?, revision(false)?);
        let creations = ordinals.iter().filter_map(|&ordinal| {
            let revision = if is_current(ordinal) {
                &current
            } else {
                &update
            };
            Some(pod::creation(self.set, revision.as_ref()?, ordinal))
        });
        let results = self.host.batch().extend(creations).run();
        for (task, result) in new.into_iter().zip(results) {
            if let Err(error) = result {
                // A pod that somebody else created is not worth an event.
                let verb = (!error.is_already_exists()).then_some(Verb::Create);
                task.fail(error.message, verb);
            }
        }
        Ok(())
    }

    /// Gives claims the owners that the retention policy asks for.
    fn set_owners(&self, tasks: &mut [Task]) {
        let (mut updates, mut about) = (Vec::new(), Vec::new());
        for (at, task) in tasks.iter().enumerate() {
            if task.needs_owners() && task.failure.is_none() {
                for (claim, update) in self.owner_updates(&task.replica) {
                    updates.push(update);
                    about.push((at, claim));
                }
            }
        }
        let results = self.host.batch().extend(updates).run();
        for ((at, claim), result) in about.into_iter().zip(results) {
            if let Err(error) = result {
                tasks[at].fail(not_updated(claim, &error), Some(Verb::Update));
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
        let (claims, updates): (Vec<&str>, Vec<Write>) = updates.unzip();
        let results = self.host.batch().extend(updates).run();
        let failure = |(claim, result): (&str, Result<Answer, ApiError>)| {
            Some(Error::failed(not_updated(claim, &result.err()?)))
        };
        let failures = claims.into_iter().zip(results).filter_map(failure);
        Error::join(failures).map_or(Ok(()), Err)
    }

    /// Repairs labels and volumes of pods.
    fn repair_pods(&self, tasks: &mut [Task]) -> Result<(), Error> {
        let (mut updates, mut about) = (Vec::new(), Vec::new());
        for (at, task) in tasks.iter().enumerate() {
            let (Some(pod), None) = (task.replica.pod, &task.failure) else {
                continue;
            };
            let update = repair::update(
                &self.host,
                self.set,
                pod,
                task.replica.ordinal,
                task.repair(),
            )?;
            if let Some(update) = update {
                updates.push(update);
                about.push(at);
            }
        }
        let results = self.host.batch().extend(updates).run();
        for (at, result) in about.into_iter().zip(results) {
            if let Err(error) = result {
                tasks[at].fail(error.message, Some(Verb::Update));
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
        let verb = match (&task.failure, task.need) {
            (Some(failure), _) => failure.verb,
            (None, Need::Creation) => Some(Verb::Create),
            (None, _) => (identity || storage || owners).then_some(Verb::Update),
        };
        let message = task
            .failure
            .as_ref()
            .map(|failure| failure.message.as_str());
        if let Some(verb) = verb {
            events::of_pod(&self.host, self.set, verb, &task.name, message);
        }
    }

    /// Deletes pods and returns their number.
    ///
    /// # Errors
    /// A write failed. All others were made.
    pub fn delete<'p>(&self, pods: impl IntoIterator<Item = &'p Pod>) -> Result<usize, Error> {
        let pods: Vec<&Pod> = pods.into_iter().collect();
        let deletion = |pod: &&Pod| {
            let namespace = &self.set.meta.namespace;
            Write::delete(Pod::KIND, namespace, &pod.meta.name).uid(&pod.meta.uid)
        };
        let results = self.host.batch().extend(pods.iter().map(deletion)).run();
        let mut failures = Vec::new();
        for (pod, result) in pods.iter().zip(results) {
            // It does not matter who deleted it.
            let failure = result.found().err().map(|error| error.message);
            let name = &pod.meta.name;
            events::of_pod(&self.host, self.set, Verb::Delete, name, failure.as_deref());
            failures.extend(failure.map(Error::failed));
        }
        Error::join(failures).map_or(Ok(pods.len()), Err)
    }
}

fn not_updated(claim: &str, error: &ApiError) -> String {
    format!(
        "could not update claim {claim} for delete policy ownerRefs: {}",
        error.message
    )
}
