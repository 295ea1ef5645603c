//! A bounded cache of review results with a time to live.

use std::collections::HashMap;
use std::hash::Hash;

use parking_lot::Mutex;
use tokio::time::{Duration, Instant};

/// The maximum number of entries, which exceeds the number of a process's users. Beyond it, the cache is cleared.
const CAPACITY: usize = 1024;

/// A cache whose entries expire.
pub(crate) struct TtlCache<K, V> {
    /// Each with the time at which it expires.
    entries: Mutex<HashMap<K, (Instant, V)>>,
}

impl<K: Eq + Hash, V: Clone> TtlCache<K, V> {
    pub(crate) fn new() -> Self {
        Self {
            entries: Mutex::default(),
        }
    }

    pub(crate) fn get(&self, key: &K) -> Option<V> {
        let entries = self.entries.lock();
        entries
            .get(key)
            .filter(|(until, _)| Instant::now() < *until)
            .map(|(_, value)| value.clone())
    }

    pub(crate) fn put(&self, key: K, value: V, ttl: Duration) {
        let mut entries = self.entries.lock();
        if entries.len() >= CAPACITY {
            let now = Instant::now();
            entries.retain(|_, (until, _)| now < *until);
        }
        if entries.len() >= CAPACITY {
            entries.clear();
        }
        entries.insert(key, (Instant::now() + ttl, value));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn an_entry_expires_after_its_time_to_live() {
        let cache = TtlCache::new();
        cache.put("key", 1, Duration::from_secs(10));
        assert_eq!(cache.get(&"key"), Some(1));
        tokio::time::advance(Duration::from_secs(10)).await;
        assert_eq!(cache.get(&"key"), None);
    }

    #[tokio::test]
    async fn the_cache_never_exceeds_its_capacity() {
        let cache = TtlCache::new();
        (0..3 * CAPACITY).for_each(|key| cache.put(key, (), Duration::from_secs(10)));
        assert!(cache.entries.lock().len() <= CAPACITY);
    }
}
