//! Errors of a reconcile, and whether a retry can help.

use std::fmt;

use flyball_types::ApiError;

use crate::reference::ObjectReference;

/// The error of a reconcile or of a step of it.
#[derive(Debug)]
pub enum Error {
    /// The API server or the host refused a call.
    Api(ApiError),
    /// An object or another value does not fit the type as which it was read.
    Malformed(Box<Malformed>),
    /// Another error that a retry may resolve.
    Failed(String),
    /// An error that no retry can resolve. The host reports it and does not retry until something changes.
    Terminal(String),
    /// An error with the step in which it occurred.
    Doing(String, Box<Error>),
    /// Errors of several steps. A retry may help if it may resolve at least one of them.
    Several(Vec<Error>),
}

/// A value that does not fit the type as which it was read, such as an object that does not fit a view.
#[derive(Debug)]
pub struct Malformed {
    /// The name of the value that was read, as in `apps/v1/Deployment demo/web`.
    pub what: String,
    /// The object, if one was read.
    pub object: Option<ObjectReference>,
    /// The parser's error: the field, its value and the expected type.
    pub error: serde_json::Error,
}

impl Error {
    /// An error that a retry may resolve.
    pub fn failed(message: impl Into<String>) -> Self {
        Self::Failed(message.into())
    }

    /// An error that no retry can resolve.
    pub fn terminal(message: impl Into<String>) -> Self {
        Self::Terminal(message.into())
    }

    /// An error about a value that does not fit its type: `what` names the value, and `error` is the parser's.
    pub fn malformed(what: impl Into<String>, error: serde_json::Error) -> Self {
        let (what, object) = (what.into(), None);
        Self::Malformed(Box::new(Malformed {
            what,
            object,
            error,
        }))
    }

    /// A value of the configuration is invalid. No retry can resolve that.
    pub fn invalid_config(key: &str, value: &str) -> Self {
        Self::terminal(format!("invalid value of setting {key}: `{value}`"))
    }

    /// Returns the API error, if that is the cause.
    pub fn api(&self) -> Option<&ApiError> {
        match self {
            Self::Api(error) => Some(error),
            Self::Doing(_, error) => error.api(),
            _ => None,
        }
    }

    /// Returns the text for events and conditions, in the form of kube-controller-manager's: a refusal of the API server
    /// is the server's message alone, a step precedes its cause, and several errors are a list in brackets, where equal
    /// texts stand once.
    ///
    /// ```
    /// use flyball_sdk::prelude::*;
    ///
    /// let refused = Error::from(ApiError::of_server(403, "Forbidden", "not you"));
    /// let creating = Error::Doing("creating web".into(), Box::new(refused));
    /// assert_eq!(creating.message(), "creating web: not you");
    /// let both = Error::Several(vec![creating, Error::failed("no node")]);
    /// assert_eq!(both.message(), "[creating web: not you, no node]");
    /// ```
    pub fn message(&self) -> String {
        match self {
            Self::Api(error) => error.message.clone(),
            Self::Doing(what, error) => format!("{what}: {}", error.message()),
            Self::Several(_) => {
                let mut messages = Vec::new();
                self.add_messages(&mut messages);
                match &messages[..] {
                    [one] => one.clone(),
                    all => format!("[{}]", all.join(", ")),
                }
            }
            Self::Malformed(_) | Self::Failed(_) | Self::Terminal(_) => self.to_string(),
        }
    }

    /// Adds the messages of the single errors that are missing.
    fn add_messages(&self, to: &mut Vec<String>) {
        if let Self::Several(errors) = self {
            errors.iter().for_each(|error| error.add_messages(to));
            return;
        }
        let message = self.message();
        if !to.contains(&message) {
            to.push(message);
        }
    }

    /// Whether no retry can help.
    pub fn is_terminal(&self) -> bool {
        match self {
            Self::Terminal(_) => true,
            Self::Doing(_, error) => error.is_terminal(),
            Self::Several(errors) => errors.iter().all(Error::is_terminal),
            _ => false,
        }
    }

