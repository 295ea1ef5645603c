//! An object in the cache: its pruned JSON, and the metadata that indexes and mappings need.
//!
//! Objects are compact, since a big cluster has 150,000 pods. Objects with equal labels or owners share them.

use std::borrow::Cow;
use std::fmt;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, LazyLock, Weak};

use bytes::Bytes;
use flyball_types::{
    Columns, FieldPath, Kind, LabelSelector, Labels, Mask, RowError, size_of_block,
};
use parking_lot::Mutex;
use serde::Deserialize;

/// A kept row is replaced after this many consecutive reads of other columns. A controller may read several sets of
/// columns of an object in each reconcile.
const MAX_PASSED_OVER: u8 = 3;

/// The most requirements of a selector for each of which its label is searched in the set.
const FEW_REQUIREMENTS: usize = 8;

/// The longest row that is kept with an object, in bytes. All plugins share the object.
const MAX_KEPT_ROW: usize = 2048;

/// An object of the API, reduced to the fields of a mask.
pub struct Object {
    pub(crate) namespace: Arc<str>,
    pub(crate) name: Box<str>,
    pub(crate) uid: Uid,
    pub(crate) resource_version: u64,
    pub(crate) generation: i64,
    pub(crate) labels: LabelSet,
    pub(crate) owners: Arc<[OwnerReference]>,
    pub(crate) finalizers: u16,
    pub(crate) deleting: bool,
    pub(crate) grace: bool,
    /// The mask that `json` was pruned by.
    pub(crate) mask: Arc<Mask>,
    pub(crate) json: Box<[u8]>,
    /// A row that was read recently. An object is read far more often than it changes, and mostly with the same
    /// columns.
    pub(crate) row: Mutex<Option<Arc<Row>>>,
}

/// The values of an object at some columns.
pub(crate) struct Row {
    /// Weak, because columns may take many times as much as the row: they live as long as a plugin reads them.
    columns: Weak<Columns>,
    json: Box<[u8]>,
    /// The number of reads of other columns since the last read of this row.
    passed_over: AtomicU8,
}

/// An object's UID: 16 bytes if it has the API server's form.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Uid(Form);

#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum Form {
    Canonical([u8; 16]),
    Other(Box<str>),
}

/// A set of labels.
///
/// It is kept as the JSON of a map of strings without escapes, which valid labels never need. So a set is one
/// allocation, and all objects with the same labels share it.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct LabelSet(pub(crate) Arc<str>);

/// An entry of an object's `ownerReferences`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct OwnerReference {
    pub uid: Uid,
    /// The owner's kind, with the version in the reference.
    pub kind: Arc<Kind>,
    pub name: Box<str>,
    /// Whether the owner manages the object. At most one owner does.
    pub controller: bool,
    /// Whether a foreground deletion of the owner waits for the object's deletion.
    pub block_owner_deletion: bool,
}

/// The identity and the version of an object. Missing values are empty.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ObjectVersion {
    pub name: String,
    pub namespace: String,
    pub uid: String,
    pub resource_version: String,
}

