//! Answers that are good for a short while, bounded in number.

use std::collections::HashMap;
use std::hash::Hash;

use parking_lot::Mutex;
use tokio::time::{Duration, Instant};

/// More than the callers of one process; beyond it, what was kept is asked again.
const CAPACITY: usize = 1024;

/// Keeps answers until their time is over.
pub(crate) struct TtlCache<K, V> {
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
    async fn an_answer_is_kept_for_its_time_alone() {
        let cache = TtlCache::new();
        cache.put("key", 1, Duration::from_secs(10));
        assert_eq!(cache.get(&"key"), Some(1));
        tokio::time::advance(Duration::from_secs(10)).await;
        assert_eq!(cache.get(&"key"), None);
    }

    #[tokio::test]
    async fn it_never_holds_more_than_its_capacity() {
        let cache = TtlCache::new();
        (0..3 * CAPACITY).for_each(|key| cache.put(key, (), Duration::from_secs(10)));
        assert!(cache.entries.lock().len() <= CAPACITY);
    }
}
