//! The memo of one plugin: bytes by key, shared by its instances. It caches what the guest can derive again.
//!
//! A guest call stages its changes in a [`MemoCall`]. They are committed together when it returns, and dropped if it
//! traps. Staged changes count against the memo's capacity from the start: the entries and the changes of all running
//! calls together never exceed it, so that a commit always fits.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use flyball_cache::Uid;
use flyball_plugin::MemoEntry;
use flyball_types::ApiError;
use parking_lot::Mutex;
use tokio::time::Instant;

/// The memo's capacity in bytes if the policy sets none.
const CAPACITY: usize = 16 << 20;
/// The memory of an entry besides its key and its value, in bytes: a map that has just grown has twice the entries it
/// needs.
const ENTRY: usize = 320;
/// The memory of an entry's tag besides its key and the UID, in bytes: most objects have one entry, in a set of its own.
const TAG: usize = 384;

/// All entries of one plugin.
pub struct Memo {
    /// In bytes.
    capacity: usize,
    state: Mutex<Committed>,
}

#[derive(Default)]
struct Committed {
    entries: HashMap<String, CommittedEntry>,
    /// The keys by the UID of the object that they are tagged with.
    by_object: HashMap<Box<str>, HashSet<String>>,
    /// The size of the entries.
    bytes: usize,
    /// The size of the changes of all running calls.
    staged: usize,
    /// The last version assigned. All keys share one counter, so that a removed key's version is never used again.
    version: u32,
}

struct CommittedEntry {
    value: MemoEntry,
    object_uid: Box<str>,
    expires: Option<Instant>,
}

/// The changes that one call has staged.
pub struct MemoCall {
    memo: Arc<Memo>,
    /// Locked before the memo's state.
    staged: Mutex<Changes>,
}

#[derive(Default)]
struct Changes {
    /// None for a removal.
    by_key: HashMap<String, Option<Staged>>,
    /// The size of the changes.
    bytes: usize,
}

#[derive(Clone)]
struct Staged {
    /// The committed version that it replaces; 0 if there is none.
    expected: u32,
    entry: MemoEntry,
    object_uid: Box<str>,
    ttl: Option<Duration>,
}

impl MemoCall {
    pub fn new(memo: Arc<Memo>) -> Self {
        let staged = Mutex::default();
        Self { memo, staged }
    }

    /// Returns the call's own change of this key, else the committed value.
    pub(crate) fn get(&self, key: &str) -> Option<MemoEntry> {
        match self.staged.lock().by_key.get(key) {
            Some(staged) => staged.as_ref().map(|staged| staged.entry.clone()),
            None => self.memo.state.lock().get(key),
        }
    }

    /// Stages a value if the key's version is `expected`.
    pub fn put(
        &self,
        key: &str,
        expected: u32,
        value: Bytes,
        object_uid: &str,
        ttl_ms: u32,
    ) -> Result<u32, ApiError> {
        let mut staged = self.staged.lock();
        let mut state = self.memo.state.lock();
        let committed = state.get(key).map_or(0, |entry| entry.version);
        let current = match staged.by_key.get(key) {
            Some(change) => change.as_ref().map_or(0, |change| change.entry.version),
            None => committed,
        };
        if current != expected {
            let message = format!("the memo's key `{key}` is at version {current}, not {expected}");
            return Err(ApiError::conflict(message));
        }
        let more = size(key, &value, object_uid);
        state.check_room(more, self.memo.capacity)?;
        let version = state.next_version();
        let ttl = (ttl_ms > 0).then(|| Duration::from_millis(ttl_ms.into()));
        let entry = MemoEntry { value, version };
        let change = Staged {
            expected: committed,
            entry,
            object_uid: object_uid.into(),
            ttl,
        };
        staged.insert(&mut state, key, Some(change));
        Ok(version)
    }

    /// Stages a removal of the present entry. Beyond the memo's capacity, the entry is removed at once, because a
    /// removal must not fail.
    pub(crate) fn remove(&self, key: &str) {
        let mut staged = self.staged.lock();
        let mut state = self.memo.state.lock();
        if !state.entries.contains_key(key) {
            staged.forget(&mut state, key);
        } else if state
            .check_room(Changes::size(key, None), self.memo.capacity)
            .is_ok()
        {
            staged.insert(&mut state, key, None);
        } else {
            staged.forget(&mut state, key);
            state.remove(key);
        }
    }

