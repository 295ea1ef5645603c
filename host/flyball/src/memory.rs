//! Gives memory that is free inside the process back to the system.
//!
//! The allocator of glibc keeps what a burst of work has freed: a plugin that made the host parse many large objects would
//! leave it large for ever. Two places have to be emptied: the free end of each thread's heap, which the allocator cuts off by
//! itself once its thresholds are small, and the free pages between blocks, which are given back at intervals. Other
//! allocators give memory back by themselves.

use std::time::{Duration, Instant};

/// Giving memory back takes about a millisecond for each 10 MiB of the heap.
const INTERVAL: Duration = Duration::from_secs(30);

/// The least size in bytes of a block that has pages of its own, which are given back as soon as it is freed. By default, the
/// allocator raises this size to that of the largest block that was freed, and the other threshold to twice as much.
const OWN_PAGES: i32 = 2 << 20;
/// The most bytes that stay free at the end of a thread's heap.
const FREE_END: i32 = 1 << 20;

/// Sets the allocator's thresholds. To be called before other threads start.
pub(crate) fn limit_free_ends() {
    set_thresholds();
}

/// Gives free memory back from time to time.
pub(crate) async fn give_back() {
    loop {
        tokio::time::sleep(INTERVAL).await;
        let (start, before) = (Instant::now(), resident());
        if tokio::task::spawn_blocking(trim).await.is_err() {
            return;
        }
        let (took, after) = (start.elapsed(), resident());
        if before != after {
            tracing::debug!(before, after, ?took, "gave free memory back to the system");
        }
    }
}

/// The resident memory of this process in bytes; none if the system does not tell.
fn resident() -> Option<u64> {
    let statm = std::fs::read_to_string("/proc/self/statm").ok()?;
    let pages: u64 = statm.split_whitespace().nth(1)?.parse().ok()?;
    Some(pages * rustix::param::page_size() as u64)
}

#[cfg(all(target_os = "linux", target_env = "gnu"))]
#[expect(unsafe_code, reason = "a function of the C library")]
fn trim() {
    // SAFETY: the function takes the allocator's own locks.
    unsafe { libc::malloc_trim(0) };
}

#[cfg(all(target_os = "linux", target_env = "gnu"))]
#[expect(unsafe_code, reason = "a function of the C library")]
fn set_thresholds() {
    // SAFETY: the function takes the allocator's own locks. It fails only for a threshold beyond half of a heap's maximum.
    unsafe {
        libc::mallopt(libc::M_MMAP_THRESHOLD, OWN_PAGES);
        libc::mallopt(libc::M_TRIM_THRESHOLD, FREE_END);
    }
}

#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
fn trim() {}

#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
fn set_thresholds() {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    fn the_free_end_of_a_heap_is_given_back_at_once() {
        limit_free_ends();
        // By default, the allocator raises its thresholds when a large block is freed.
        drop(vec![1_u8; 30 << 20]);
        let blocks: Vec<Vec<u8>> = (0..200_000).map(|_| vec![1; 1024]).collect();
        let during = resident().expect("the system tells");
        drop(blocks);
        let after = resident().expect("the system tells");
        // Other tests allocate in the same process.
        assert!(after + (150 << 20) < during, "{during} {after}");
    }

    #[test]
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    fn memory_that_a_burst_freed_is_given_back() {
        let before = resident().expect("the system tells");
        let mut blocks: Vec<Vec<u8>> = (0..200_000).map(|_| vec![1; 1024]).collect();
        // The last block keeps the end of the heap in use.
        let kept = blocks.pop();
        let during = resident().expect("the system tells");
        drop(blocks);
        trim();
        let after = resident().expect("the system tells");
        assert!(during > before + (150 << 20), "{before} {during}");
        // Other tests allocate in the same process, so the memory is not compared with what it was before.
        assert!(after + (150 << 20) < during, "{before} {during} {after}");
        drop(kept);
    }
}