impl Object {
    /// Empty for a cluster-scoped object.
    pub fn namespace(&self) -> &str {
        &self.namespace
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    /// `namespace/name`, or `name` for a cluster-scoped object.
    pub fn key(&self) -> String {
        if self.namespace.is_empty() {
            self.name.to_string()
        } else {
            format!("{}/{}", self.namespace, self.name)
        }
    }

    pub fn uid(&self) -> &Uid {
        &self.uid
    }

    /// Resource versions of one kind can be compared (KEP-5504).
    pub fn resource_version(&self) -> u64 {
        self.resource_version
    }

    /// 0 if the object has no generation.
    pub fn generation(&self) -> i64 {
        self.generation
    }

    pub fn labels(&self) -> &LabelSet {
        &self.labels
    }

    pub fn owners(&self) -> &[OwnerReference] {
        &self.owners
    }

    /// The owner that manages the object.
    pub fn controller(&self) -> Option<&OwnerReference> {
        self.owners.iter().find(|owner| owner.controller)
    }

    /// Whether the object has a deletion timestamp.
    pub fn is_deleting(&self) -> bool {
        self.deleting
    }

    /// The number of finalizers in the metadata.
    pub fn finalizers(&self) -> usize {
        usize::from(self.finalizers)
    }

    /// Whether the object has this finalizer. The mask must keep `metadata.finalizers`.
    pub fn has_finalizer(&self, finalizer: &str) -> bool {
        self.strings(&FieldPath::of_fields(&["metadata", "finalizers"]))
            .iter()
            .any(|own| own == finalizer)
    }

    /// Whether the object is being deleted and nothing in its metadata delays the deletion. A server that returned such
    /// an object has removed it.
    pub fn is_removed(&self) -> bool {
        self.deleting && self.finalizers == 0 && !self.grace
    }

    /// The JSON, reduced to the mask.
    pub fn json(&self) -> &[u8] {
        &self.json
    }

    /// The JSON, reduced to the mask, without a copy.
    pub fn bytes(self: &Arc<Self>) -> Bytes {
        struct Owner(Arc<Object>);
        impl AsRef<[u8]> for Owner {
            fn as_ref(&self) -> &[u8] {
                &self.0.json
            }
        }
        Bytes::from_owner(Owner(Arc::clone(self)))
    }

    /// Appends the values of these columns as a JSON array. The mask must cover the columns. Fails if the values have
    /// more than `at_most` bytes. Plugins that read the same columns share the row that is kept.
    pub(crate) fn append_row(
        &self,
        columns: &Arc<Columns>,
        out: &mut Vec<u8>,
        at_most: usize,
    ) -> Result<(), RowError> {
        let kept = self.row.lock().clone();
        if let Some(row) = kept.as_ref().filter(|row| row.is_of(columns)) {
            row.passed_over.store(0, Ordering::Relaxed);
            out.extend_from_slice(&row.json);
            return Ok(());
        }
        let start = out.len();
        columns.row(&self.json, out, at_most)?;
        if out.len() - start <= MAX_KEPT_ROW
            && kept.is_none_or(|row| {
                row.columns.strong_count() == 0
                    || row.passed_over.fetch_add(1, Ordering::Relaxed) >= MAX_PASSED_OVER
            })
        {
            let json = out[start..].into();
            let row = Arc::new(Row {
                columns: Arc::downgrade(columns),
                json,
                passed_over: AtomicU8::new(0),
            });
            *self.row.lock() = Some(row);
        }
        Ok(())
    }

    /// The same version without its fields: only its identity, its labels and its owners.
    pub fn without_fields(&self) -> Arc<Self> {
        static NO_FIELDS: LazyLock<Arc<Mask>> = LazyLock::new(Arc::default);
        let json = serde_json::json!({"metadata": {
            "name": &*self.name,
            "namespace": &*self.namespace,
            "uid": self.uid.to_string(),
            "resourceVersion": self.resource_version.to_string(),
        }});
        Arc::new(Self {
            namespace: Arc::clone(&self.namespace),
            name: self.name.clone(),
            uid: self.uid.clone(),
            resource_version: self.resource_version,
            generation: self.generation,
            labels: self.labels.clone(),
            owners: Arc::clone(&self.owners),
            finalizers: self.finalizers,
            deleting: self.deleting,
            grace: self.grace,
            mask: Arc::clone(&NO_FIELDS),
            json: json.to_string().into_bytes().into(),
            row: Mutex::new(None),
        })
    }

    /// The mask that the JSON was pruned by.
    pub fn mask(&self) -> &Arc<Mask> {
        &self.mask
    }

    /// The strings at a path. The mask must cover the path.
    pub fn strings(&self, path: &FieldPath) -> Vec<Cow<'_, str>> {
        path.strings(&self.json)
    }