    /// Makes the call's changes visible to others. If another call has changed a key in the meantime, that call's value
    /// stays.
    pub fn commit(&self) {
        let mut staged = self.staged.lock();
        let mut state = self.memo.state.lock();
        for (key, change) in staged.take(&mut state) {
            let Some(change) = change else {
                state.remove(&key);
                continue;
            };
            if state.get(&key).map_or(0, |entry| entry.version) == change.expected {
                state.insert(key, change);
            }
        }
    }
}

impl Drop for MemoCall {
    fn drop(&mut self) {
        let mut state = self.memo.state.lock();
        self.staged.get_mut().take(&mut state);
    }
}

/// Each staged change is counted in the memo's state.
impl Changes {
    fn insert(&mut self, state: &mut Committed, key: &str, change: Option<Staged>) {
        self.forget(state, key);
        let size = Self::size(key, change.as_ref());
        self.bytes += size;
        state.staged += size;
        self.by_key.insert(key.into(), change);
    }

    fn forget(&mut self, state: &mut Committed, key: &str) {
        if let Some(change) = self.by_key.remove(key) {
            let size = Self::size(key, change.as_ref());
            self.bytes -= size;
            state.staged -= size;
        }
    }

    fn take(&mut self, state: &mut Committed) -> HashMap<String, Option<Staged>> {
        state.staged -= std::mem::take(&mut self.bytes);
        std::mem::take(&mut self.by_key)
    }

    fn size(key: &str, change: Option<&Staged>) -> usize {
        match change {
            Some(change) => size(key, &change.entry.value, &change.object_uid),
            None => size(key, &Bytes::new(), ""),
        }
    }
}

/// Returns the size of an entry, in bytes.
fn size(key: &str, value: &Bytes, object_uid: &str) -> usize {
    let tag = match object_uid {
        "" => 0,
        uid => TAG + key.len() + 2 * uid.len(),
    };
    ENTRY + key.len() + value.len() + tag
}

impl Default for Memo {
    fn default() -> Self {
        Self::new(None)
    }
}

impl Memo {
    /// Creates a memo with this capacity in bytes, or with the default capacity.
    pub fn new(capacity: Option<u64>) -> Self {
        let capacity = capacity
            .and_then(|bytes| usize::try_from(bytes).ok())
            .unwrap_or(CAPACITY);
        Self {
            capacity,
            state: Mutex::default(),
        }
    }

    /// Bytes that it can hold.
    pub fn capacity(&self) -> usize {
        self.capacity
    }

    /// Bytes that it holds.
    pub fn bytes(&self) -> usize {
        self.state.lock().bytes
    }

    /// Drops the entries that are tagged with a deleted object.
    pub(crate) fn object_deleted(&self, uid: &str) {
        let mut state = self.state.lock();
        for key in state.by_object.remove(uid).unwrap_or_default() {
            state.remove(&key);
        }
    }

    /// Whether an entry is tagged with this object.
    pub(crate) fn has_entries_of(&self, uid: &Uid) -> bool {
        let state = self.state.lock();
        !state.by_object.is_empty() && state.by_object.contains_key(&*uid.to_string())
    }

    /// Drops expired entries. Otherwise, a key that nobody asks for again would stay forever.
    pub fn tidy(&self) {
        let (mut state, now) = (self.state.lock(), Instant::now());
        let expired = state
            .entries
            .iter()
            .filter(|(_, entry)| entry.has_expired(now))
            .map(|(key, _)| key.clone());
        for key in expired.collect::<Vec<_>>() {
            state.remove(&key);
        }
    }

    /// Drops all committed entries.
    pub fn clear(&self) {
        let mut state = self.state.lock();
        *state = Committed {
            staged: state.staged,
            version: state.version,
            ..Committed::default()
        };
    }

    #[cfg(test)]
    fn is_empty(&self) -> bool {
        self.state.lock().entries.is_empty()
    }
}

impl CommittedEntry {
    fn has_expired(&self, now: Instant) -> bool {
        self.expires.is_some_and(|expires| expires <= now)
    }
}

impl Committed {
    fn get(&mut self, key: &str) -> Option<MemoEntry> {
        let entry = self.entries.get(key)?;
        if entry.has_expired(Instant::now()) {
            self.remove(key);
            return None;
        }
        Some(entry.value.clone())
    }

