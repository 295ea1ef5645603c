//! Turns changes into keys.
//!
//! Upstream: pkg/controller/resourceclaim/controller.go: enqueuePod, enqueuePodGroup, enqueueResourceClaim,
//! enqueueResourceClaimTemplate, podNeedsClaims, podGroupNeedsClaims.

use std::collections::BTreeSet;

use flyball_sdk::prelude::*;
use flyball_sdk::{Delta, RoutedKey};

use crate::describe::{GENERATED, MEMBERS, NAMED, TEMPLATE};
use crate::gates::Gates;
use crate::key::Item;
use crate::views::{Claim, Pod, PodGroup, Template, User};

/// The name of an object.
#[derive(View, Debug, Default)]
#[view(kind = "resource.k8s.io/v1/ResourceClaim")]
struct Named {
    #[view(path = "metadata", fields())]
    meta: Meta,
}

/// Returns the keys of the changes, each once.
pub(crate) fn route(host: &Host, gates: Gates, deltas: &[Delta]) -> Result<Vec<RoutedKey>, Error> {
    let mut router = Router {
        host,
        gates,
        items: BTreeSet::new(),
    };
    for delta in deltas {
        match delta.watch.as_str() {
            Pod::KIND => router.pod_changed(delta.before()?, delta.after()?),
            Claim::KIND => router.claim_changed(delta.before()?, delta.after()?)?,
            Template::KIND => router.template_changed(delta.after()?)?,
            kind if kind == host.kind::<PodGroup>() => {
                router.group_changed(delta.before()?, delta.after()?)?;
            }
            other => return Err(Error::terminal(format!("unexpected change of {other}"))),
        }
    }
    let keys = router.items.iter();
    Ok(keys.map(|item| RoutedKey::now(item.key())).collect())
}

struct Router<'a> {
    host: &'a Host<'a>,
    gates: Gates,
    items: BTreeSet<Item>,
}

/// The changes of each kind.
impl Router<'_> {
    fn pod_changed(&mut self, old: Option<Pod>, new: Option<Pod>) {
        if let Some(old) = &old
            && is_gone(&old.meta, new.as_ref().map(|new| &new.meta))
        {
            self.pod_claims(old);
        }
        new.iter().for_each(|pod| self.pod(pod));
    }

    fn group_changed(&mut self, old: Option<PodGroup>, new: Option<PodGroup>) -> Result<(), Error> {
        if let Some(old) = &old
            && is_gone(&old.meta, new.as_ref().map(|new| &new.meta))
        {
            self.claims(&old.user());
            self.members(old)?;
        }
        if let Some(new) = &new {
            self.group(new);
            self.members(new)?;
        }
        Ok(())
    }

    fn claim_changed(&mut self, old: Option<Named>, new: Option<Named>) -> Result<(), Error> {
        if let Some(new) = &new {
            self.add(Item::Claim(new.meta.key()));
        }
        match new.or(old) {
            Some(claim) => self.users(&claim.meta, &[NAMED, GENERATED]),
            None => Ok(()),
        }
    }

    fn template_changed(&mut self, new: Option<Named>) -> Result<(), Error> {
        match new {
            Some(template) => self.users(&template.meta, &[TEMPLATE]),
            None => Ok(()),
        }
    }
}

/// Whether an object was deleted. Another object may have its name by now.
fn is_gone(old: &Meta, new: Option<&Meta>) -> bool {
    new.is_none_or(|new| new.uid != old.uid)
}

/// The keys.
impl Router<'_> {
    fn add(&mut self, item: Item) {
        self.items.insert(item);
    }

    /// Adds a pod that has claims, and its claims if it is done.
    fn pod(&mut self, pod: &Pod) {
        if pod.is_done() {
            self.pod_claims(pod);
        }
        if !pod.claims.is_empty() && !pod.meta.is_deleting() {
            self.add(Item::Pod(pod.meta.key()));
        }
    }

    fn group(&mut self, group: &PodGroup) {
        if !group.claims.is_empty() && !group.meta.is_deleting() {
            self.add(Item::PodGroup(group.meta.key()));
        }
    }

    /// Adds the claims of a pod, including the claim of its extended resources.
    fn pod_claims(&mut self, pod: &Pod) {
        self.claims(&pod.user());
        if let Some(name) = &pod.extended {
            self.add(Item::claim(&pod.meta.namespace, name));
        }
    }

    fn claims(&mut self, user: &User) {
        for name in user.claim_names() {
            self.add(Item::claim(&user.meta.namespace, name));
        }
    }

    /// Adds the pods of a PodGroup that has claims.
    fn members(&mut self, group: &PodGroup) -> Result<(), Error> {
        if group.claims.is_empty() {
            return Ok(());
        }
        self.pods(&group.meta, MEMBERS)
    }

    /// Adds the pods and the PodGroups that refer to an object, according to these indexes.
    fn users(&mut self, meta: &Meta, indexes: &[&str]) -> Result<(), Error> {
        for index in indexes {
            self.pods(meta, index)?;
            if self.gates.pod_groups {
                let groups = self.host.list::<PodGroup>().namespace(&meta.namespace);
                groups.index(index, &meta.name).each(|group| {
                    self.group(&group);
                    Ok(())
                })?;
            }
        }
        Ok(())
    }

    fn pods(&mut self, meta: &Meta, index: &str) -> Result<(), Error> {
        let pods = self.host.list::<Pod>().namespace(&meta.namespace);
        pods.index(index, &meta.name).each(|pod| {
            self.pod(&pod);
            Ok(())
        })
    }
}
