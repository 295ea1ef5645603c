//! Errors of a reconcile, and whether a retry can help.

use std::fmt;

use flyball_types::ApiError;

/// The error of a reconcile or of a step of it.
#[derive(Debug)]
pub enum Error {
    /// The API server or the host refused a call.
    Api(ApiError),
    /// An object does not fit a view: what was read, and the parser's error.
    Malformed(String, serde_json::Error),
    /// Another error that a retry may resolve.
    Failed(String),
    /// An error that no retry can resolve. The host reports it and does not retry until something changes.
    Terminal(String),
    /// An error with the step in which it occurred.
    Doing(String, Box<Error>),
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

    /// Whether no retry can help.
    pub fn is_terminal(&self) -> bool {
        match self {
            Self::Terminal(_) => true,
            Self::Doing(_, error) => error.is_terminal(),
            _ => false,
        }
    }

    /// Joins errors into one; `None` if there are none. The result is terminal only if all of them are.
    pub fn join(errors: impl IntoIterator<Item = Error>) -> Option<Self> {
        let mut errors: Vec<Error> = errors.into_iter().collect();
        if errors.len() < 2 {
            return errors.pop();
        }
        let terminal = errors.iter().all(Error::is_terminal);
        let text = errors
            .iter()
            .map(Error::to_string)
            .collect::<Vec<_>>()
            .join("; ");
        Some(if terminal {
            Self::Terminal(text)
        } else {
            Self::Failed(text)
        })
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Api(error) => write!(f, "{error}"),
            Self::Malformed(what, error) => {
                let error = error.to_string();
                write!(f, "{what} is malformed: {}", without_position(&error))
            }
            Self::Failed(message) | Self::Terminal(message) => write!(f, "{message}"),
            Self::Doing(what, error) => write!(f, "{what}: {error}"),
        }
    }
}

/// An error of the JSON parser without its position, which means nothing to somebody who does not see the text.
fn without_position(error: &str) -> &str {
    error
        .rsplit_once(" at line ")
        .map_or(error, |(error, _)| error)
}

impl std::error::Error for Error {}

impl From<ApiError> for Error {
    fn from(error: ApiError) -> Self {
        Self::Api(error)
    }
}

/// Adds context to errors.
pub trait Context<T> {
    /// Prefixes the error with what was attempted: `host.create(…).doing(|| format!("creating {name}"))?`.
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
