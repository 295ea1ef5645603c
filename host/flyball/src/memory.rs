//! Gives memory that is free inside the process back to the system.
//!
//! The allocator of glibc keeps what a burst of work has freed: a plugin that made the host parse many large objects would
//! leave it large for ever. Other allocators give it back by themselves.

use std::time::Duration;

/// How often the memory is looked at.
const INTERVAL: Duration = Duration::from_secs(30);
/// Growth since the last time that is not worth the work, in bytes.
const SMALL: u64 = 2 << 20;

/// Gives free memory back from time to time, if the process has grown.
pub(crate) async fn give_back() {
    let mut after = resident().unwrap_or_default();
    loop {
        tokio::time::sleep(INTERVAL).await;
        match resident() {
            Some(before) if has_grown(before, after) => {
                // It takes milliseconds for each 100 MiB.
                let trimmed = tokio::task::spawn_blocking(trim).await;
                if trimmed.is_err() {
                    return;
                }
                after = resident().unwrap_or(before);
                let given_back = before.saturating_sub(after);
                tracing::debug!(before, after, given_back, "gave free memory back");
            }
            Some(now) => after = after.min(now),
            None => return,
        }
    }
}

/// Whether the process has grown by more than a twentieth.
fn has_grown(now: u64, before: u64) -> bool {
    now > before + before / 20 + SMALL
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
    fn what_a_burst_has_freed_is_given_back() {
        let before = resident().expect("the system tells");
        let mut blocks: Vec<Vec<u8>> = (0..200_000).map(|_| vec![1; 1024]).collect();
        // The last block keeps the end of the heap in use.
        let kept = blocks.pop();
        let during = resident().expect("the system tells");
        drop(blocks);
        trim();
        let after = resident().expect("the system tells");
        assert!(during > before + (150 << 20), "{before} {during}");
        assert!(after < before + (50 << 20), "{before} {during} {after}");
        drop(kept);
    }

    #[test]
    fn a_little_growth_is_not_worth_the_work() {
        assert!(!has_grown(34 << 20, 34 << 20));
        assert!(!has_grown((34 << 20) + SMALL, 34 << 20));
        assert!(has_grown(40 << 20, 34 << 20));
        assert!(!has_grown(1040 << 20, 1000 << 20));
    }
}
