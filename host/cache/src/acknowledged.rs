//! The objects that the server returned for writes, until the reflector has passed their versions.
//!
//! The same versions arrive again as watch events. The decoder takes them from here instead of decoding them a second
//! time, so that the cache and the overlay share one copy.

use std::collections::BTreeMap;
use std::sync::Arc;

use flyball_types::Mask;
use parking_lot::Mutex;

use crate::{Object, Uid};

/// The acknowledged objects of one informer, by resource version.
#[derive(Default)]
pub(crate) struct Acknowledged {
    versions: Mutex<BTreeMap<u64, Arc<Object>>>,
}

impl Acknowledged {
    pub(crate) fn is_empty(&self) -> bool {
        self.versions.lock().is_empty()
    }

    pub(crate) fn put(&self, object: Arc<Object>) {
        self.versions.lock().insert(object.resource_version, object);
    }

    /// The object of this UID and version, if it is known and was pruned by this mask.
    pub(crate) fn get(&self, uid: &str, version: &str, mask: &Arc<Mask>) -> Option<Arc<Object>> {
        let version = version.parse().ok()?;
        let object = self.versions.lock().get(&version).cloned()?;
        let is_pruned_alike = Arc::ptr_eq(&object.mask, mask) || object.mask == *mask;
        (object.uid == Uid::new(uid) && is_pruned_alike).then_some(object)
    }

    /// Drops the versions up to this one: the reflector has seen them.
    pub(crate) fn pass(&self, position: u64) {
        let mut versions = self.versions.lock();
        while versions
            .first_entry()
            .is_some_and(|first| *first.key() <= position)
        {
            versions.pop_first();
        }
    }

    /// Drops all versions. A server that was restored from a backup may assign the same versions to other changes.
    pub(crate) fn clear(&self) {
        self.versions.lock().clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object(uid: &str, version: u64) -> Arc<Object> {
        let metadata = format!(r#"{{"name":"a","uid":"{uid}","resourceVersion":"{version}"}}"#);
        Object::parse(format!(r#"{{"metadata":{metadata}}}"#).as_bytes()).expect("an object")
    }

    #[test]
    fn a_version_is_found_by_its_uid_and_its_mask_until_it_is_passed() {
        let acknowledged = Acknowledged::default();
        let (first, second) = (object("one", 5), object("two", 7));
        let mask = first.mask.clone();
        acknowledged.put(first.clone());
        acknowledged.put(second);
        let known = acknowledged
            .get("one", "5", &Arc::new((*mask).clone()))
            .expect("an equal mask will do");
        assert!(Arc::ptr_eq(&known, &first));
        for (uid, version) in [("two", "5"), ("one", "6"), ("one", "x")] {
            assert!(
                acknowledged.get(uid, version, &mask).is_none(),
                "{uid} {version}"
            );
        }
        assert!(acknowledged.get("one", "5", &Arc::default()).is_none());
        acknowledged.pass(6);
        assert!(acknowledged.get("one", "5", &mask).is_none());
        assert!(acknowledged.get("two", "7", &mask).is_some());
        acknowledged.clear();
        assert!(acknowledged.is_empty());
    }
}
