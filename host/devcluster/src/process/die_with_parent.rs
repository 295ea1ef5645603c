//! Ties a child's life to that of the thread that spawns it, with `PR_SET_PDEATHSIG`.
#![allow(
    unsafe_code,
    reason = "std can run code between fork and exec only through `pre_exec`, which is unsafe"
)]

use std::io;
use std::os::unix::process::CommandExt;
use std::process::Command;

use rustix::process::{Signal, getpid, getppid, set_parent_process_death_signal};

/// Makes the kernel send SIGKILL to the child of `command` when the *thread* that spawns it ends in any way. The
/// setting survives `exec`, except of a set-uid program.
pub(super) fn die_with_parent(command: &mut Command) {
    let parent = getpid();
    let tie = move || {
        set_parent_process_death_signal(Some(Signal::KILL))?;
        // If the parent died before the line above, the kernel sends no signal.
        if getppid() != Some(parent) {
            return Err(io::Error::from(io::ErrorKind::NotConnected));
        }
        Ok(())
    };
    // SAFETY: between fork and exec, only async-signal-safe calls and no allocations are allowed. The closure makes
    // only system calls, and creates its error without an allocation.
    unsafe { command.pre_exec(tie) };
}
