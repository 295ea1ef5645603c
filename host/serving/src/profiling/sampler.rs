//! Samples the stacks on which the process spends CPU time. A kernel timer sends a signal for each 10 ms of CPU time to
//! a running thread, and the signal's handler records the stack.
//!
//! The handler must not wait for anything that the interrupted code may hold. It writes to a fixed buffer of atomics,
//! which a task empties, and it does not unwind where the C library or the unwinder itself was interrupted: the
//! unwinder may take their locks. Such a sample has one address only.
//!
//! The crate `pprof` does less: it drops the samples of the C library and the frames without a symbol, which are those
//! of guests and, in a release, of the host, whose symbols are in a file of their own.

use std::collections::HashMap;
use std::ffi::c_int;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::SystemTime;

use tokio::time::{Duration, Instant, sleep, timeout_at};

use super::symbols::{self, Mapping};

/// CPU time between two samples.
pub(super) const PERIOD: Duration = Duration::from_millis(10);
/// Time between two passes that empty the buffer.
const EMPTYING: Duration = Duration::from_millis(50);
/// The number of samples in the buffer: enough for 100 cores between two passes.
const SLOTS: usize = 512;
/// Maximum number of addresses of a sample.
const DEPTH: usize = 128;
/// The maximum number of address ranges that are not unwound.
const RANGES: usize = 16;

/// Names of the mappings in which the unwinder must not start.
const NOT_UNWOUND: [&str; 5] = ["libc.", "libc-", "libgcc", "libpthread", "ld-linux"];

/// The samples of a profile.
pub(super) struct Samples {
    /// Number of samples by stack, the innermost address first.
    pub(super) stacks: HashMap<Vec<usize>, u64>,
    pub(super) start: SystemTime,
    pub(super) duration: Duration,
    /// The mappings of code at the end.
    pub(super) mappings: Vec<Mapping>,
}

