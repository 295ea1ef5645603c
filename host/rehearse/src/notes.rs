//! The notes of one call: what it asked, and what it was answered. They are cheap, because most are dropped: documents are
//! shared with the answer, and nothing becomes JSON before the call is kept.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use flyball_recording::file::MAX_STEPS;
use flyball_recording::{Asked, Step};
use parking_lot::Mutex;
use serde_json::value::RawValue;

/// The bytes of a note besides its texts and documents: closures, and their allocations.
const NOTE: usize = 256;

type Question = Box<dyn FnOnce() -> Asked + Send>;
type Answer = Box<dyn FnOnce() -> Box<RawValue> + Send>;

/// The bytes that the notes of all running calls of a plugin may hold together.
#[derive(Debug, Default)]
pub(crate) struct InFlight {
    used: AtomicUsize,
    limit: AtomicUsize,
}

/// The notes of one call.
pub(crate) struct Notes {
    state: Mutex<State>,
    in_flight: Arc<InFlight>,
}

#[derive(Default)]
struct State {
    notes: Vec<Note>,
    /// Bytes that the notes hold.
    bytes: usize,
    /// Whether the call has more to note than fits. Its notes are dropped then.
    is_over: bool,
    /// The cursors that the call got.
    cursors: u32,
}

struct Note {
    question: Question,
    answer: Option<Answer>,
}

/// The place of a question whose answer is to come; none if the call is not noted any more.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place(Option<usize>);

impl InFlight {
    pub(crate) fn set_limit(&self, bytes: usize) {
        self.limit.store(bytes, Relaxed);
    }

    pub(crate) fn used(&self) -> usize {
        self.used.load(Relaxed)
    }

    fn grow(&self, bytes: usize) -> bool {
        let limit = self.limit.load(Relaxed);
        let grow = |used: usize| used.checked_add(bytes).filter(|used| *used <= limit);
        self.used.fetch_update(Relaxed, Relaxed, grow).is_ok()
    }
}

impl Notes {
    pub(crate) fn new(in_flight: Arc<InFlight>) -> Self {
        Self {
            state: Mutex::default(),
            in_flight,
        }
    }

    /// Notes a question that has been answered. `size` are the bytes of both; they are only copied if there is room.
    pub(crate) fn add<Q, A>(
        &self,
        size: usize,
        question: impl FnOnce() -> Q,
        answer: impl FnOnce() -> A,
    ) where
        Q: FnOnce() -> Asked + Send + 'static,
        A: FnOnce() -> Box<RawValue> + Send + 'static,
    {
        let mut state = self.state.lock();
        if self.takes(&mut state, size + NOTE) {
            state.notes.push(Note {
                question: Box::new(question()),
                answer: Some(Box::new(answer())),
            });
        }
    }

    /// Notes a question whose answer is to come.
    pub(crate) fn ask<Q>(&self, size: usize, question: impl FnOnce() -> Q) -> Place
    where
        Q: FnOnce() -> Asked + Send + 'static,
    {
        let mut state = self.state.lock();
        if !self.takes(&mut state, size + NOTE) {
            return Place(None);
        }
        state.notes.push(Note {
            question: Box::new(question()),
            answer: None,
        });
        Place(Some(state.notes.len() - 1))
    }

    /// Notes the answer to a question.
    pub(crate) fn answer<A>(&self, place: Place, size: usize, answer: impl FnOnce() -> A)
    where
        A: FnOnce() -> Box<RawValue> + Send + 'static,
    {
        let mut state = self.state.lock();
        let Some(place) = place.0 else { return };
        if self.takes(&mut state, size)
            && let Some(note) = state.notes.get_mut(place)
        {
            note.answer = Some(Box::new(answer()));
        }
    }

    /// Counts bytes of the call itself. Returns whether there is room for them.
    pub(crate) fn hold(&self, size: usize) -> bool {
        self.takes(&mut self.state.lock(), size)
    }

    /// Returns the number of the next cursor.
    pub(crate) fn cursor(&self) -> u32 {
        let mut state = self.state.lock();
        let number = state.cursors;
        state.cursors += 1;
        number
    }

    /// Counts bytes. If there is no room for them, drops all notes.
    fn takes(&self, state: &mut State, size: usize) -> bool {
        if state.is_over {
            return false;
        }
        if state.notes.len() < MAX_STEPS && self.in_flight.grow(size) {
            state.bytes += size;
            return true;
        }
        state.is_over = true;
        self.clear(state);
        false
    }

    fn clear(&self, state: &mut State) {
        state.notes = Vec::new();
        let bytes = std::mem::take(&mut state.bytes);
        self.in_flight.used.fetch_sub(bytes, Relaxed);
    }

    /// Bytes that the notes hold; none if the call had more to note than fits.
    pub(crate) fn size(&self) -> Option<usize> {
        let state = self.state.lock();
        (!state.is_over).then_some(state.bytes)
    }

    /// Returns the steps of a recording. Later notes are not in it.
    pub(crate) fn take_steps(&self) -> Vec<Step> {
        let notes = std::mem::take(&mut self.state.lock().notes);
        let step = |Note { question, answer }: Note| {
            let Asked { import, arguments } = question();
            Step {
                import: import.to_owned(),
                asked: flyball_recording::answer::write(&arguments),
                answered: answer.map(|answer| answer()),
            }
        };
        notes.into_iter().map(step).collect()
    }
}

impl Drop for Notes {
    fn drop(&mut self) {
        let state = self.state.get_mut();
        self.in_flight.used.fetch_sub(state.bytes, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use flyball_recording::{answer, asked};

    use super::*;

    fn in_flight(limit: usize) -> Arc<InFlight> {
        let in_flight = InFlight::default();
        in_flight.set_limit(limit);
        Arc::new(in_flight)
    }

    fn add(notes: &Notes, size: usize) {
        notes.add(size, || asked::clock_now, || || answer::write_ok(1));
    }

    #[test]
    fn steps_are_in_the_order_of_their_questions() {
        let notes = Notes::new(in_flight(10_000));
        let first = notes.ask(0, || || asked::config_get("a"));
        let second = notes.ask(0, || || asked::config_get("b"));
        notes.answer(second, 0, || || answer::write_ok("second"));
        notes.answer(first, 0, || || answer::write_ok("first"));
        notes.ask(0, || || asked::config_get("c"));
        let steps = notes.take_steps();
        let answered: Vec<_> = steps
            .iter()
            .map(|step| step.answered.as_ref().map(|raw| raw.get()))
            .collect();
        assert_eq!(
            answered,
            [
                Some("{\"ok\":\"first\"}"),
                Some("{\"ok\":\"second\"}"),
                None
            ]
        );
    }

    #[test]
    fn a_call_with_more_than_fits_is_not_noted_and_leaves_room_for_others() {
        let in_flight = in_flight(10 * NOTE);
        let (large, small) = (Notes::new(in_flight.clone()), Notes::new(in_flight.clone()));
        add(&small, NOTE);
        add(&large, 20 * NOTE);
        assert_eq!(large.size(), None);
        add(&large, 0);
        assert!(large.take_steps().is_empty());
        assert_eq!(in_flight.used(), 2 * NOTE);
        assert_eq!(small.size(), Some(2 * NOTE));
        assert_eq!(small.take_steps().len(), 1);
        drop(small);
        assert_eq!(in_flight.used(), 0);
    }
}
