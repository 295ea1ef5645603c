//! Label selectors in the three forms of the API: the text of a request's `labelSelector`, the LabelSelector object of
//! a spec, and the plain map of older specs (Service, ReplicationController).

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::str::FromStr;

use serde::de::value::{MapAccessDeserializer, SeqAccessDeserializer};
use serde::de::{Error as _, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};

use crate::size_of_block;

/// The maximum length of a selector's text in bytes.
const MAX_LENGTH: usize = 256 * 1024;

/// The maximum number of requirements of a selector in text form. Each may be compared with each object.
const MAX_REQUIREMENTS: usize = 1000;

/// The maximum number of values of all requirements of a selector in text form. Each may be looked up in an index.
const MAX_VALUES: usize = 1000;

/// A label selector. All requirements must hold; without any, it matches everything.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct LabelSelector {
    requirements: Vec<Requirement>,
    nothing: bool,
}

/// A predicate on one label.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Requirement {
    pub key: Box<str>,
    pub operator: Operator,
    /// The values, sorted; empty for [`Operator::Exists`] and [`Operator::DoesNotExist`].
    pub values: Box<[Box<str>]>,
}

/// The operator of a requirement. An object without the label matches `NotIn` and `DoesNotExist`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Deserialize)]
pub enum Operator {
    In,
    NotIn,
    Exists,
    DoesNotExist,
}

/// A text or an object that is not a label selector. A retry does not help.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SelectorError {
    /// The text is not a selector.
    #[error("`{selector}` is not a selector: {problem}")]
    Syntax {
        selector: String,
        /// Describes the mistake.
        problem: String,
    },
    /// The JSON is neither a LabelSelector nor a map of labels.
    #[error("not a LabelSelector and not a map of labels: {0}")]
    Json(String),
    /// A key or value that the API refuses.
    #[error("`{0}` is not valid as a label's key or value")]
    Label(String),
    /// The operator does not take these values.
    #[error(
        "the requirement on label `{0}` needs values with In and NotIn, and none with Exists and DoesNotExist"
    )]
    Values(String),
}

/// A set of labels.
pub trait Labels {
    fn label(&self, key: &str) -> Option<&str>;
}

impl<K: AsRef<str>, V: AsRef<str>> Labels for [(K, V)] {
    fn label(&self, key: &str) -> Option<&str> {
        self.iter()
            .find(|(own, _)| own.as_ref() == key)
            .map(|(_, value)| value.as_ref())
    }
}

impl Labels for BTreeMap<String, String> {
    fn label(&self, key: &str) -> Option<&str> {
        self.get(key).map(String::as_str)
    }
}

impl Labels for HashMap<String, String> {
    fn label(&self, key: &str) -> Option<&str> {
        self.get(key).map(String::as_str)
    }
}

impl LabelSelector {
    pub fn everything() -> Self {
        Self::default()
    }

    /// A selector that matches nothing, as a LabelSelector that is null does.
    pub fn nothing() -> Self {
        Self {
            requirements: Vec::new(),
            nothing: true,
        }
    }

    /// A selector with these requirements. Fails if a key or value is not valid for labels, or if values do not fit
    /// their operator.
    pub fn new(requirements: impl IntoIterator<Item = Requirement>) -> Result<Self, SelectorError> {
        let mut requirements: Vec<Requirement> = requirements.into_iter().collect();
        requirements.iter().try_for_each(Requirement::check)?;
        requirements
            .iter_mut()
            .for_each(|requirement| requirement.values.sort());
        requirements.sort();
        requirements.dedup();
        Ok(Self {
            requirements,
            nothing: false,
        })
    }

    /// A selector that requires these labels. Fails if a key or value is not valid for labels.
    pub fn of_map<K: AsRef<str>, V: AsRef<str>>(
        labels: impl IntoIterator<Item = (K, V)>,
    ) -> Result<Self, SelectorError> {
        Self::new(
            labels
                .into_iter()
                .map(|(key, value)| Requirement::equals(key.as_ref(), value.as_ref())),
        )
    }