    fn insert(&mut self, key: String, change: Staged) {
        self.remove(&key);
        self.bytes += size(&key, &change.entry.value, &change.object_uid);
        let expires = change.ttl.map(|ttl| Instant::now() + ttl);
        if !change.object_uid.is_empty() {
            self.by_object
                .entry(change.object_uid.clone())
                .or_default()
                .insert(key.clone());
        }
        self.entries.insert(
            key,
            CommittedEntry {
                value: change.entry,
                object_uid: change.object_uid,
                expires,
            },
        );
    }

    fn remove(&mut self, key: &str) {
        let Some(entry) = self.entries.remove(key) else {
            return;
        };
        self.bytes -= size(key, &entry.value.value, &entry.object_uid);
        if let Some(keys) = self.by_object.get_mut(&entry.object_uid) {
            keys.remove(key);
            if keys.is_empty() {
                self.by_object.remove(&entry.object_uid);
            }
        }
    }

    /// Fails if `more` bytes don't fit into the capacity.
    fn check_room(&self, more: usize, capacity: usize) -> Result<(), ApiError> {
        let held = self.bytes.saturating_add(self.staged);
        if held.saturating_add(more) > capacity {
            return Err(ApiError::full(format!(
                "the memo holds {held} bytes of {capacity}, those that running calls have added included: remove what can be \
                 derived again"
            )));
        }
        Ok(())
    }

