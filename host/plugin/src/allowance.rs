//! The work that the host may still do for one call of a guest. Host functions that loop over data of a guest, or over
//! objects that a guest asks for, take an [`Allowance`] and draw from it, because the engine interrupts only the guest's
//! own code. The only one who makes them for guests is the boundary (`world/mod.rs`).

use std::sync::Arc;
use std::time::Duration;

use cpu_time::ThreadTime;
use flyball_types::ApiError;

use crate::meter::Meter;

/// How many items a loop visits between two checks.
const CHECKED_EACH: usize = 64;

/// The CPU time for which a byte of a document is read and written anew: an estimate, on the high side.
const DOCUMENT_BYTE: Duration = Duration::from_nanos(5);

/// The work that the host may still do for a call. It ends when the call has used up its CPU time, or when the plugin is
/// removed. It is drawn from while the call is polled.
#[derive(Clone, Debug)]
pub struct Allowance(Option<Arc<Meter>>);

/// An iterator that draws from an allowance.
#[derive(Debug)]
pub struct Each<'a, I> {
    allowance: &'a Allowance,
    items: I,
    /// Items since the last check.
    since: usize,
}

impl Allowance {
    pub(crate) fn of(meter: &Arc<Meter>) -> Self {
        Self(Some(meter.clone()))
    }

    /// An allowance for work that no guest has asked for. It never ends.
    pub fn of_host() -> Self {
        Self(None)
    }

    /// Fails if the work must end. Work that visits no items calls this between its steps.
    ///
    /// # Errors
    /// `Full` if the call has used up its CPU time, `Skipped` if the plugin is removed.
    pub fn check(&self) -> Result<(), ApiError> {
        match &self.0 {
            Some(meter) if meter.is_stopped() => Err(ApiError::stopped()),
            Some(meter) if meter.is_used_up() => Err(used_up()),
            Some(_) | None => Ok(()),
        }
    }

    /// Fails if the work must end, or if a document of this size would take more CPU time than the call has left. Its
    /// reading is not interrupted.
    ///
    /// # Errors
    /// See [`Allowance::check`].
    pub fn check_document(&self, bytes: usize) -> Result<(), ApiError> {
        self.check()?;
        let bytes = u32::try_from(bytes).unwrap_or(u32::MAX);
        match &self.0 {
            Some(meter) if meter.left() < DOCUMENT_BYTE * bytes => Err(ApiError::full(format!(
                "the call has too little CPU time left to read a document of {bytes} bytes: ask for less at once"
            ))),
            Some(_) | None => Ok(()),
        }
    }

    /// Runs work of the call outside of its polls, on this thread. The call is charged for it, but not the plugin's CPU
    /// quota.
    ///
    /// # Errors
    /// See [`Allowance::check`]; and those of the work.
    pub fn work_apart<T>(&self, work: impl FnOnce() -> Result<T, ApiError>) -> Result<T, ApiError> {
        let Some(meter) = &self.0 else {
            return work();
        };
        if meter.is_stopped() {
            return Err(ApiError::stopped());
        }
        if meter.is_spent() {
            return Err(used_up());
        }
        let clock = ThreadTime::now();
        let result = work();
        meter.spend(clock.elapsed());
        result
    }

    /// Iterates over items, as long as the work may go on. The last item is the error if it may not.
    pub fn each<I: IntoIterator>(&self, items: I) -> Each<'_, I::IntoIter> {
        Each {
            allowance: self,
            items: items.into_iter(),
            since: 0,
        }
    }
}

fn used_up() -> ApiError {
    ApiError::full("the call has used up its CPU time: ask for less at once")
}

impl<I: Iterator> Iterator for Each<'_, I> {
    type Item = Result<I::Item, ApiError>;

    fn next(&mut self) -> Option<Self::Item> {
        let item = self.items.next()?;
        self.since += 1;
        if self.since >= CHECKED_EACH {
            self.since = 0;
            if let Err(error) = self.allowance.check() {
                return Some(Err(error));
            }
        }
        Some(Ok(item))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.items.size_hint()
    }
}
