//! The result of a cached query: a snapshot of the objects that match, returned page by page. Only readable listers make one.

use std::sync::Arc;

use flyball_cache::Object;
use flyball_plugin::{Cursor, Page, check_cpu_time};
use flyball_types::{ApiError, Kind};
use serde_json::Value;

/// After how many bytes of objects a page looks whether the call has CPU time left...
const CHECKED_EACH: usize = 256 << 10;
/// ...where each object counts so many more.
const OBJECT_WORK: usize = 1 << 10;

/// The objects that a query found and that are not yet returned.
pub(super) struct Snapshot {
    /// Each with the number of its part.
    objects: std::vec::IntoIter<(usize, Arc<Object>)>,
    parts: Vec<Part>,
    /// An object that did not fit the page before.
    held: Option<(usize, Arc<Object>)>,
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
    /// Appends an object, and returns whether it fits the page's limit. If not, the page is as before.
    fn append(
        &mut self,
        object: &Object,
        page: &mut Vec<u8>,
        limit: usize,
    ) -> Result<bool, ApiError> {
        let start = page.len();
        let projection = self.projection.as_mut().map_err(|denied| denied.clone())?;
        let appended = projection.append(object, page, limit.saturating_sub(start));
        if let Some(kind) = &self.kind
            && appended.is_ok()
        {
            // The kind goes after the opening brace.
            let (api_version, kind) = (Value::from(kind.api_version()), Value::from(&*kind.kind));
            page.splice(
                start..=start,
                format!("{{\"apiVersion\":{api_version},\"kind\":{kind},").into_bytes(),
            );
        }
        let fits = appended.is_ok() && page.len() < limit;
        if !fits {
            page.truncate(start);
        }
        Ok(fits)
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
        let (mut count, mut work) = (0, 0);
        while count < limit {
            if work > CHECKED_EACH {
                check_cpu_time()?;
                work = 0;
            }
            let next = self.held.take().or_else(|| self.objects.next());
            let Some((part, object)) = next else { break };
            work += OBJECT_WORK + object.json().len();
            let before = page.len();
            if count > 0 {
                page.push(b',');
            }
            if !self.parts[part].append(&object, &mut page, self.answer_bytes)? {
                if count == 0 {
                    let message = format!(
                        "an object is larger than the {} bytes that an answer may have",
                        self.answer_bytes
                    );
                    return Err(ApiError::full(message));
                }
                self.held = Some((part, object));
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
        // Parts may share a projection, which mostly is small.
        let projection = |part: &Part| part.projection.as_ref().map_or(0, |parsed| parsed.size());
        size_of::<Self>()
            + size_of_val(self.objects.as_slice())
            + size_of_val(self.parts.as_slice())
            + self.parts.iter().map(projection).sum::<usize>()
    }
}