/// Why nothing was sampled.
#[derive(Debug, thiserror::Error)]
pub(super) enum SampleError {
    #[error("cpu profiling already in use")]
    InUse,
    #[error("the system refuses it: {0}")]
    System(#[from] std::io::Error),
}

struct Slot {
    /// Number of addresses; [`EMPTY`] or [`WRITING`].
    length: AtomicUsize,
    addresses: [AtomicUsize; DEPTH],
}

const EMPTY: usize = 0;
const WRITING: usize = usize::MAX;

/// The buffer. It takes no memory before the first sample, because it is zero.
static BUFFER: [Slot; SLOTS] = [const {
    Slot {
        length: AtomicUsize::new(EMPTY),
        addresses: [const { AtomicUsize::new(0) }; DEPTH],
    }
}; SLOTS];
static NEXT: AtomicUsize = AtomicUsize::new(0);
/// Starts and ends of the ranges that are not unwound; zero if unused.
static UNSAFE_RANGES: [[AtomicUsize; 2]; RANGES] =
    [const { [const { AtomicUsize::new(0) }; 2] }; RANGES];
static IS_SAMPLING: AtomicBool = AtomicBool::new(false);
static IS_TAKEN: AtomicBool = AtomicBool::new(false);

/// Samples the process for this long.
///
/// # Errors
/// Another profile is being taken, or the system refuses the signal or the timer.
pub(super) async fn sample(duration: Duration) -> Result<Samples, SampleError> {
    if IS_TAKEN.swap(true, Ordering::Acquire) {
        return Err(SampleError::InUse);
    }
    let _running = Running;
    set_ranges(&symbols::mappings());
    install_handler()?;
    let (start, begin) = (SystemTime::now(), Instant::now());
    IS_SAMPLING.store(true, Ordering::Release);
    set_timer(PERIOD)?;
    let mut stacks = HashMap::new();
    let fill = async {
        loop {
            sleep(EMPTYING).await;
            empty(&mut stacks);
        }
    };
    let _: Result<(), _> = timeout_at(begin + duration, fill).await;
    stop();
    empty(&mut stacks);
    Ok(Samples {
        stacks,
        start,
        duration: begin.elapsed(),
        mappings: symbols::mappings(),
    })
}

/// Stops when it is dropped, for example when the client disconnects.
struct Running;

impl Drop for Running {
    fn drop(&mut self) {
        stop();
        empty(&mut HashMap::new());
        IS_TAKEN.store(false, Ordering::Release);
    }
}

fn stop() {
    IS_SAMPLING.store(false, Ordering::Release);
    if let Err(error) = set_timer(Duration::ZERO) {
        tracing::warn!(%error, "can't stop the timer of the CPU profile");
    }
}

fn set_ranges(mappings: &[Mapping]) {
    let ranges = mappings.iter().filter(|mapping| {
        let file = mapping.name.rsplit('/').next().unwrap_or_default();
        file == "[vdso]" || NOT_UNWOUND.iter().any(|name| file.starts_with(name))
    });
    let ranges = ranges.map(|mapping| [mapping.start, mapping.end]);
    for (own, range) in UNSAFE_RANGES
        .iter()
        .zip(ranges.chain(std::iter::repeat([0; 2])))
    {
        own[0].store(range[0], Ordering::Relaxed);
        own[1].store(range[1], Ordering::Relaxed);
    }
}

/// Moves the samples in the buffer to the stacks.
fn empty(stacks: &mut HashMap<Vec<usize>, u64>) {
    for slot in &BUFFER {
        let length = slot.length.load(Ordering::Acquire);
        if length == EMPTY || length == WRITING {
            continue;
        }
        let addresses = slot.addresses[..length]
            .iter()
            .map(|address| address.load(Ordering::Relaxed));
        *stacks.entry(addresses.collect()).or_default() += 1;
        slot.length.store(EMPTY, Ordering::Release);
    }
}

/// Records the stack of the interrupted code, which stopped at `at`.
///
/// This runs in a signal handler: no memory is allocated here and no lock is taken. The unwinder may do both when it
/// first sees code of a guest, so that it must not start within the C library.
fn record(at: usize) {
    let slot = &BUFFER[NEXT.fetch_add(1, Ordering::Relaxed) % SLOTS];
    let taken = slot
        .length
        .compare_exchange(EMPTY, WRITING, Ordering::Acquire, Ordering::Relaxed);
    if taken.is_err() {
        // The buffer is full: the sample is lost.
        return;
    }
    slot.addresses[0].store(at, Ordering::Relaxed);
    let mut length = 1;
    let is_unwound = !UNSAFE_RANGES.iter().any(|range| {
        (range[0].load(Ordering::Relaxed)..range[1].load(Ordering::Relaxed)).contains(&at)
    });
    if is_unwound {
        let mut is_past_handler = false;
        unwind(|address| {
            if is_past_handler {
                slot.addresses[length].store(address, Ordering::Relaxed);
                length += 1;
            }
            is_past_handler |= address == at;
            length < DEPTH
        });
    }
    slot.length.store(length, Ordering::Release);
}

#[expect(unsafe_code, reason = "the safe function takes a lock")]
fn unwind(mut each: impl FnMut(usize) -> bool) {
    // SAFETY: the function is unsynchronized only in that symbols are resolved without a lock, and no symbol is
    // resolved here.
    unsafe {
        backtrace::trace_unsynchronized(|frame| each(frame.ip().addr()));
    }
}

#[expect(
    unsafe_code,
    reason = "the C library passes the registers as a pointer"
)]
extern "C" fn handle(_: c_int, _: *mut libc::siginfo_t, context: *mut libc::c_void) {
    if !IS_SAMPLING.load(Ordering::Acquire) || context.is_null() {
        return;
    }
    // SAFETY: the handler was installed with SA_SIGINFO, so that this points to the context.
    let context = unsafe { &*context.cast::<libc::ucontext_t>() };
    // SAFETY: the pointer to this thread's `errno` is always valid.
    let errno = unsafe { *libc::__errno_location() };
    if let Some(at) = program_counter(context) {
        record(at);
    }
    // SAFETY: as above.
    unsafe { *libc::__errno_location() = errno };
}

#[cfg(target_arch = "x86_64")]
fn program_counter(context: &libc::ucontext_t) -> Option<usize> {
    usize::try_from(context.uc_mcontext.gregs[libc::REG_RIP as usize]).ok()
}