    /// Calls `visit` for each object that does not fit a view.
    pub fn each_malformed(&self, visit: &mut dyn FnMut(&ObjectReference, &Malformed)) {
        match self {
            Self::Malformed(malformed) => {
                let object = malformed.object.iter();
                object.for_each(|object| visit(object, malformed));
            }
            Self::Doing(_, error) => error.each_malformed(visit),
            Self::Several(errors) => errors.iter().for_each(|error| error.each_malformed(visit)),
            _ => {}
        }
    }

    /// Joins errors into one; `None` if there are none. The result is terminal only if all of them are.
    pub fn join(errors: impl IntoIterator<Item = Error>) -> Option<Self> {
        let mut errors: Vec<Error> = errors.into_iter().collect();
        if errors.len() < 2 {
            return errors.pop();
        }
        Some(Self::Several(errors))
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Api(error) => write!(f, "{error}"),
            Self::Malformed(malformed) => write!(f, "{malformed}"),
            Self::Failed(message) | Self::Terminal(message) => write!(f, "{message}"),
            Self::Doing(what, error) => write!(f, "{what}: {error}"),
            Self::Several(errors) => {
                for (at, error) in errors.iter().enumerate() {
                    let separator = if at > 0 { "; " } else { "" };
                    write!(f, "{separator}{error}")?;
                }
                Ok(())
            }
        }
    }
}

impl Malformed {
    /// Describes the mismatch, as in `spec.replicas: invalid type: string "two", expected i32`. The parser's position
    /// is left out, because the reader of the message does not see the text.
    pub fn problem(&self) -> String {
        let error = self.error.to_string();
        let end = error.rfind(" at line ").unwrap_or(error.len());
        error[..end].to_owned()
    }
}

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} is malformed: {}", self.what, self.problem())
    }
}

impl std::error::Error for Error {}

impl From<ApiError> for Error {
    fn from(error: ApiError) -> Self {
        Self::Api(error)
    }
}

/// Adds context to errors.
pub trait Context<T> {
    /// Prefixes the error with the attempted step: `host.create(…).doing(|| format!("creating {name}"))?`.
    ///
    /// # Errors
    /// The same as of `self`.
    fn doing(self, what: impl FnOnce() -> String) -> Result<T, Error>;
}

impl<T, E: Into<Error>> Context<T> for Result<T, E> {
    fn doing(self, what: impl FnOnce() -> String) -> Result<T, Error> {
        self.map_err(|error| Error::Doing(what(), Box::new(error.into())))
    }
}

/// Extension of API results.
pub trait ApiResult<T> {
    /// Turns a "not found" error into `None`.
    ///
    /// # Errors
    /// All other errors.
    fn found(self) -> Result<Option<T>, ApiError>;
}

impl<T> ApiResult<T> for Result<T, ApiError> {
    fn found(self) -> Result<Option<T>, ApiError> {
        match self {
            Ok(value) => Ok(Some(value)),
            Err(error) if error.is_not_found() => Ok(None),
            Err(error) => Err(error),
        }
    }
}

/// Whether an object was refused because its namespace is being deleted. A controller can ignore that.
pub fn is_namespace_terminating(error: &ApiError) -> bool {
    error.reason == "NamespaceTerminating"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_has_each_text_of_several_errors_once() {
        let refused = || Error::from(ApiError::of_server(403, "Forbidden", "not you"));
        let nested = Error::Several(vec![refused(), Error::failed("no node")]);
        let doing = Error::Doing("creating web".into(), Box::new(nested));
        assert_eq!(doing.message(), "creating web: [not you, no node]");
        let nested = Error::Several(vec![Error::failed("no node"), refused()]);
        let several = Error::Several(vec![refused(), nested]);
        assert_eq!(several.message(), "[not you, no node]");
        let same = Error::Several(vec![refused(), refused()]);
        assert_eq!(same.message(), "not you");
    }
}