    fn next_version(&mut self) -> u32 {
        self.version = self.version.wrapping_add(1).max(1);
        self.version
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn put(
        call: &MemoCall,
        key: &str,
        expected: u32,
        value: &'static str,
    ) -> Result<u32, ApiError> {
        call.put(key, expected, Bytes::from(value), "", 0)
    }

    #[test]
    fn a_call_sees_its_own_changes_and_others_only_after_it_returned() {
        let memo = Arc::new(Memo::default());
        let call = MemoCall::new(memo.clone());
        let version = put(&call, "a", 0, "1").unwrap();
        assert_eq!(call.get("a").unwrap().version, version);
        assert_eq!(MemoCall::new(memo.clone()).get("a"), None);
        call.commit();
        assert_eq!(MemoCall::new(memo.clone()).get("a").unwrap().value, "1");
    }

    #[test]
    fn a_call_holds_no_keys_that_it_added_and_removed() {
        let memo = Arc::new(Memo::default());
        let committed = MemoCall::new(memo.clone());
        put(&committed, "a", 0, "1").unwrap();
        committed.commit();
        let call = MemoCall::new(memo.clone());
        for number in 0..100 {
            let key = format!("{number}");
            put(&call, &key, 0, "1").unwrap();
            call.remove(&key);
            assert_eq!(call.get(&key), None);
        }
        call.remove("a");
        assert_eq!(call.get("a"), None);
        let staged = call.staged.lock();
        assert_eq!(staged.by_key.len(), 1);
        assert_eq!(staged.bytes, size("a", &Bytes::new(), ""));
        drop(staged);
        call.commit();
        assert!(memo.is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn what_has_expired_takes_no_room_though_nobody_asks_for_it() {
        let memo = Arc::new(Memo::default());
        let call = MemoCall::new(memo.clone());
        call.put("short", 0, Bytes::from("1"), "", 1000).unwrap();
        call.put("long", 0, Bytes::from("1"), "", 5000).unwrap();
        call.commit();
        tokio::time::advance(Duration::from_secs(2)).await;
        memo.tidy();
        assert_eq!(
            memo.state.lock().entries.keys().collect::<Vec<_>>(),
            ["long"]
        );
        assert_eq!(memo.bytes(), size("long", &Bytes::from("1"), ""));
    }

    #[test]
    fn what_is_emptied_gives_no_version_twice() {
        let memo = Arc::new(Memo::default());
        let call = MemoCall::new(memo.clone());
        call.put("a", 0, Bytes::from("1"), "uid", 0).unwrap();
        call.commit();
        let before = MemoCall::new(memo.clone()).get("a").unwrap().version;
        memo.clear();
        assert!(memo.is_empty());
        memo.object_deleted("uid");
        let call = MemoCall::new(memo.clone());
        let after = call.put("a", 0, Bytes::from("2"), "other", 0).unwrap();
        assert!(after > before);
        call.commit();
        memo.object_deleted("uid");
        assert_eq!(MemoCall::new(memo.clone()).get("a").unwrap().value, "2");
        memo.object_deleted("other");
        assert!(memo.is_empty());
    }

    #[test]
    fn a_call_that_traps_leaves_nothing() {
        let memo = Arc::new(Memo::default());
        put(&MemoCall::new(memo.clone()), "a", 0, "1").unwrap();
        assert!(memo.is_empty());
    }

    #[test]
    fn a_stale_version_is_a_conflict_and_the_first_commit_wins() {
        let memo = Arc::new(Memo::default());
        let (one, two) = (MemoCall::new(memo.clone()), MemoCall::new(memo.clone()));
        put(&one, "a", 0, "one").unwrap();
        put(&two, "a", 0, "two").unwrap();
        one.commit();
        two.commit();
        let late = MemoCall::new(memo.clone());
        assert_eq!(late.get("a").unwrap().value, "one");
        assert_eq!(put(&late, "a", 0, "x").unwrap_err().reason, "Conflict");
    }

    #[test]
    fn no_room_is_an_error() {
        let memo = Arc::new(Memo::default());
        let call = MemoCall::new(memo.clone());
        let error = call
            .put("a", 0, Bytes::from(vec![0; CAPACITY]), "", 0)
            .unwrap_err();
        assert_eq!((error.status, error.reason.as_str()), (507, "Full"));
    }

    #[test]
    fn entries_without_a_value_and_removals_of_nothing_take_no_endless_room() {
        let memo = Arc::new(Memo::new(Some(100 * (ENTRY as u64 + 4))));
        let call = MemoCall::new(memo.clone());
        let put = |key: usize| call.put(&format!("{key:04}"), 0, Bytes::new(), "", 0);
        assert_eq!((0..1000).take_while(|key| put(*key).is_ok()).count(), 100);
        call.remove("0007");
        assert!(put(100).is_ok() && put(101).is_err());
        (1000..2000).for_each(|key| call.remove(&key.to_string()));
        assert_eq!(call.staged.lock().by_key.len(), 100);
        call.commit();
        assert_eq!(memo.bytes(), 100 * (ENTRY + 4));
    }

    #[test]
    fn calls_that_run_at_once_share_the_room() {
        let capacity = 100 * (ENTRY + 4);
        let memo = Arc::new(Memo::new(Some(capacity as u64)));
        let call = || MemoCall::new(memo.clone());
        let fill = |call: &MemoCall, first: usize| {
            let put = |key: usize| {
                call.put(&format!("{key:04}"), 0, Bytes::new(), "", 0)
                    .is_ok()
            };
            (first..first + 60).filter(|key| put(*key)).count()
        };
        let (one, two, trapped) = (call(), call(), call());
        assert_eq!((fill(&one, 0), fill(&two, 1000)), (60, 40));
        assert_eq!(fill(&trapped, 2000), 0);
        one.commit();
        two.commit();
        assert_eq!(memo.bytes(), capacity);
        // In a full memo, a removal takes no room and frees some at once. Room that a trapped call had staged is free
        // again.
        trapped.remove("0000");
        assert_eq!(fill(&trapped, 2000), 1);
        drop(trapped);
        let late = call();
        assert_eq!(fill(&late, 3000), 1);
        late.commit();
        assert_eq!(memo.bytes(), capacity);
        assert_eq!(memo.state.lock().staged, 0);
    }

    #[test]
    fn what_an_entry_is_tagged_with_takes_room_too() {
        let memo = Arc::new(Memo::new(Some(10_000)));
        let call = MemoCall::new(memo);
        let error = call
            .put("a", 0, Bytes::new(), &"u".repeat(10_000), 0)
            .unwrap_err();
        assert_eq!((error.status, error.reason.as_str()), (507, "Full"));
    }

    #[tokio::test(start_paused = true)]
    async fn an_entry_goes_with_its_time_and_with_its_object() {
        let memo = Arc::new(Memo::default());
        let call = MemoCall::new(memo.clone());
        call.put("timed", 0, Bytes::from("1"), "", 1000).unwrap();
        call.put("tagged", 0, Bytes::from("1"), "uid-1", 0).unwrap();
        call.commit();
        tokio::time::advance(Duration::from_millis(1000)).await;
        assert_eq!(call.get("timed"), None);
        assert!(call.get("tagged").is_some());
        memo.object_deleted("uid-1");
        assert!(memo.is_empty());
    }
}
