//! Gives memory that is free inside the process back to the system.
//!
//! The allocator of glibc keeps what a burst of work has freed: a plugin that made the host parse many large objects would
//! leave it large for ever. Other allocators give it back by themselves.

use std::time::{Duration, Instant};

/// Giving memory back takes about a millisecond for each 10 MiB of the heap.
const INTERVAL: Duration = Duration::from_secs(30);

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

#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
fn trim() {}

#[cfg(test)]
mod tests {
    use super::*;

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
