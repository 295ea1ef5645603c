//! What the host answers, as recordings hold it: `{"ok": …}` or `{"error": …}`.

use flyball_types::{ApiError, DiscoveryFailure, Effect, ServedKind, Subresource};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::{Document, Malformed};

/// An answer of an import. Functions that can't fail have the variant `Ok` alone.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Answer<T, E = Error> {
    Ok(T),
    Error(E),
}

impl<T, E> Answer<T, E> {
    pub fn into_result(self) -> Result<T, E> {
        match self {
            Self::Ok(value) => Ok(value),
            Self::Error(error) => Err(error),
        }
    }
}

impl<T, E> From<Result<T, E>> for Answer<T, E> {
    fn from(result: Result<T, E>) -> Self {
        match result {
            Ok(value) => Self::Ok(value),
            Err(error) => Self::Error(error),
        }
    }
}

/// Returns an answer as a step holds it.
pub fn write(answer: &impl Serialize) -> Box<RawValue> {
    // Only maps with other keys than texts fail.
    serde_json::value::to_raw_value(answer).unwrap_or_else(|_| RawValue::NULL.to_owned())
}

/// Returns the answer of a function that can't fail as a step holds it.
pub fn write_ok(value: impl Serialize) -> Box<RawValue> {
    write(&Answer::<_, ()>::Ok(value))
}

/// Returns the answer of a function that may fail as a step holds it.
pub fn write_result<T: Serialize>(result: Result<T, &ApiError>) -> Box<RawValue> {
    write(&Answer::from(result.map_err(Error::from)))
}

/// Reads the answer of a function that can't fail.
///
/// # Errors
/// It has another form.
pub fn read_ok<T: DeserializeOwned>(answered: &RawValue) -> Result<T, Malformed> {
    match serde_json::from_str::<Answer<T>>(answered.get())? {
        Answer::Ok(value) => Ok(value),
        Answer::Error(_) => Err(Malformed("the function returns no errors".into())),
    }
}

/// Reads the answer of a function that may fail.
///
/// # Errors
/// It has another form.
pub fn read_result<T: DeserializeOwned>(
    answered: &RawValue,
) -> Result<Result<T, ApiError>, Malformed> {
    let answer: Answer<T> = serde_json::from_str(answered.get())?;
    Ok(answer.into_result().map_err(ApiError::from))
}

/// An error of the world.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Error {
    pub status: u16,
    pub reason: String,
    pub message: String,
    /// `none`, `refused` or `unknown`.
    #[serde(default = "unknown")]
    pub effect: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_after_ms: Option<u32>,
}

fn unknown() -> String {
    "unknown".to_owned()
}

impl From<&ApiError> for Error {
    fn from(error: &ApiError) -> Self {
        let effect = match error.effect {
            Effect::None => "none",
            Effect::Refused => "refused",
            Effect::Unknown => "unknown",
        };
        Self {
            status: error.status,
            reason: error.reason.clone(),
            message: error.message.clone(),
            effect: effect.into(),
            retry_after_ms: error.retry_after_ms,
        }
    }
}

impl From<Error> for ApiError {
    fn from(error: Error) -> Self {
        let effect = match error.effect.as_str() {
            "none" => Effect::None,
            "refused" => Effect::Refused,
            _ => Effect::Unknown,
        };
        Self::of_server(error.status, &error.reason, error.message)
            .with_effect(effect)
            .with_retry_after(error.retry_after_ms)
    }
}

/// The answer of `lister.get`: no object if the cache holds none.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Found {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub object: Option<Document>,
}

/// The answer of `lister.list` and `lister.next`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Page {
    pub items: Document,
    /// The number of the cursor; none on the last page.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rest: Option<u32>,
    /// Bytes that the host holds for the cursor.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub rest_bytes: u64,
}

fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// The answer of `memo.get`: no entry if there is none.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Memo {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub entry: Option<MemoEntry>,
}

/// An entry of the memo.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemoEntry {
    pub value: Document,
    pub version: u32,
}

/// The answer of `clock.now`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Time {
    pub seconds: u32,
    #[serde(default)]
    pub nanoseconds: u32,
}

/// An error of a cloud.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct CloudError {
    pub kind: String,
    pub message: String,
    pub wrapped: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retry_after_ms: Option<u32>,
}