    /// The selector of a spec in JSON: a LabelSelector, or a plain map of labels. Null matches nothing, and `{}`
    /// matches everything. (The API omits an empty plain map, whose absence matches nothing.) Fails if the JSON is
    /// neither form.
    pub fn of_json(json: &[u8]) -> Result<Self, SelectorError> {
        let spec: Result<Option<Spec>, serde_json::Error> = serde_json::from_slice(json);
        match spec.map_err(|error| SelectorError::Json(error.to_string()))? {
            None => Ok(Self::nothing()),
            Some(Spec::Selector(spec)) => {
                let equal = spec.match_labels.into_iter().flatten();
                let equal = equal.map(|(key, value)| Requirement::equals(&key, &value));
                let other = spec
                    .match_expressions
                    .into_iter()
                    .flatten()
                    .map(|expression| Requirement {
                        key: expression.key.into(),
                        operator: expression.operator,
                        values: expression
                            .values
                            .into_iter()
                            .flatten()
                            .map(Into::into)
                            .collect(),
                    });
                Self::new(equal.chain(other))
            }
            Some(Spec::Map(labels)) => Self::of_map(labels),
        }
    }

    pub fn matches<L: Labels + ?Sized>(&self, labels: &L) -> bool {
        !self.nothing
            && self
                .requirements
                .iter()
                .all(|requirement| requirement.matches(labels.label(&requirement.key)))
    }

    /// Like [`LabelSelector::matches`], given all labels of an object, each once. Faster if there are many
    /// requirements.
    pub fn matches_all<'a>(&self, labels: impl Iterator<Item = (&'a str, &'a str)>) -> bool {
        if self.nothing {
            return false;
        }
        let needs_label =
            |own: &Requirement| matches!(own.operator, Operator::In | Operator::Exists);
        let mut missing = self
            .requirements
            .iter()
            .filter(|own| needs_label(own))
            .count();
        for (key, value) in labels {
            let first = self.requirements.partition_point(|own| *own.key < *key);
            let of_key = self.requirements[first..]
                .iter()
                .take_while(|own| *own.key == *key);
            for own in of_key {
                if !own.matches(Some(value)) {
                    return false;
                }
                missing -= usize::from(needs_label(own));
            }
        }
        missing == 0
    }

    /// The requirements, sorted by key.
    pub fn requirements(&self) -> &[Requirement] {
        &self.requirements
    }

    /// Whether the selector matches all labels.
    pub fn is_everything(&self) -> bool {
        !self.nothing && self.requirements.is_empty()
    }

    /// Whether the selector matches nothing because it was null.
    pub fn is_nothing(&self) -> bool {
        self.nothing
    }

    /// Estimates the bytes that it holds.
    pub fn size(&self) -> usize {
        let all = self.requirements.capacity() * size_of::<Requirement>();
        let behind = self.requirements.iter().map(Requirement::size_behind);
        size_of::<Self>() + all + behind.sum::<usize>()
    }

    /// The conjunction of both selectors.
    pub fn and(&self, other: &Self) -> Self {
        let mut requirements: Vec<_> = self
            .requirements
            .iter()
            .chain(&other.requirements)
            .cloned()
            .collect();
        requirements.sort();
        requirements.dedup();
        Self {
            requirements,
            nothing: self.nothing || other.nothing,
        }
    }
}

impl Requirement {
    /// Requires a label with this value.
    pub fn equals(key: &str, value: &str) -> Self {
        Self {
            key: key.into(),
            operator: Operator::In,
            values: [value.into()].into(),
        }
    }

    /// Whether the requirement holds for this value of its label, or for its absence.
    pub fn matches(&self, value: Option<&str>) -> bool {
        let is_one_of = |value: &str| {
            self.values
                .binary_search_by(|own| (**own).cmp(value))
                .is_ok()
        };
        match self.operator {
            Operator::In => value.is_some_and(is_one_of),
            Operator::NotIn => !value.is_some_and(is_one_of),
            Operator::Exists => value.is_some(),
            Operator::DoesNotExist => value.is_none(),
        }
    }

    /// Estimates the bytes behind it.
    fn size_behind(&self) -> usize {
        let values = self.values.iter().map(|value| size_of_block(value.len()));
        size_of_block(self.key.len())
            + size_of_block(size_of_val(&*self.values))
            + values.sum::<usize>()
    }

