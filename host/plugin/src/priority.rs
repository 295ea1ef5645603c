//! Lowers the priority of a thread, so that any other thread of the process preempts it as soon as that thread is
//! runnable.
//!
//! A nice value alone does not achieve that: a running thread keeps its core for the rest of its time slice, which
//! lasts milliseconds, whichever threads wake meanwhile. Linux lets a thread with a shorter slice preempt one with a
//! longer slice, so these threads get the longest slice. (Before Linux 6.12 a thread can't set its slice, and only the
//! nice value counts.)
//!
//! This is one of the three unsafe modules of the crate, with `deserialize.rs` and `pages.rs`. It is unsafe because the
//! C library has no function for the system call. The call reads the structure that it is given, and changes only how
//! this thread is scheduled.

#![allow(unsafe_code, reason = "no safe function for this: see above")]

/// The minimum nice value of the threads. It gives them a tenth of the weight of others: little enough to be preempted,
/// and enough to release soon a lock that another thread waits for.
#[cfg(target_os = "linux")]
const NICE: i32 = 10;
/// The longest slice that Linux allows, in nanoseconds.
#[cfg(target_os = "linux")]
const SLICE: u64 = 100_000_000;

/// Lowers the priority of this thread as far as the system allows. Failures are ignored.
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
        // SAFETY: The kernel reads `size` bytes, which is the size of the structure, and writes none. 0 is this thread.
        unsafe { libc::syscall(libc::SYS_sched_setattr, 0, &raw const attributes, 0) };
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn only_the_calling_thread_gets_a_lower_priority() {
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
