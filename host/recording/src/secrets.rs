//! Hides the data of Secrets, tokens and credentials in recordings.
//!
//! A hidden text is replaced by one of the same length, so that Base64 stays Base64 and a guest does about the same with
//! it. Hidden are:
//! - the values of `data` and `stringData`, and the annotation of the last applied configuration, of each Secret that the
//!   call reads, gets as a delta, or writes;
//! - tokens: those that the host signs or verifies, and those of the subresource `token`; and the credentials of clouds;
//! - the same texts, decoded too, wherever else in the call they stand whole: in other objects, logs, events and errors;
//! - values of the memo, if the plugin may read Secrets: an earlier call may have put them there.
//!
//! A guest's *asked* side is hidden in the same way while it is repeated, before the two are compared.

use std::borrow::Cow;
use std::collections::BTreeSet;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;
use serde_json::value::RawValue;

use crate::asked::{
    CREDENTIALS_GET, LISTER_GET, LISTER_LIST, LISTER_NEXT, MEMO_GET, MEMO_PUT, READER_READ,
    SIGN_JWT, VERIFY_JWT, WRITER_RUN,
};
use crate::document::BASE64;
use crate::{Call, Document, Ended, Input, Step};

const SECRET: &str = "v1/Secret";
/// The annotation in which kubectl keeps the whole object.
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";
/// Shorter texts are not searched for in other places: they stand there by chance.
const SEARCHED: usize = 6;
/// The most texts that are searched for. A call with more of them is not recorded without its Secrets.
const MAX_TEXTS: usize = 2000;
/// The largest product of the searched texts and the bytes that they are searched in. The same holds for it.
const MAX_WORK: usize = 2 << 30;

/// A call has so many or so large Secrets that hiding them would take too long.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the call has too much data of Secrets to hide it: record it with --with-secrets")]
pub struct TooMany;

/// Hides texts in one call.
pub struct Hider {
    /// Whether the plugin may read Secrets.
    reads_secrets: bool,
    /// The numbers of the cursors of lists of Secrets.
    cursors: BTreeSet<u32>,
    /// The texts that are searched for in other places.
    texts: BTreeSet<String>,
    hidden: u32,
}

impl Hider {
    /// `reads_secrets` is whether the plugin may read Secrets.
    pub fn new(reads_secrets: bool) -> Self {
        Self {
            reads_secrets,
            cursors: BTreeSet::new(),
            texts: BTreeSet::new(),
            hidden: 0,
        }
    }

    /// Hides the arguments of an import that have data of Secrets by their place.
    pub fn hide_asked(&mut self, import: &str, arguments: &mut Value) {
        match import {
            WRITER_RUN => {
                let writes = arguments.get_mut("writes").and_then(Value::as_array_mut);
                for write in writes
                    .into_iter()
                    .flatten()
                    .filter(|write| is_of_secrets(write))
                {
                    for part in ["body", "metadata"] {
                        if let Some(document) = write.get_mut(part) {
                            self.hide_document(document);
                        }
                    }
                }
            }
            MEMO_PUT if self.reads_secrets => {
                if let Some(value) = arguments.get_mut("value") {
                    self.hide_all(value);
                }
            }
            VERIFY_JWT => {
                if let Some(token) = arguments.get_mut("token") {
                    self.hide_all(token);
                }
            }
            _ => {}
        }
    }