    fn check(&self) -> Result<(), SelectorError> {
        if !is_key(&self.key) {
            return Err(SelectorError::Label(self.key.to_string()));
        }
        if let Some(value) = self
            .values
            .iter()
            .find(|value| !value.is_empty() && !is_name(value))
        {
            return Err(SelectorError::Label(value.to_string()));
        }
        if matches!(self.operator, Operator::In | Operator::NotIn) == self.values.is_empty() {
            return Err(SelectorError::Values(self.key.to_string()));
        }
        Ok(())
    }
}

/// `name` or `prefix.example.com/name`.
fn is_key(key: &str) -> bool {
    let is_prefix = |text: &str| {
        (1..=253).contains(&text.len())
            && text
                .bytes()
                .all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'.')
    };
    match key.split_once('/') {
        Some((prefix, name)) => is_prefix(prefix) && is_name(name),
        None => is_name(key),
    }
}

fn is_name(text: &str) -> bool {
    let bytes = text.as_bytes();
    (1..=63).contains(&bytes.len())
        && bytes[0].is_ascii_alphanumeric()
        && bytes[bytes.len() - 1].is_ascii_alphanumeric()
        && bytes
            .iter()
            .all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.'))
}

/// The two forms of JSON. The values of the API's own fields are never strings, which tells the forms apart.
enum Spec {
    Selector(Fields),
    Map(BTreeMap<String, String>),
}

struct Fields {
    match_labels: Option<BTreeMap<String, String>>,
    match_expressions: Option<Vec<Expression>>,
}

#[derive(Deserialize)]
struct Expression {
    key: String,
    operator: Operator,
    values: Option<Vec<String>>,
}

/// Read in one pass, because many selectors are read for each change of a pod.
impl<'de> Deserialize<'de> for Spec {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(SpecVisitor)
    }
}

struct SpecVisitor;

impl<'de> Visitor<'de> for SpecVisitor {
    type Value = Spec;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a label selector, or a map of labels")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Spec, A::Error> {
        let (mut match_labels, mut match_expressions) = (None, None);
        let mut labels = BTreeMap::new();
        while let Some(key) = map.next_key::<String>()? {
            match (map.next_value()?, &*key) {
                (Member::Text(value), _) => drop(labels.insert(key, value)),
                (Member::Null, MATCH_LABELS) => set(&mut match_labels, MATCH_LABELS, None)?,
                (Member::Null, MATCH_EXPRESSIONS) => {
                    set(&mut match_expressions, MATCH_EXPRESSIONS, None)?;
                }
                (Member::Labels(all), MATCH_LABELS) => {
                    set(&mut match_labels, MATCH_LABELS, Some(all))?;
                }
                (Member::Expressions(all), MATCH_EXPRESSIONS) => {
                    set(&mut match_expressions, MATCH_EXPRESSIONS, Some(all))?;
                }
                _ => return Err(A::Error::unknown_field(&key, FIELDS)),
            }
        }
        let is_selector = match_labels.is_some() || match_expressions.is_some();
        match labels.first_key_value() {
            Some((label, _)) if is_selector => Err(A::Error::unknown_field(label, FIELDS)),
            Some(_) => Ok(Spec::Map(labels)),
            None => Ok(Spec::Selector(Fields {
                match_labels: match_labels.flatten(),
                match_expressions: match_expressions.flatten(),
            })),
        }
    }
}

/// Sets a field. Fails if it is set already.
fn set<T, E: serde::de::Error>(
    field: &mut Option<T>,
    name: &'static str,
    value: T,
) -> Result<(), E> {
    match field.replace(value) {
        None => Ok(()),
        Some(_) => Err(E::duplicate_field(name)),
    }
}

const MATCH_LABELS: &str = "matchLabels";
const MATCH_EXPRESSIONS: &str = "matchExpressions";
const FIELDS: &[&str] = &[MATCH_LABELS, MATCH_EXPRESSIONS];

/// The value of a field of either form.
enum Member {
    Null,
    Text(String),
    Labels(BTreeMap<String, String>),
    Expressions(Vec<Expression>),
}

impl<'de> Deserialize<'de> for Member {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(MemberVisitor)
    }
}

struct MemberVisitor;

impl<'de> Visitor<'de> for MemberVisitor {
    type Value = Member;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("labels, expressions or the value of a label")
    }

    fn visit_unit<E>(self) -> Result<Member, E> {
        Ok(Member::Null)
    }

    fn visit_str<E>(self, text: &str) -> Result<Member, E> {
        Ok(Member::Text(text.to_owned()))
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Member, A::Error> {
        BTreeMap::deserialize(MapAccessDeserializer::new(map)).map(Member::Labels)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, list: A) -> Result<Member, A::Error> {
        Vec::deserialize(SeqAccessDeserializer::new(list)).map(Member::Expressions)
    }
}

