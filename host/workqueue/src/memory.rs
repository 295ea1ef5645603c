//! The memory of keys and of the maps that hold them.

use std::collections::HashMap;
use std::hash::Hash;

/// The bytes of memory that a reference-counted key takes besides its text: its counters, and what the allocator adds.
pub(crate) const KEY_BLOCK: usize = 40;

/// Frees memory after a burst, such as an initial list. Called after an entry was removed.
///
/// Shrinks a large map that is mostly empty, and leaves room for twice its entries, so that the cost is amortised over
/// the removals.
pub(crate) fn shrink_if_sparse<K: Eq + Hash, V>(map: &mut HashMap<K, V>) {
    if map.capacity() > 1024 && map.len() < map.capacity() / 8 {
        map.shrink_to(usize::max(map.len() * 2, 512));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A map with this many entries and at least this capacity, after `shrink_if_sparse`, and its capacity before.
    fn shrunk(entries: usize, capacity: usize) -> (HashMap<usize, ()>, usize) {
        let mut map: HashMap<usize, ()> = HashMap::with_capacity(capacity);
        map.extend((0..entries).map(|key| (key, ())));
        let before = map.capacity();
        shrink_if_sparse(&mut map);
        (map, before)
    }

    #[test]
    fn a_large_map_shrinks_once_it_is_mostly_empty_and_keeps_room_to_double() {
        let sparse = shrunk(0, 10_000).1 / 8;
        let (map, before) = shrunk(sparse, 10_000);
        assert_eq!(map.capacity(), before, "an eighth is in use");
        let (map, before) = shrunk(sparse - 1, 10_000);
        assert!(map.capacity() < before, "less than an eighth is in use");
        // Not near a power of two, where the capacity that is left depends on rounding.
        let (map, before) = shrunk(1000, 10_000);
        assert!(map.capacity() < before);
        assert!(map.capacity() >= 2 * map.len());
    }

    #[test]
    fn a_small_map_keeps_its_capacity() {
        let (map, before) = shrunk(1, 800);
        assert_eq!(map.capacity(), before);
        // A large map is not shrunk below the capacity of a small one.
        assert!(shrunk(1, 10_000).0.capacity() >= 512);
    }
}
