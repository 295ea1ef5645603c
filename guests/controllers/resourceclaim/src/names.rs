//! The names of the claims that a spec refers to, and the status that records the names of generated claims.
//!
//! Upstream: pkg/controller/resourceclaim/controller.go: syncPod, syncPodGroup.
//! Upstream: staging/src/k8s.io/dynamic-resource-allocation/resourceclaim/resourceclaim.go: Name, NameFromPodGroup.

use flyball_device_claims::{Name, Recorded, name};
use flyball_sdk::prelude::*;

use crate::views::User;

/// The manager of the status fields.
const FIELD_MANAGER: &str = "ResourceClaimController";

impl User<'_> {
    /// The names of the user's claims that exist or existed.
    pub(crate) fn claim_names(&self) -> impl Iterator<Item = &str> {
        self.claims
            .iter()
            .filter_map(|claim| match name(claim, self.recorded) {
                Name::Given(name) | Name::Generated(name) => Some(name),
                Name::Unneeded | Name::NotYet | Name::Unsupported => None,
            })
    }
}

/// The claims that a reconcile created or found for a user, to be recorded in its status.
#[derive(Debug, Default)]
pub(crate) struct Generated(Vec<Recorded>);

impl Generated {
    /// Adds a claim, if there is one to record. Emits an event if there is a problem.
    ///
    /// # Errors
    /// The user's claim can't be provided.
    pub(crate) fn add(
        &mut self,
        host: &Host,
        user: &User,
        name: &str,
        provided: Result<Option<String>, String>,
    ) -> Result<(), Error> {
        let problem = match provided {
            Ok(claim) => {
                self.0.extend(claim.map(|claim| Recorded {
                    name: name.into(),
                    resource_claim_name: Some(claim),
                }));
                return Ok(());
            }
            Err(problem) => format!("{}: {problem}", field(user, name)),
        };
        let about = user.meta.reference(user.kind_of_release(host));
        host.emit(Event::warning(
            &about,
            "FailedResourceClaimCreation",
            &problem,
        ));
        let (noun, key) = (user.noun, user.meta.key());
        Err(Error::failed(format!("{noun} {key}, {problem}")))
    }

    /// Returns the entries of the user's status once these claims are recorded, by name.
    pub(crate) fn merged_into(&self, recorded: &[Recorded]) -> Vec<Recorded> {
        let is_new = |name: &str| self.0.iter().any(|one| one.name == name);
        let kept = recorded.iter().filter(|one| !is_new(&one.name));
        let mut all: Vec<Recorded> = kept.chain(&self.0).cloned().collect();
        all.sort_by(|one, other| one.name.cmp(&other.name));
        all
    }

    /// Records the claims in the user's status.
    ///
    /// # Errors
    /// The status can't be written, or another object has the user's name.
    pub(crate) fn record(&self, host: &Host, user: &User) -> Result<(), Error> {
        if self.0.is_empty() {
            return Ok(());
        }
        // Entries that are left out are removed.
        let statuses = self.merged_into(user.recorded);
        let kind = user.kind_of_release(host);
        let owner = user.meta.owner_reference(kind);
        let Meta {
            name,
            namespace,
            uid,
            ..
        } = user.meta;
        let applied = json!({
            "apiVersion": owner.api_version,
            "kind": owner.kind,
            "metadata": {"name": name, "namespace": namespace, "uid": uid},
            "status": {"resourceClaimStatuses": statuses},
        });
        let write = Write::patch(kind, namespace, name, PatchType::Apply, &applied)
            .on("status")
            .field_manager(FIELD_MANAGER)
            .force();
        host.write(write).doing(|| {
            format!(
                "update {} {} ResourceClaimStatuses",
                user.noun,
                user.meta.key()
            )
        })?;
        Ok(())
    }
}

/// The reference as messages name it.
fn field(user: &User, name: &str) -> String {
    let kind = user.meta.owner_reference(user.kind).kind;
    format!("{kind}ResourceClaim {name}")
}