    /// The first string at a path, the JSON of the first value if no value is a string, or an empty string if there is
    /// no value. For field selectors.
    pub(crate) fn field(&self, path: &FieldPath) -> Cow<'_, str> {
        let Some(value) = path.select(&self.json).into_iter().next() else {
            return Cow::Borrowed("");
        };
        match path.strings(&self.json).into_iter().next() {
            Some(text) => text,
            None => Cow::Borrowed(value),
        }
    }

    /// Approximate memory use in bytes, without data shared with other objects and without the kept row. Never changes.
    pub fn size(&self) -> usize {
        size_of::<Self>() + 2 * size_of::<usize>() + self.name.len() + self.json.len()
    }

    /// Approximate memory use of the kept row, in bytes. Changes with the columns that are read.
    pub(crate) fn row_size(&self) -> usize {
        let row = self.row.lock();
        row.as_ref().map_or(0, |row| {
            size_of::<Row>() + 2 * size_of::<usize>() + row.json.len()
        })
    }
}

impl Row {
    fn is_of(&self, columns: &Arc<Columns>) -> bool {
        self.columns.as_ptr() == Arc::as_ptr(columns)
            || self.columns.upgrade().is_some_and(|own| own == *columns)
    }
}

impl Object {
    /// The memory of a version that the cache does not hold, in bytes. It includes the labels, because no other object
    /// may share them. Never changes.
    pub fn size_alone(&self) -> usize {
        let counts = 2 * size_of::<usize>();
        size_of_block(size_of::<Self>() + counts)
            + size_of_block(self.name.len())
            + size_of_block(self.json.len())
            + size_of_block(self.labels.0.len() + counts)
    }
}

impl fmt::Debug for Object {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}@{}", self.key(), self.uid, self.resource_version)
    }
}

impl Uid {
    /// No UID is less than it.
    pub(crate) const LEAST: Self = Self(Form::Canonical([0; 16]));

    pub fn new(text: &str) -> Self {
        Self(canonical(text).map_or_else(|| Form::Other(text.into()), Form::Canonical))
    }

    pub fn is_empty(&self) -> bool {
        matches!(&self.0, Form::Other(text) if text.is_empty())
    }
}

/// The bytes of `8-4-4-4-12` lower-case hexadecimal digits.
fn canonical(text: &str) -> Option<[u8; 16]> {
    let text = text.as_bytes();
    if text.len() != 36 || [8, 13, 18, 23].iter().any(|at| text[*at] != b'-') {
        return None;
    }
    let digit = |byte: u8| match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'a'..=b'f' => Some(byte - b'a' + 10),
        _ => None,
    };
    let mut digits = text
        .iter()
        .enumerate()
        .filter(|(at, _)| ![8, 13, 18, 23].contains(at))
        .map(|(_, byte)| digit(*byte));
    let mut bytes = [0; 16];
    for byte in &mut bytes {
        *byte = digits.next()?? << 4 | digits.next()??;
    }
    Some(bytes)
}

impl fmt::Display for Uid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Form::Other(text) => f.write_str(text),
            Form::Canonical(bytes) => {
                for (at, byte) in bytes.iter().enumerate() {
                    write!(
                        f,
                        "{}{byte:02x}",
                        if matches!(at, 4 | 6 | 8 | 10) {
                            "-"
                        } else {
                            ""
                        }
                    )?;
                }
                Ok(())
            }
        }
    }
}

impl fmt::Debug for Uid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl From<&str> for Uid {
    fn from(text: &str) -> Self {
        Self::new(text)
    }
}

impl LabelSet {
    pub fn none() -> Self {
        Self("{}".into())
    }

    /// Leaves out labels that need an escape in JSON, which the API does not allow.
    pub fn new<K: AsRef<str>, V: AsRef<str>>(labels: impl IntoIterator<Item = (K, V)>) -> Self {
        let is_plain =
            |text: &str| !text.contains(|c: char| c == '"' || c == '\\' || c.is_control());
        let mut text = String::from("{");
        for (key, value) in labels {
            let (key, value) = (key.as_ref(), value.as_ref());
            if is_plain(key) && is_plain(value) {
                let comma = if text.len() > 1 { "," } else { "" };
                text.push_str(&format!("{comma}\"{key}\":\"{value}\""));
            }
        }
        text.push('}');
        Self(text.into())
    }