    /// Hides the answer to a question.
    fn hide_answered(&mut self, import: &str, asked: &Value, answered: &mut Value) {
        let of_secrets = match import {
            LISTER_GET => is_of_secrets(asked),
            LISTER_LIST => asked.get("query").is_some_and(is_of_secrets),
            LISTER_NEXT => {
                cursor(asked.get("rest")).is_some_and(|rest| self.cursors.contains(&rest))
            }
            READER_READ => is_of_secrets(asked) || is_path_of_secrets(asked),
            MEMO_GET if self.reads_secrets => {
                return self.hide_member(answered, &["ok", "entry", "value"]);
            }
            SIGN_JWT | CREDENTIALS_GET => return self.hide_member(answered, &["ok"]),
            WRITER_RUN => return self.hide_written(asked, answered),
            _ => return,
        };
        if !of_secrets {
            return;
        }
        let Some(found) = answered.get_mut("ok") else {
            return;
        };
        match import {
            LISTER_GET => {
                if let Some(object) = found.get_mut("object") {
                    self.hide_document(object);
                }
            }
            LISTER_LIST | LISTER_NEXT => {
                self.cursors.extend(cursor(found.get("rest")));
                let columns = asked
                    .pointer("/projection/columns")
                    .and_then(Value::as_array);
                match (found.get_mut("items"), columns) {
                    // The columns of a further page are those of the first one, which is not at hand here.
                    (Some(rows), Some(_)) => self.hide_all(rows),
                    (Some(items), None) if import == LISTER_LIST => self.hide_document(items),
                    (Some(items), None) => match items.pointer("/0").is_some_and(Value::is_array) {
                        true => self.hide_all(items),
                        false => self.hide_document(items),
                    },
                    (None, _) => {}
                }
            }
            _ => self.hide_document(found),
        }
    }

    fn hide_written(&mut self, asked: &Value, answered: &mut Value) {
        let writes = asked.get("writes").and_then(Value::as_array);
        let results = answered.get_mut("ok").and_then(Value::as_array_mut);
        let pairs = writes
            .into_iter()
            .flatten()
            .zip(results.into_iter().flatten());
        for (write, result) in pairs {
            if is_of_secrets(write) {
                if let Some(document) = result.get_mut("ok") {
                    self.hide_document(document);
                }
            } else if write.get("subresource").is_some_and(|name| name == "token") {
                self.hide_member(result, &["ok", "status", "token"]);
            }
        }
    }

    fn hide_member(&mut self, value: &mut Value, path: &[&str]) {
        let found = path
            .iter()
            .try_fold(value, |value, name| value.get_mut(*name));
        if let Some(found) = found {
            self.hide_all(found);
        }
    }

