//! The result of a cached query: a snapshot of the objects that match, returned page by page.

use std::sync::Arc;

use flyball_cache::Object;
use flyball_plugin::{Cursor, Page};
use flyball_types::{ApiError, Kind};
use serde_json::Value;

/// The objects that a query found and that are not yet returned.
pub(super) struct Snapshot {
    /// Each with the number of its part.
    objects: std::vec::IntoIter<(usize, Arc<Object>)>,
    parts: Vec<Part>,
    /// An object that was too large for the page before.
    held: Option<Vec<u8>>,
    answer_bytes: usize,
}

/// How the objects of one lister are returned.
pub(super) struct Part {
    /// An error if the lister's watch shows too few fields. It is returned only if no other lister has the object.
    pub(super) projection: Result<flyball_cache::Projection, ApiError>,
    /// Set if each object names its kind.
    pub(super) kind: Option<Kind>,
}

impl Snapshot {
    /// `objects` are numbered by their part. A page has at most `answer_bytes`.
    pub(super) fn new(
        objects: Vec<(usize, Arc<Object>)>,
        parts: Vec<Part>,
        answer_bytes: usize,
    ) -> Self {
        Self {
            objects: objects.into_iter(),
            parts,
            held: None,
            answer_bytes,
        }
    }
}

impl Part {
    fn append(&mut self, object: &Object, page: &mut Vec<u8>) -> Result<(), ApiError> {
        let start = page.len();
        self.projection
            .as_mut()
            .map_err(|denied| denied.clone())?
            .append(object, page);
        if let Some(kind) = &self.kind {
            // The kind goes after the opening brace.
            let (api_version, kind) = (Value::from(kind.api_version()), Value::from(&*kind.kind));
            page.splice(
                start..=start,
                format!("{{\"apiVersion\":{api_version},\"kind\":{kind},").into_bytes(),
            );
        }
        Ok(())
    }

    /// Estimates the bytes of an object in a page.
    fn expected(&self, object: &Object) -> usize {
        self.projection
            .as_ref()
            .map_or(0, |projection| projection.expected(object) + 16)
    }
}

impl Cursor for Snapshot {
    fn next(mut self: Box<Self>, limit: u32) -> Result<Page, ApiError> {
        let limit = if limit == 0 {
            usize::MAX
        } else {
            limit as usize
        };
        let first = self.objects.as_slice().first();
        let expected = first.map_or(0, |(part, object)| self.parts[*part].expected(object));
        let mut page = Vec::with_capacity(
            (expected * self.objects.len().min(limit)).min(self.answer_bytes) + 2,
        );
        page.push(b'[');
        let mut count = 0;
        while count < limit {
            let before = page.len();
            if count > 0 {
                page.push(b',');
            }
            let start = page.len();
            if let Some(held) = self.held.take() {
                page.extend_from_slice(&held);
            } else if let Some((part, object)) = self.objects.next() {
                self.parts[part].append(&object, &mut page)?;
            } else {
                page.truncate(before);
                break;
            }
            if page.len() + 1 > self.answer_bytes {
                if count == 0 {
                    let message = format!(
                        "an object is larger than the {} bytes that an answer may have",
                        self.answer_bytes
                    );
                    return Err(ApiError::full(message));
                }
                self.held = Some(page[start..].to_vec());
                page.truncate(before);
                break;
            }
            count += 1;
        }
        page.push(b']');
        let is_end = self.held.is_none() && self.objects.len() == 0;
        Ok(Page {
            items: page,
            rest: (!is_end).then_some(self as Box<dyn Cursor>),
        })
    }

    fn size(&self) -> usize {
        let held = self.held.as_ref().map_or(0, Vec::len);
        size_of::<Self>() + size_of_val(self.objects.as_slice()) + held
    }
}
