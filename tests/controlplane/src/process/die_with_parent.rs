//! Ties a child's life to that of the thread that spawns it, which the kernel does with
//! `PR_SET_PDEATHSIG`.
#![allow(
    unsafe_code,
    reason = "std can run code between fork and exec only through `pre_exec`, which is unsafe"
)]

use std::io;
use std::os::unix::process::CommandExt;
use std::process::Command;

use rustix::process::{Signal, getpid, getppid, set_parent_process_death_signal};

/// Makes the kernel send SIGKILL to the child of `command` when the *thread* that spawns it ends,
/// however it ends. The setting survives `exec`, but not that of a set-uid program.
pub(super) fn die_with_parent(command: &mut Command) {
    let parent = getpid();
    let tie = move || {
        set_parent_process_death_signal(Some(Signal::KILL))?;
        // A parent that died before the line above sends no signal any more.
        if getppid() != Some(parent) {
            return Err(io::Error::from(io::ErrorKind::NotConnected));
        }
        Ok(())
    };
    // SAFETY: between fork and exec only async-signal-safe calls are allowed, and no allocation:
    // the closure makes two system calls, and an error of its own that is built without allocating.
    unsafe { command.pre_exec(tie) };
}
