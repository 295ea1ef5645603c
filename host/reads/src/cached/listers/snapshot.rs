//! The result of a cached query: a snapshot of the objects that match, returned page by page. Only readable listers
//! make one.

use std::cmp::Ordering;
use std::sync::Arc;

use flyball_cache::Object;
use flyball_plugin::{Allowance, Cursor, Page};
use flyball_types::{ApiError, Kind};
use serde_json::Value;

/// The number of bytes of objects after which a page checks whether the call has CPU time left...
const CHECKED_EACH: usize = 256 << 10;
/// ...where each object counts as this many additional bytes.
const OBJECT_WORK: usize = 1 << 10;

/// The objects that a query found and that are not yet returned, in order of namespace and name.
pub(super) struct Snapshot {
    /// The next objects to return, in reverse order.
    objects: Vec<Numbered>,
    /// The objects after these, unordered.
    unsorted: Vec<Numbered>,
    parts: Vec<Part>,
    answer_bytes: usize,
}

/// An object with the number of its part.
pub(super) type Numbered = (usize, Arc<Object>);

/// The part of the unsorted objects that is sorted at once if a page is short. The first page of a long list then costs
/// a fraction of a whole sort, and all pages together cost little more than one.
const SORTED_PART: usize = 8;

/// The way in which the objects of one lister are returned.
pub(super) struct Part {
    /// An error if the lister's watch shows too few fields. It is returned only if no other lister has the object.
    pub(super) projection: Result<flyball_cache::Projection, ApiError>,
    /// Set if each object names its kind.
    pub(super) kind: Option<Kind>,
}

impl Snapshot {
    /// `objects` are numbered by their part. A page has at most `answer_bytes`.
    pub(super) fn new(objects: Vec<Numbered>, parts: Vec<Part>, answer_bytes: usize) -> Self {
        Self {
            objects: Vec::new(),
            unsorted: objects,
            parts,
            answer_bytes,
        }
    }

    /// The number of objects.
    fn len(&self) -> usize {
        self.objects.len() + self.unsorted.len()
    }

    /// Sorts at least `wanted` objects, or all if there are fewer.
    fn sort(&mut self, wanted: usize) {
        let missing = wanted.saturating_sub(self.objects.len());
        if missing == 0 || self.unsorted.is_empty() {
            return;
        }
        let count = missing.max(self.unsorted.len() / SORTED_PART);
        let mut next = std::mem::take(&mut self.unsorted);
        // In descending order, so that the first ones are at the end.
        let order = |one: &Numbered, other: &Numbered| in_order(other, one);
        if count < next.len() {
            let rest = next.len() - count;
            next.select_nth_unstable_by(rest, order);
            let first = next.split_off(rest);
            self.unsorted = std::mem::replace(&mut next, first);
        }
        next.sort_unstable_by(order);
        // Objects that are already sorted come before all others.
        next.append(&mut self.objects);
        self.objects = next;
    }
}

/// The order of objects: by namespace and name, then by part. Most lists are of one namespace, and their objects share
/// its name in memory.
fn in_order((part, object): &Numbered, (other_part, other): &Numbered) -> Ordering {
    let (namespace, other_namespace) = (object.namespace(), other.namespace());
    let by_namespace = if std::ptr::eq(namespace, other_namespace) {
        Ordering::Equal
    } else {
        namespace.cmp(other_namespace)
    };
    by_namespace
        .then_with(|| object.name().cmp(other.name()))
        .then_with(|| part.cmp(other_part))
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
    fn next(mut self: Box<Self>, limit: u32, allowance: &Allowance) -> Result<Page, ApiError> {
        let limit = if limit == 0 {
            usize::MAX
        } else {
            limit as usize
        };
        self.sort(limit);
        let first = self.objects.last();
        let expected = first.map_or(0, |(part, object)| self.parts[*part].expected(object));
        let mut page =
            Vec::with_capacity((expected * self.len().min(limit)).min(self.answer_bytes) + 2);
        page.push(b'[');
        let (mut count, mut work) = (0, 0);
        while count < limit {
            if work > CHECKED_EACH {
                allowance.check()?;
                work = 0;
            }
            let Some((part, object)) = self.objects.pop() else {
                break;
            };
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
                self.objects.push((part, object));
                page.truncate(before);
                break;
            }
            count += 1;
        }
        page.push(b']');
        let is_end = self.len() == 0;
        Ok(Page {
            items: page,
            rest: (!is_end).then_some(self as Box<dyn Cursor>),
        })
    }

    fn size(&self) -> usize {
        // Parts may share a projection, which mostly is small.
        let projection = |part: &Part| part.projection.as_ref().map_or(0, |parsed| parsed.size());
        size_of::<Self>()
            + self.len() * size_of::<Numbered>()
            + size_of_val(self.parts.as_slice())
            + self.parts.iter().map(projection).sum::<usize>()
    }
}