    /// Whether a selector matches.
    pub fn match_selector(&self, selector: &LabelSelector) -> bool {
        if selector.requirements().len() <= FEW_REQUIREMENTS {
            selector.matches(self)
        } else {
            selector.matches_all(self.iter())
        }
    }

    /// The keys and values.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        // Split at the quotes, `{"k":"v","k":"v"}` is `{`, k, `:`, v, `,`, k, `:`, v, `}`.
        let mut parts = self.0.split('"').skip(1);
        std::iter::from_fn(move || {
            let key = parts.next()?;
            parts.next()?;
            let value = parts.next()?;
            parts.next();
            Some((key, value))
        })
    }
}

impl Labels for LabelSet {
    fn label(&self, key: &str) -> Option<&str> {
        self.iter()
            .find(|(own, _)| *own == key)
            .map(|(_, value)| value)
    }
}

impl fmt::Debug for LabelSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_uid_is_displayed_as_it_was_parsed() {
        for text in [
            "01234567-89ab-cdef-0123-456789abcdef",
            "",
            "x",
            "01234567-89AB-cdef-0123-456789abcdef",
        ] {
            assert_eq!(Uid::new(text).to_string(), text);
        }
        assert_eq!(size_of::<Uid>(), 24);
    }

    #[test]
    fn a_canonical_uid_is_held_as_its_bytes() {
        let bytes = [
            0x01, 0x23, 0x45, 0x67, 0x89, 0xab, 0xcd, 0xef, 0x01, 0x23, 0x45, 0x67, 0x89, 0xab,
            0xcd, 0xef,
        ];
        assert_eq!(
            canonical("01234567-89ab-cdef-0123-456789abcdef"),
            Some(bytes)
        );
        for other in [
            "",
            "01234567-89ab-cdef-0123-456789abcde",
            "01234567-89ab-cdef-0123-456789abcdeg",
            "0123456-789ab-cdef-0123-456789abcdef",
            "01234567-89ab-cdef-01234-56789abcdef",
        ] {
            assert_eq!(canonical(other), None, "{other}");
        }
    }

    #[test]
    fn only_a_uid_without_text_is_empty() {
        for (text, is_empty) in [
            ("", true),
            ("u", false),
            ("01234567-89ab-cdef-0123-456789abcdef", false),
        ] {
            assert_eq!(Uid::new(text).is_empty(), is_empty, "{text}");
        }
    }

    /// An object with more metadata, and with this spec.
    fn object(more: &str, spec: &str) -> Arc<Object> {
        let json = format!(
            r#"{{"metadata": {{"name": "a", "uid": "u", "resourceVersion": "1"{more}}}, "spec": {spec}}}"#
        );
        Object::parse(json.as_bytes()).unwrap()
    }

    fn with_spec(spec: &str) -> Arc<Object> {
        object("", spec)
    }

    #[test]
    fn a_field_is_its_first_string_or_its_json() {
        let object = with_spec(r#"{"node": "n1", "replicas": 3, "list": ["x", "y"]}"#);
        for (path, expected) in [
            ("spec.node", "n1"),
            ("spec.replicas", "3"),
            ("spec.list[*]", "x"),
            ("spec.other", ""),
        ] {
            assert_eq!(object.field(&path.parse().unwrap()), expected, "{path}");
        }
    }

    /// Returns the row of a column, which is appended to other bytes.
    fn row(object: &Object, column: &Arc<Columns>) -> String {
        let mut out = b"before".to_vec();
        object.append_row(column, &mut out, usize::MAX).unwrap();
        let text = String::from_utf8(out).unwrap();
        text.strip_prefix("before").unwrap().to_owned()
    }

    fn column(path: &str) -> Arc<Columns> {
        Arc::new(Columns::new([path.parse().unwrap()]).unwrap())
    }

    fn keeps(object: &Object, column: &Arc<Columns>) -> bool {
        let row = object.row.lock();
        row.as_ref()
            .is_some_and(|row| row.columns.as_ptr() == Arc::as_ptr(column))
    }

    #[test]
    fn a_row_is_kept_until_other_columns_were_read_several_times() {
        let object = with_spec(r#"{"node": "n1", "zone": "z1"}"#);
        let (node, zone) = (column("spec.node"), column("spec.zone"));
        let read = row(&object, &node);
        assert!(read.contains("n1") && keeps(&object, &node));
        assert_eq!(row(&object, &node), read);
        for _ in 0..MAX_PASSED_OVER {
            assert!(row(&object, &zone).contains("z1"));
            assert!(keeps(&object, &node));
        }
        row(&object, &zone);
        assert!(keeps(&object, &zone));
    }

    #[test]
    fn readers_of_the_same_columns_share_a_row() {
        let object = with_spec(r#"{"node": "n1"}"#);
        let (one, other) = (column("spec.node"), column("spec.node"));
        let kept = |object: &Object| object.row.lock().clone().expect("a row is kept");
        let read = row(&object, &one);
        let first = kept(&object);
        assert_eq!(row(&object, &other), read);
        assert!(Arc::ptr_eq(&kept(&object), &first));
        first.passed_over.store(1, Ordering::Relaxed);
        row(&object, &other);
        assert_eq!(first.passed_over.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn a_row_keeps_no_columns_alive_and_is_replaced_when_they_are_gone() {
        let object = with_spec(r#"{"node": "n1", "zone": "z1"}"#);
        let (node, zone) = (column("spec.node"), column("spec.zone"));
        row(&object, &node);
        assert_eq!(Arc::strong_count(&node), 1);
        drop(node);
        assert!(row(&object, &zone).contains("z1"));
        assert!(keeps(&object, &zone));
    }

    #[test]
    fn long_rows_are_not_kept() {
        let node = column("spec.node");
        let of = |length: usize| with_spec(&format!(r#"{{"node": "{}"}}"#, "x".repeat(length)));
        let longest = MAX_KEPT_ROW - row(&of(0), &node).len();
        for (length, is_kept) in [(longest, true), (longest + 1, false)] {
            let object = of(length);
            assert_eq!(row(&object, &node).len(), MAX_KEPT_ROW - longest + length);
            assert_eq!(keeps(&object, &node), is_kept);
        }
    }

    #[test]
    fn the_metadata_tells_whether_an_object_is_deleted_and_what_delays_that() {
        let object = |more: &str| object(more, "{}");
        let deleted = r#", "deletionTimestamp": "2026-01-01T00:00:00Z""#;
        let finalizers = r#", "finalizers": ["x/a", "x/b"]"#;
        let (free, removed) = (object(""), object(deleted));
        let held = object(&format!("{deleted}{finalizers}"));
        let graceful = object(&format!("{deleted}, \"deletionGracePeriodSeconds\": 30"));
        for (object, is_deleting, finalizers, is_removed) in [
            (&free, false, 0, false),
            (&removed, true, 0, true),
            (&held, true, 2, false),
            (&graceful, true, 0, false),
        ] {
            assert_eq!(object.is_deleting(), is_deleting);
            assert_eq!(object.finalizers(), finalizers);
            assert_eq!(object.is_removed(), is_removed);
        }
        assert!(held.has_finalizer("x/b") && !held.has_finalizer("x/c"));
        assert!(!free.has_finalizer("x/b"));
    }

    #[test]
    fn labels_are_found_in_their_set() {
        let labels = LabelSet::new([("app", "web"), ("x.io/y", ""), ("bad", "a\"b")]);
        assert_eq!(
            labels.iter().collect::<Vec<_>>(),
            [("app", "web"), ("x.io/y", "")]
        );
        assert_eq!(
            (labels.label("x.io/y"), labels.label("web")),
            (Some(""), None)
        );
        assert_eq!(LabelSet::none().iter().count(), 0);
    }
}
