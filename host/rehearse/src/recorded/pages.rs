//! The pages of lists, which are noted with the numbers of their cursors.

use std::sync::Arc;

use flyball_plugin::{Allowance, Cursor, Page};
use flyball_recording::{Asked, Document, answer, asked};
use flyball_types::ApiError;

use crate::convert;
use crate::notes::Notes;

/// The rest of a list whose pages are noted.
struct RecordedCursor {
    inner: Box<dyn Cursor>,
    notes: Arc<Notes>,
    number: u32,
}

impl Cursor for RecordedCursor {
    fn next(self: Box<Self>, limit: u32, allowance: &Allowance) -> Result<Page, ApiError> {
        let Self {
            inner,
            notes,
            number,
        } = *self;
        let page = inner.next(limit, allowance);
        note_page(&notes, page, 0, || {
            move || asked::lister_next(number, limit)
        })
    }

    fn size(&self) -> usize {
        self.inner.size()
    }
}

/// Notes a page, and returns it with a cursor that is noted too.
pub(super) fn note_page<Q: FnOnce() -> Asked + Send + 'static>(
    notes: &Arc<Notes>,
    page: Result<Page, ApiError>,
    size: usize,
    question: impl FnOnce() -> Q,
) -> Result<Page, ApiError> {
    let size = size + convert::size_of_result(&page, |page| page.items.len());
    let page = page.map(|Page { items, rest }| {
        let rest = rest.map(|inner| {
            let number = notes.cursor();
            let notes = notes.clone();
            RecordedCursor {
                inner,
                notes,
                number,
            }
        });
        (items, rest)
    });
    notes.add(size, question, || {
        let answered = page.as_ref().map(|(items, rest)| {
            let rest = rest.as_ref().map(|rest| (rest.number, rest.size() as u64));
            (items.clone(), rest)
        });
        let answered = answered.map_err(Clone::clone);
        move || {
            let answered = answered.map(|(items, rest)| answer::Page {
                items: Document(items),
                rest: rest.map(|(number, _)| number),
                rest_bytes: rest.map_or(0, |(_, bytes)| bytes),
            });
            answer::write_result(answered.as_ref())
        }
    });
    page.map(|(items, rest)| Page {
        items,
        rest: rest.map(|rest| Box::new(rest) as Box<dyn Cursor>),
    })
}