/// The answer of `discovery.kinds`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Catalogue {
    pub kinds: Vec<Kind>,
    pub failures: Vec<Failure>,
}

/// A kind that the API server serves.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Kind {
    pub kind: String,
    pub plural: String,
    pub namespaced: bool,
    pub preferred: bool,
    pub verbs: Vec<String>,
    /// Names and verbs.
    pub subresources: Vec<(String, Vec<String>)>,
}

/// A group version whose discovery failed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Failure {
    pub group_version: String,
    pub message: String,
}

impl From<&flyball_types::Catalogue> for Catalogue {
    fn from(catalogue: &flyball_types::Catalogue) -> Self {
        let subresource = |own: &Subresource| (own.name.clone(), own.verbs.clone());
        let kind = |own: &ServedKind| Kind {
            kind: own.kind.clone(),
            plural: own.plural.clone(),
            namespaced: own.namespaced,
            preferred: own.preferred,
            verbs: own.verbs.clone(),
            subresources: own.subresources.iter().map(subresource).collect(),
        };
        let failure = |own: &DiscoveryFailure| Failure {
            group_version: own.group_version.clone(),
            message: own.message.clone(),
        };
        Self {
            kinds: catalogue.kinds.iter().map(kind).collect(),
            failures: catalogue.failures.iter().map(failure).collect(),
        }
    }
}

impl From<Catalogue> for flyball_types::Catalogue {
    fn from(catalogue: Catalogue) -> Self {
        let subresource = |(name, verbs)| Subresource { name, verbs };
        let kind = |own: Kind| ServedKind {
            kind: own.kind,
            plural: own.plural,
            namespaced: own.namespaced,
            preferred: own.preferred,
            verbs: own.verbs,
            subresources: own.subresources.into_iter().map(subresource).collect(),
        };
        let failure = |own: Failure| DiscoveryFailure {
            group_version: own.group_version,
            message: own.message,
        };
        Self {
            kinds: catalogue.kinds.into_iter().map(kind).collect(),
            failures: catalogue.failures.into_iter().map(failure).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_comes_back_as_it_was() {
        for error in [
            ApiError::denied("no"),
            ApiError::of_server(409, "Conflict", "changed"),
            ApiError::of_server(500, "Oops", "later").with_retry_after(Some(7)),
        ] {
            let written = write_result::<()>(Err(&error));
            assert_eq!(read_result::<()>(&written).unwrap(), Err(error));
        }
    }

    #[test]
    fn an_object_comes_back_byte_by_byte_and_its_absence_has_no_member() {
        let found = Found {
            object: Some(Document(b"{\"a\": 1.0}".to_vec())),
        };
        let written = write_result(Ok(&found));
        assert_eq!(written.get(), "{\"ok\":{\"object\":{\"a\": 1.0}}}");
        assert_eq!(read_result(&written).unwrap(), Ok(found));
        assert_eq!(write_result(Ok(Found::default())).get(), "{\"ok\":{}}");
    }

    #[test]
    fn an_answer_of_another_form_is_refused() {
        let raw = |text: &str| RawValue::from_string(text.into()).unwrap();
        assert!(read_result::<Page>(&raw("{\"ok\":3}")).is_err());
        assert!(
            read_ok::<u32>(&raw(
                "{\"error\":{\"status\":1,\"reason\":\"\",\"message\":\"\"}}"
            ))
            .is_err()
        );
        assert!(read_ok::<u32>(&raw("{}")).is_err());
        assert_eq!(read_ok::<u32>(&raw("{\"ok\":3}")).unwrap(), 3);
    }

    #[test]
    fn a_catalogue_comes_back_as_it_was() {
        let catalogue = flyball_types::Catalogue {
            kinds: vec![ServedKind {
                kind: "apps/v1/Deployment".into(),
                plural: "deployments".into(),
                namespaced: true,
                preferred: true,
                verbs: vec!["get".into()],
                subresources: vec![Subresource {
                    name: "status".into(),
                    verbs: vec!["update".into()],
                }],
            }],
            failures: vec![DiscoveryFailure {
                group_version: "a/v1".into(),
                message: "down".into(),
            }],
        };
        let written = write_result(Ok(Catalogue::from(&catalogue)));
        let read: Catalogue = read_result(&written).unwrap().unwrap();
        assert_eq!(flyball_types::Catalogue::from(read), catalogue);
    }
}