#[cfg(target_arch = "aarch64")]
fn program_counter(context: &libc::ucontext_t) -> Option<usize> {
    usize::try_from(context.uc_mcontext.pc).ok()
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
fn program_counter(_: &libc::ucontext_t) -> Option<usize> {
    None
}

/// Installs the handler. It stays: a signal may arrive after the timer was stopped, and would end the process.
#[expect(unsafe_code, reason = "functions of the C library")]
fn install_handler() -> std::io::Result<()> {
    let handler: extern "C" fn(c_int, *mut libc::siginfo_t, *mut libc::c_void) = handle;
    // SAFETY: all bits zero is a valid `sigaction`, which blocks no other signal.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    action.sa_sigaction = handler as usize;
    action.sa_flags = libc::SA_SIGINFO | libc::SA_RESTART;
    // SAFETY: both pointers are valid or null, and the handler has the type that SA_SIGINFO asks for.
    match unsafe { libc::sigaction(libc::SIGPROF, &action, std::ptr::null_mut()) } {
        0 => Ok(()),
        _ => Err(std::io::Error::last_os_error()),
    }
}

/// Sends the signal each time the process has used this much CPU time; zero for never.
#[expect(unsafe_code, reason = "a function of the C library")]
fn set_timer(period: Duration) -> std::io::Result<()> {
    let period = libc::timeval {
        tv_sec: 0,
        tv_usec: period.subsec_micros().into(),
    };
    let timer = libc::itimerval {
        it_interval: period,
        it_value: period,
    };
    // SAFETY: both pointers are valid or null.
    match unsafe { libc::setitimer(libc::ITIMER_PROF, &timer, std::ptr::null_mut()) } {
        0 => Ok(()),
        _ => Err(std::io::Error::last_os_error()),
    }
}

#[cfg(test)]
mod tests {
    use std::hint::black_box;
    use std::sync::Arc;

    use super::super::format::{encode, tests::go_reads};
    use super::*;

    #[inline(never)]
    fn burns_cpu_time(stop: &AtomicBool) -> u64 {
        let mut sum = 1_u64;
        while !stop.load(Ordering::Relaxed) {
            for number in 0..10_000_u64 {
                sum = black_box(sum.wrapping_mul(31).wrapping_add(number));
            }
        }
        sum
    }

    /// One test, because there is one timer for the process.
    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn the_function_that_takes_the_time_is_found_and_two_profiles_exclude_each_other() {
        let stop = Arc::new(AtomicBool::new(false));
        let seen = stop.clone();
        let burner = std::thread::spawn(move || burns_cpu_time(&seen));
        let first = tokio::spawn(sample(Duration::from_secs(2)));
        sleep(Duration::from_millis(300)).await;
        let second = sample(Duration::from_secs(1)).await.map(drop);
        assert!(matches!(second, Err(SampleError::InUse)));
        let samples = first.await.unwrap().unwrap();

        let total: u64 = samples.stacks.values().sum();
        assert!(total > 20, "{total} samples");
        let is_in = |address: &usize| {
            symbols::resolve(*address)
                .iter()
                .any(|symbol| symbol.name.contains("burns_cpu_time"))
        };
        let ours = samples
            .stacks
            .iter()
            .filter(|(stack, _)| stack.iter().any(is_in));
        let ours: u64 = ours.map(|(_, count)| count).sum();
        assert!(ours * 2 > total, "{ours} of {total}");
        let deep = samples
            .stacks
            .keys()
            .filter(|stack| stack.len() > 3)
            .count();
        assert!(deep > 0, "no stack was unwound");

        // The next profile begins, and a profile ends when its client disconnects.
        let given_up = timeout_at(
            Instant::now() + Duration::from_millis(200),
            sample(Duration::from_secs(60)),
        );
        assert!(given_up.await.is_err());
        let again = sample(Duration::from_millis(200)).await;
        assert!(again.is_ok());
        stop.store(true, Ordering::Relaxed);
        burner.join().unwrap();
        go_reads(&encode(&samples), "cpu", "burns_cpu_time");
    }
}
