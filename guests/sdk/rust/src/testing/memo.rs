//! The memo: entries with versions, a time to live and an owning object.

use std::collections::HashMap;
use std::time::Duration;

use flyball_types::ApiError;

use crate::time::Time;

/// The plugin's memo. The fake has no size limit and keeps entries that a failed call stored.
#[derive(Default)]
pub(super) struct Memo {
    entries: HashMap<String, StoredValue>,
    /// The last version assigned. It is shared by all keys, so that a removed key's version is not
    /// reused.
    version: u32,
}

struct StoredValue {
    value: Vec<u8>,
    version: u32,
    /// Empty if the entry has no object.
    object_uid: String,
    expires: Option<Time>,
}

impl Memo {
    pub(super) fn get(&self, key: &str, now: Time) -> Option<(Vec<u8>, u32)> {
        let entry = self.live(key, now)?;
        Some((entry.value.clone(), entry.version))
    }

    /// Stores a value if the key has the expected version; 0 means no entry.
    pub(super) fn put(
        &mut self,
        key: &str,
        expected: u32,
        value: &[u8],
        object_uid: &str,
        ttl: Duration,
        now: Time,
    ) -> Result<u32, ApiError> {
        let current = self.live(key, now).map_or(0, |entry| entry.version);
        if current != expected {
            let message = format!("the memo's key `{key}` is at version {current}, not {expected}");
            return Err(ApiError::conflict(message));
        }
        self.version += 1;
        let entry = StoredValue {
            value: value.to_vec(),
            version: self.version,
            object_uid: object_uid.into(),
            expires: (!ttl.is_zero()).then(|| now + ttl),
        };
        self.entries.insert(key.into(), entry);
        Ok(self.version)
    }

    pub(super) fn remove(&mut self, key: &str) {
        self.entries.remove(key);
    }

    /// Removes the entries of deleted objects.
    pub(super) fn forget(&mut self, deleted: &[String]) {
        self.entries
            .retain(|_, entry| !deleted.contains(&entry.object_uid));
    }

    fn live(&self, key: &str, now: Time) -> Option<&StoredValue> {
        let entry = self.entries.get(key)?;
        let is_live = entry.expires.is_none_or(|expires| now < expires);
        is_live.then_some(entry)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use serde_json::json;

    use crate::imports::Imports;
    use crate::testing::Cluster;

    #[test]
    fn an_entry_expires_by_the_clusters_clock() {
        let cluster = Cluster::new();
        let version = cluster.memo_put("a", 0, b"1", "", 1500).unwrap();
        cluster.advance(Duration::from_millis(1499));
        assert_eq!(cluster.memo_get("a"), Some((b"1".to_vec(), version)));
        cluster.advance(Duration::from_millis(1));
        assert_eq!(cluster.memo_get("a"), None);
        // An expired entry has version 0, and the next version is new.
        assert!(cluster.memo_put("a", version, b"2", "", 0).is_err());
        assert!(cluster.memo_put("a", 0, b"2", "", 0).unwrap() > version);
        cluster.advance(Duration::from_secs(1_000_000));
        assert!(cluster.memo_get("a").is_some());
    }

    #[test]
    fn an_entry_is_removed_with_its_object() {
        let pod = |name: &str, finalizers: &[&str]| {
            json!({"apiVersion": "v1", "kind": "Pod",
                   "metadata": {"name": name, "namespace": "d", "uid": name, "finalizers": finalizers}})
        };
        let cluster = Cluster::with([pod("a", &[]), pod("b", &["x.io/hold"]), pod("c", &[])]);
        for name in ["a", "b", "c"] {
            cluster.memo_put(name, 0, b"1", name, 0).unwrap();
        }
        let host = cluster.host();
        for name in ["a", "b"] {
            host.write(crate::Write::delete("v1/Pod", "d", name))
                .unwrap();
        }
        cluster.remove("v1/Pod", "d", "c");
        let remembered = || ["a", "b", "c"].map(|name| cluster.memo_get(name).is_some());
        assert_eq!(remembered(), [false, true, false]);
        let release = json!({"metadata": {"finalizers": null}});
        let write = crate::Write::patch("v1/Pod", "d", "b", crate::PatchType::Merge, &release);
        host.write(write).unwrap();
        assert_eq!(remembered(), [false, false, false]);
    }

    #[test]
    fn a_stale_version_is_a_conflict() {
        let cluster = Cluster::new();
        let first = cluster.memo_put("a", 0, b"1", "", 0).unwrap();
        let second = cluster.memo_put("a", first, b"2", "", 0).unwrap();
        for stale in [0, first] {
            assert!(
                cluster
                    .memo_put("a", stale, b"3", "", 0)
                    .unwrap_err()
                    .is_conflict()
            );
        }
        cluster.memo_remove("a");
        assert!(cluster.memo_put("a", 0, b"3", "", 0).unwrap() > second);
    }
}
