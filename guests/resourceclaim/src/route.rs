//! Turns changes into keys.

use std::collections::BTreeSet;

use flyball_sdk::prelude::*;
use flyball_sdk::{Delta, RoutedKey};

use crate::describe::{GENERATED, MEMBERS, NAMED, OF_GROUPS, TEMPLATE};
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
            Pod::KIND => {
                let (old, new) = (delta.before::<Pod>()?, delta.after::<Pod>()?);
                if let Some(old) =
                    old.filter(|old| is_gone(&old.meta, new.as_ref().map(|new| &new.meta)))
                {
                    router.pod_claims(&old);
                }
                new.iter().for_each(|pod| router.pod(pod));
            }
            PodGroup::KIND => {
                let (old, new) = (delta.before::<PodGroup>()?, delta.after::<PodGroup>()?);
                if let Some(old) =
                    old.filter(|old| is_gone(&old.meta, new.as_ref().map(|new| &new.meta)))
                {
                    router.claims(&old.user());
                    router.members(&old)?;
                }
                if let Some(new) = new {
                    router.group(&new);
                    router.members(&new)?;
                }
            }
            Template::KIND => {
                if let Some(Named { meta }) = delta.after()? {
                    router.users(&meta, &[TEMPLATE])?;
                }
            }
            Claim::KIND => {
                let (old, new) = (delta.before::<Named>()?, delta.after::<Named>()?);
                if let Some(Named { meta }) = &new {
                    router.add(Item::Claim(meta.key()));
                }
                if let Some(Named { meta }) = new.or(old) {
                    router.users(&meta, &[NAMED, GENERATED])?;
                }
            }
            other => return Err(Error::terminal(format!("unexpected change of {other}"))),
        }
    }
    let keys = router.items.iter();
    Ok(keys.map(|item| RoutedKey::now(item.key())).collect())
}

/// Whether an object was deleted. Another object may have its name by now.
fn is_gone(old: &Meta, new: Option<&Meta>) -> bool {
    new.is_none_or(|new| new.uid != old.uid)
}

struct Router<'a> {
    host: &'a Host<'a>,
    gates: Gates,
    items: BTreeSet<Item>,
}

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

    /// Adds the claims of a pod, among them that of its extended resources.
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
                groups
                    .index(&format!("{OF_GROUPS}{index}"), &meta.name)
                    .each(|group| {
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
