//! Lowers the priority of a thread, so that any other of the process takes the core from it as soon as it has something to do.
//!
//! A nice value alone does not do that: a thread that runs keeps its core for the rest of its slice, for milliseconds,
//! whoever wakes meanwhile. Linux lets a thread with a shorter slice go before one with a longer, so these get the longest.
//! (Before Linux 6.12 there are no slices of a thread's own, and the nice value decides.)
//!
//! This is the third unsafe step of the crate, beside `precompiled.rs` and `pages.rs`: the C library has no function for the
//! system call. It reads the structure that it is given, and changes nothing but how this thread is scheduled.

#![allow(unsafe_code, reason = "there is no safe call for it: see above")]

/// How nice the threads are at least. Their weight is a tenth of the others': little enough to give way, and enough to leave a lock
/// soon that another thread waits for.
#[cfg(target_os = "linux")]
const NICE: i32 = 10;
/// The longest slice that there is, in nanoseconds.
#[cfg(target_os = "linux")]
const SLICE: u64 = 100_000_000;

/// Lowers the priority of this thread as far as the system lets it; where it does not, all else goes on.
pub(crate) fn lower() {
    #[cfg(target_os = "linux")]
    {
        let nice = rustix::process::getpriority_process(None).unwrap_or(0);
        let attributes = libc::sched_attr {
            size: size_of::<libc::sched_attr>() as u32,
            sched_policy: libc::SCHED_OTHER as u32,
            sched_flags: 0,
            sched_nice: nice.max(NICE),
            sched_priority: 0,
            sched_runtime: SLICE,
            sched_deadline: 0,
            sched_period: 0,
        };
        // SAFETY: The kernel reads `size` bytes of the structure, all of which are there, and writes none. 0 is this thread.
        unsafe { libc::syscall(libc::SYS_sched_setattr, 0, &raw const attributes, 0) };
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn a_thread_is_nicer_afterwards_and_the_others_are_as_they_were() {
        let nice = || rustix::process::getpriority_process(None).unwrap();
        let before = nice();
        let lowered = std::thread::spawn(move || {
            lower();
            nice()
        });
        assert_eq!(lowered.join().unwrap(), NICE);
        assert_eq!(nice(), before);
    }
}
