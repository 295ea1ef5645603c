//! Gives memory that the process does not need back to the system.
//!
//! The allocator of glibc keeps memory that a burst of work has freed: a plugin that made the host parse many large
//! objects would leave the process large for ever. The memory is kept in two places. The free end of each thread's heap
//! is cut off as soon as it exceeds a threshold. The threshold has to be fixed: by default, it grows to twice the
//! largest block that was ever freed. Free pages between blocks are returned at intervals. The number of heaps is
//! limited to the number of cores: by default, each thread has its own heap, whose free pages the other threads can't
//! use. Other allocators return memory by themselves. The pages of the program that only the start needs are returned
//! as well ([`program`]).

#[cfg(target_os = "linux")]
mod program;

use std::time::{Duration, Instant};

/// How often free memory is returned to the system. It takes about a millisecond for each 10 MiB of the heap. Plugins
/// that have become idle are unloaded every few seconds, which leaves free pages all over the heap.
const INTERVAL: Duration = Duration::from_secs(10);
/// The first of the shorter intervals during the start, when most of the program is read only once. Each further one is
/// twice as long.
const FIRST_INTERVAL: Duration = Duration::from_millis(10);

/// The minimum size in bytes of a block that gets its own pages, which are returned as soon as it is freed.
const OWN_PAGES: i32 = 2 << 20;
/// The most bytes that stay free at the end of a thread's heap.
const FREE_END: i32 = 1 << 20;

/// Fixes the allocator's thresholds and its number of heaps. To be called before other threads start.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
#[expect(unsafe_code, reason = "a function of the C library")]
pub(crate) fn fix_allocator() {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let heaps = i32::try_from(cores).unwrap_or(i32::MAX);
    // SAFETY: the function takes the allocator's own locks.
    let fixed = unsafe {
        libc::mallopt(libc::M_MMAP_THRESHOLD, OWN_PAGES) == 1
            && libc::mallopt(libc::M_TRIM_THRESHOLD, FREE_END) == 1
            && libc::mallopt(libc::M_ARENA_MAX, heaps) == 1
    };
    if !fixed {
        tracing::warn!("can't fix the allocator's thresholds: free memory may not be given back");
    }
}

#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
pub(crate) fn fix_allocator() {}

/// Returns free memory to the system at intervals.
pub(crate) async fn give_back() {
    let mut interval = FIRST_INTERVAL;
    loop {
        tokio::time::sleep(interval).await;
        interval = INTERVAL.min(interval * 2);
        let (start, before) = (Instant::now(), resident());
        if tokio::task::spawn_blocking(give_all_back).await.is_err() {
            return;
        }
        let (took, after) = (start.elapsed(), resident());
        if before != after {
            tracing::debug!(before, after, ?took, "gave memory back to the system");
        }
    }
}

fn give_all_back() {
    trim();
    #[cfg(target_os = "linux")]
    program::give_back();
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

#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
fn trim() {}

#[cfg(test)]
mod tests {
    use super::*;

    /// By default, the second part fails: the threads' heaps keep their free ends.
    #[test]
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    fn memory_that_bursts_freed_is_given_back() {
        fix_allocator();
        // By default, the allocator raises its thresholds when it frees a large block.
        drop(std::hint::black_box(vec![1_u8; 30 << 20]));
        let burst = |keeps_end: bool| {
            let mut blocks: Vec<Vec<u8>> = (0..50_000).map(|_| vec![1; 1024]).collect();
            let kept = blocks.pop().filter(|_| keeps_end);
            let during = resident().expect("the system tells");
            drop(blocks);
            (during, kept)
        };
        for keeps_end in [true, false] {
            let threads: Vec<_> = (0..4)
                .map(|_| std::thread::spawn(move || burst(keeps_end)))
                .collect();
            let bursts: Vec<_> = threads
                .into_iter()
                .map(|thread| thread.join().expect("the thread ends"))
                .collect();
            let during = bursts.iter().map(|burst| burst.0).max();
            let during = during.expect("there are threads");
            trim();
            let after = resident().expect("the system tells");
            // Each thread had allocated 50 MiB, but not all at the same time. Other tests allocate in the same process.
            assert!(
                after + (40 << 20) < during,
                "{during} bytes during, {after} after, the end is kept: {keeps_end}"
            );
        }
    }
}
