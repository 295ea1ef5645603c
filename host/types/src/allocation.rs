//! The memory of what plugins leave with the host.

/// The bytes that the allocator takes for a block of this many: glibc adds 8 and rounds up to 16, and no block has less
/// than 32.
pub fn size_of_block(bytes: usize) -> usize {
    match bytes {
        0 => 0,
        bytes => bytes.saturating_add(8).next_multiple_of(16).max(32),
    }
}