    /// Hides the data in a document about Secrets: an object or a part of one, a list, or a JSON patch.
    fn hide_document(&mut self, document: &mut Value) {
        match document {
            Value::Array(items) => {
                for item in items {
                    let path = item.get("path").and_then(Value::as_str);
                    let is_data = path.is_some_and(|path| {
                        path.is_empty()
                            || path == "/"
                            || ["/data", "/stringData", "/metadata"]
                                .iter()
                                .any(|start| path.starts_with(start))
                    });
                    match item.get_mut("value") {
                        Some(value) if is_data => self.hide_all(value),
                        _ => self.hide_document(item),
                    }
                }
            }
            Value::Object(members) => {
                for (name, value) in members {
                    match name.as_str() {
                        "data" | "stringData" | LAST_APPLIED | BASE64 => self.hide_all(value),
                        "items" | "rows" | "object" | "metadata" | "annotations" => {
                            self.hide_document(value)
                        }
                        _ => {}
                    }
                }
            }
            // Not an object: a document that can't be read is hidden as a whole.
            Value::String(_) => self.hide_all(document),
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }

    /// Hides all texts of a value.
    fn hide_all(&mut self, value: &mut Value) {
        match value {
            Value::String(text) => {
                self.note(text);
                *text = masked(text);
                self.hidden += 1;
            }
            Value::Array(items) => items.iter_mut().for_each(|item| self.hide_all(item)),
            Value::Object(members) => members.values_mut().for_each(|value| self.hide_all(value)),
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }

    /// Remembers a text, and what it stands for in Base64, to be searched for.
    fn note(&mut self, text: &str) {
        let decoded = STANDARD
            .decode(text)
            .ok()
            .and_then(|bytes| String::from_utf8(bytes).ok());
        let json: Option<Value> = decoded
            .as_deref()
            .and_then(|text| serde_json::from_str(text).ok());
        let mut inner = Vec::new();
        if let Some(json) = &json {
            texts_of(json, &mut inner);
        }
        let own = [Some(text.to_owned()), decoded.clone()]
            .into_iter()
            .flatten();
        let trimmed = decoded.map(|text| text.trim().to_owned());
        let all = own.chain(trimmed).chain(inner);
        self.texts.extend(all.filter(|text| text.len() >= SEARCHED));
    }

    /// Hides the noted texts wherever they stand in a value.
    fn search(&mut self, value: &mut Value) {
        match value {
            Value::String(text) => {
                if let Some(found) = self.searched(text) {
                    *text = found;
                    self.hidden += 1;
                }
            }
            Value::Array(items) => items.iter_mut().for_each(|item| self.search(item)),
            Value::Object(members) => {
                if let Some(Value::String(bytes)) = members.get_mut(BASE64) {
                    return self.search_bytes(bytes);
                }
                members.values_mut().for_each(|value| self.search(value));
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }

    /// Returns the text with the noted texts hidden; none if it has none.
    fn searched(&self, text: &str) -> Option<String> {
        let mut found: Cow<'_, str> = text.into();
        for secret in &self.texts {
            if found.contains(secret.as_str()) {
                found = found.replace(secret.as_str(), &masked(secret)).into();
            }
        }
        match found {
            Cow::Borrowed(_) => None,
            Cow::Owned(text) => Some(text),
        }
    }

    /// Hides noted texts in bytes that are not JSON. Bytes that are not text either are hidden as a whole if the call has
    /// anything to hide.
    fn search_bytes(&mut self, base64: &mut String) {
        let decoded = STANDARD.decode(base64.as_str()).ok();
        let replaced = match decoded.map(String::from_utf8) {
            Some(Ok(text)) => self.searched(&text).map(|text| STANDARD.encode(text)),
            _ => Some(masked(base64)),
        };
        if let Some(replaced) = replaced {
            *base64 = replaced;
            self.hidden += 1;
        }
    }
}

/// Hides the data of Secrets in a call. A step whose parts are not JSON is left as it is: it was not recorded by a host.
///
/// # Errors
/// The call has too much to hide.
pub fn hide(call: &mut Call, reads_secrets: bool) -> Result<(), TooMany> {
    let mut hider = Hider::new(reads_secrets);
    if let Input::Route { deltas } = &mut call.call {
        for delta in deltas.iter_mut().filter(|delta| delta.watch == SECRET) {
            for object in [&mut delta.old, &mut delta.new].into_iter().flatten() {
                change_document(object, |value| hider.hide_document(value));
            }
        }
    }
    for step in &mut call.steps {
        hide_step(&mut hider, step);
    }
    if !hider.texts.is_empty() {
        search(&mut hider, call)?;
    }
    call.hidden = hider.hidden;
    Ok(())
}

fn hide_step(hider: &mut Hider, step: &mut Step) {
    let Ok(mut asked) = serde_json::from_str::<Value>(step.asked.get()) else {
        return;
    };
    let before = hider.hidden;
    hider.hide_asked(&step.import, &mut asked);
    if hider.hidden > before {
        step.asked = crate::answer::write(&asked);
    }
    let Some(answered) = &mut step.answered else {
        return;
    };
    // Most answers have nothing to hide, and stay as they are, byte by byte.
    if !may_hide(&step.import) {
        return;
    }
    change(answered, |value| {
        hider.hide_answered(&step.import, &asked, value)
    });
}

/// Whether answers of an import may have data of Secrets by their place.
fn may_hide(import: &str) -> bool {
    matches!(
        import,
        LISTER_GET
            | LISTER_LIST
            | LISTER_NEXT
            | READER_READ
            | MEMO_GET
            | SIGN_JWT
            | CREDENTIALS_GET
            | WRITER_RUN
    )
}

/// Searches for the noted texts in the whole call.
fn search(hider: &mut Hider, call: &mut Call) -> Result<(), TooMany> {
    let bytes: usize = call
        .steps
        .iter()
        .map(|step| {
            step.asked.get().len() + step.answered.as_ref().map_or(0, |raw| raw.get().len())
        })
        .sum();
    if hider.texts.len() > MAX_TEXTS || hider.texts.len().saturating_mul(bytes) > MAX_WORK {
        return Err(TooMany);
    }
    for step in &mut call.steps {
        for raw in [Some(&mut step.asked), step.answered.as_mut()]
            .into_iter()
            .flatten()
        {
            change(raw, |value| hider.search(value));
        }
    }
    if let Input::Route { deltas } = &mut call.call {
        for delta in deltas {
            for object in [&mut delta.old, &mut delta.new].into_iter().flatten() {
                change_document(object, |value| hider.search(value));
            }
        }
    }
    let replace = |text: &mut String| {
        if let Some(found) = hider.searched(text) {
            *text = found;
        }
    };
    match &mut call.ended {
        Ended::Failed { message }
        | Ended::Terminal { message }
        | Ended::NotRouted { message }
        | Ended::Stopped { message, .. } => replace(message),
        Ended::Refused { kind, message } => {
            replace(kind);
            replace(message);
        }
        Ended::Trapped {
            message,
            last_error,
            ..
        } => {
            replace(message);
            last_error.iter_mut().for_each(replace);
        }
        Ended::Answered { document } => change_document(document, |value| hider.search(value)),
        Ended::Routed { keys } => keys.iter_mut().for_each(|key| replace(&mut key.key)),
        Ended::Done {} | Ended::RequeueAfter { .. } | Ended::Described { .. } => {}
    }
    Ok(())
}

/// Changes a value in its place. If nothing changes, its bytes stay as they are.
fn change(raw: &mut Box<RawValue>, work: impl FnOnce(&mut Value)) {
    let Ok(mut value) = serde_json::from_str::<Value>(raw.get()) else {
        return;
    };
    let before = value.clone();
    work(&mut value);
    if value != before {
        *raw = crate::answer::write(&value);
    }
}

fn change_document(document: &mut Document, work: impl FnOnce(&mut Value)) {
    let mut embedded = Document::embed(&document.0);
    change(&mut embedded, work);
    if let Ok(bytes) = Document::extract(&embedded) {
        document.0 = bytes;
    }
}

/// Whether a query, a key, a read or a write is of Secrets.
fn is_of_secrets(value: &Value) -> bool {
    let kind = value.get("kind").and_then(Value::as_str);
    kind.is_some_and(|kind| kind == SECRET || kind == "*")
}

/// Whether the path of a raw read may be of Secrets.
fn is_path_of_secrets(asked: &Value) -> bool {
    let path = asked.get("path").and_then(Value::as_str);
    path.is_some_and(|path| {
        let path = path.split('?').next().unwrap_or_default();
        path.split('/').any(|segment| segment == "secrets")
    })
}

fn cursor(rest: Option<&Value>) -> Option<u32> {
    u32::try_from(rest?.as_u64()?).ok()
}

/// A text of the same length that says nothing. The padding of Base64 and the dots of a token stay.
fn masked(text: &str) -> String {
    let mask = |c: char| match c {
        '=' | '.' => vec![c],
        _ => vec!['A'; c.len_utf8()],
    };
    text.chars().flat_map(mask).collect()
}

fn texts_of(value: &Value, found: &mut Vec<String>) {
    match value {
        Value::String(text) => found.push(text.clone()),
        Value::Array(items) => items.iter().for_each(|item| texts_of(item, found)),
        Value::Object(members) => members.values().for_each(|value| texts_of(value, found)),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

#[cfg(test)]
mod tests;