impl FromStr for LabelSelector {
    type Err = SelectorError;

    fn from_str(selector: &str) -> Result<Self, SelectorError> {
        let fail = |problem: String| SelectorError::Syntax {
            selector: selector.into(),
            problem,
        };
        if selector.len() > MAX_LENGTH {
            return Err(SelectorError::Syntax {
                selector: crate::path::shortened(selector),
                problem: format!("it has {} bytes, more than {MAX_LENGTH}", selector.len()),
            });
        }
        if selector.trim().is_empty() {
            return Ok(Self::everything());
        }
        let too_many = |most: usize, what: &str| {
            Err(SelectorError::Syntax {
                selector: crate::path::shortened(selector),
                problem: format!("it has more than {most} {what}"),
            })
        };
        let (mut requirements, mut values) = (Vec::new(), 0);
        for part in split_outside_parentheses(selector) {
            if requirements.len() == MAX_REQUIREMENTS {
                return too_many(MAX_REQUIREMENTS, "requirements");
            }
            let requirement = requirement(part.trim()).map_err(fail)?;
            values += requirement.values.len();
            if values > MAX_VALUES {
                return too_many(MAX_VALUES, "values");
            }
            requirements.push(requirement);
        }
        Self::new(requirements).map_err(|error| fail(error.to_string()))
    }
}

fn split_outside_parentheses(text: &str) -> impl Iterator<Item = &str> {
    let mut depth = 0i32;
    text.split(move |c| {
        depth += i32::from(c == '(') - i32::from(c == ')');
        c == ',' && depth <= 0
    })
}

fn requirement(part: &str) -> Result<Requirement, String> {
    let make = |key: &str, operator, values: &[&str]| Requirement {
        key: key.trim().into(),
        operator,
        values: values.iter().map(|value| value.trim().into()).collect(),
    };
    if part.is_empty() {
        return Err("a requirement is empty".into());
    }
    if let Some(key) = part.strip_prefix('!') {
        return Ok(make(key, Operator::DoesNotExist, &[]));
    }
    if let Some((head, values)) = part.split_once('(') {
        let values = values
            .strip_suffix(')')
            .ok_or_else(|| format!("`{part}` has no `)` at its end"))?;
        let values: Vec<&str> = values.split(',').collect();
        let words: Vec<&str> = head.split_whitespace().collect();
        return match words[..] {
            [key, "in"] => Ok(make(key, Operator::In, &values)),
            [key, "notin"] => Ok(make(key, Operator::NotIn, &values)),
            _ => Err(format!(
                "`{part}` is not `key in (a,b)` or `key notin (a,b)`"
            )),
        };
    }
    if let Some((key, value)) = part.split_once("!=") {
        return Ok(make(key, Operator::NotIn, &[value]));
    }
    if let Some((key, value)) = part.split_once("==").or_else(|| part.split_once('=')) {
        return Ok(make(key, Operator::In, &[value]));
    }
    if part.contains(['<', '>']) {
        return Err(format!("`{part}` compares numbers, which is not supported"));
    }
    Ok(make(part, Operator::Exists, &[]))
}

/// The text of the API's `labelSelector`. The API has no text for a selector that matches nothing, so it is written as
/// one that can't hold.
impl fmt::Display for LabelSelector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.nothing {
            return f.write_str("nothing,!nothing");
        }
        for (
            i,
            Requirement {
                key,
                operator,
                values,
            },
        ) in self.requirements.iter().enumerate()
        {
            if i > 0 {
                f.write_str(",")?;
            }
            match (operator, &**values) {
                (Operator::In, [value]) => write!(f, "{key}={value}")?,
                (Operator::NotIn, [value]) => write!(f, "{key}!={value}")?,
                (Operator::In, values) => write!(f, "{key} in ({})", values.join(","))?,
                (Operator::NotIn, values) => write!(f, "{key} notin ({})", values.join(","))?,
                (Operator::Exists, _) => write!(f, "{key}")?,
                (Operator::DoesNotExist, _) => write!(f, "!{key}")?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
