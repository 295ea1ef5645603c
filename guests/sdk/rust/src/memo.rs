//! The plugin's memo.

use std::time::Duration;

use flyball_types::ApiError;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::imports::Imports;
use crate::time::millis;

/// The plugin's memo: [`Host::memo`](crate::Host::memo). The host may empty it between any two calls, so it must hold
/// only data that can be computed again or is dispensable.
#[derive(Clone, Copy)]
pub struct Memo<'a> {
    pub(crate) imports: &'a dyn Imports,
}

impl Memo<'_> {
    /// Returns the value of a key; `None` if there is none or it is not a valid `T`.
    pub fn get<T: DeserializeOwned>(&self, key: &str) -> Option<T> {
        let (value, _) = self.imports.memo_get(key)?;
        flyball_types::read(&value).ok()
    }

    /// Stores a value until the object with this UID is deleted (empty: no object) or this time has passed (zero: no
    /// limit).
    ///
    /// # Errors
    /// The memo is full, or another instance has changed the entry in the meantime.
    pub fn put(
        &self,
        key: &str,
        value: &impl Serialize,
        object_uid: &str,
        ttl: Duration,
    ) -> Result<(), ApiError> {
        let version = self.imports.memo_get(key).map_or(0, |(_, version)| version);
        self.replace(key, version, value, object_uid, ttl)
    }

    /// Stores a value if the key has none. Options as for [`put`](Self::put). If another call adds the same key at the same
    /// time, the first one to end keeps it: a later call can tell which.
    ///
    /// # Errors
    /// A conflict if the key has a value; or the memo is full.
    pub fn add(
        &self,
        key: &str,
        value: &impl Serialize,
        object_uid: &str,
        ttl: Duration,
    ) -> Result<(), ApiError> {
        self.replace(key, 0, value, object_uid, ttl)
    }

    /// Changes the value of a key, which is the default if there is none, and returns the new value. The change is
    /// repeated if another instance changes the entry in the meantime. Options as for [`put`](Self::put).
    ///
    /// # Errors
    /// The memo is full.
    pub fn update<T: Default + DeserializeOwned + Serialize>(
        &self,
        key: &str,
        object_uid: &str,
        ttl: Duration,
        mut change: impl FnMut(&mut T),
    ) -> Result<T, ApiError> {
        loop {
            let (mut value, version) = match self.imports.memo_get(key) {
                Some((value, version)) => (
                    flyball_types::read::<T>(&value).unwrap_or_default(),
                    version,
                ),
                None => (T::default(), 0),
            };
            change(&mut value);
            match self.replace(key, version, &value, object_uid, ttl) {
                Ok(()) => return Ok(value),
                Err(error) if error.is_conflict() => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Stores a value if the key is at this version; 0 if it has no value.
    fn replace(
        &self,
        key: &str,
        version: u32,
        value: &impl Serialize,
        object_uid: &str,
        ttl: Duration,
    ) -> Result<(), ApiError> {
        let value = serde_json::to_vec(value).expect("a map with string keys is valid JSON");
        self.imports
            .memo_put(key, version, &value, object_uid, millis(ttl))
            .map(drop)
    }

    /// Removes the value of a key.
    pub fn remove(&self, key: &str) {
        self.imports.memo_remove(key);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Cluster;

    #[test]
    fn a_change_of_the_memo_is_made_to_the_latest_value() {
        let cluster = Cluster::new();
        let (host, mut tries) = (cluster.host(), 0);
        let mut append = |letter: &'static str, other: Option<&str>| {
            host.memo()
                .update("a", "", Duration::ZERO, |text: &mut String| {
                    tries += 1;
                    if let (1, Some(other)) = (tries, other) {
                        host.memo().put("a", &other, "", Duration::ZERO).unwrap();
                    }
                    text.push_str(letter);
                })
        };
        // Another instance puts a value between the read and the write of the first try.
        assert_eq!(append("c", Some("b")).unwrap(), "bc");
        assert_eq!(append("d", None).unwrap(), "bcd");
        assert_eq!(host.memo().get::<String>("a").unwrap(), "bcd");
        assert_eq!(tries, 3);
    }

    #[test]
    fn only_the_first_value_of_a_key_is_added() {
        let cluster = Cluster::new();
        let host = cluster.host();
        let memo = host.memo();
        memo.add("a", &1, "", Duration::ZERO).unwrap();
        let refused = memo.add("a", &2, "", Duration::ZERO).unwrap_err();
        assert!(refused.is_conflict(), "{refused}");
        assert_eq!(memo.get("a"), Some(1));
        memo.remove("a");
        memo.add("a", &2, "", Duration::ZERO).unwrap();
        assert_eq!(memo.get("a"), Some(2));
    }

    #[test]
    fn a_memo_entry_is_kept_until_it_is_replaced_or_removed() {
        let cluster = Cluster::new();
        let host = cluster.host();
        let memo = host.memo();
        assert_eq!(memo.get::<u32>("a"), None);
        memo.put("a", &1, "", Duration::ZERO).unwrap();
        memo.put("a", &2, "uid-1", Duration::ZERO).unwrap();
        assert_eq!(
            (memo.get("a"), memo.get::<String>("a"), memo.get::<u32>("b")),
            (Some(2), None, None)
        );
        memo.remove("a");
        assert_eq!(memo.get::<u32>("a"), None);
    }
}
