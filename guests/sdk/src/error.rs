//! Why a reconcile failed, and whether a retry can help.

use std::fmt;

use flyball_types::ApiError;

/// Why a reconcile, or a step of it, failed.
#[derive(Debug)]
pub enum Error {
    /// A call was refused by the API server or by the host.
    Api(ApiError),
    /// An object is not as a view wants it: what was read, and why that fails.
    Malformed(String, serde_json::Error),
    /// Something else, that a retry may mend.
    Failed(String),
    /// Something that no retry can mend: reported, and not tried again until something changes.
    Terminal(String),
    /// An error of a step, with what the step was about.
    Doing(String, Box<Error>),
}

impl Error {
    /// An error that a retry may mend.
    pub fn failed(message: impl Into<String>) -> Self {
        Self::Failed(message.into())
    }

    /// An error that no retry can mend.
    pub fn terminal(message: impl Into<String>) -> Self {
        Self::Terminal(message.into())
    }

    /// The API's answer, if that is the cause.
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

    /// All of these as one; none if there are none. It is terminal only if each is.
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
            Self::Malformed(what, error) => write!(f, "{what} is malformed: {error}"),
            Self::Failed(message) | Self::Terminal(message) => write!(f, "{message}"),
            Self::Doing(what, error) => write!(f, "{what}: {error}"),
        }
    }
}

impl std::error::Error for Error {}

impl From<ApiError> for Error {
    fn from(error: ApiError) -> Self {
        Self::Api(error)
    }
}

/// Says what was attempted when it fails.
pub trait Context<T> {
    /// The same result, its error preceded by what was attempted: `host.create(…).doing(|| format!("creating {name}"))?`.
    ///
    /// # Errors
    /// As before.
    fn doing(self, what: impl FnOnce() -> String) -> Result<T, Error>;
}

impl<T, E: Into<Error>> Context<T> for Result<T, E> {
    fn doing(self, what: impl FnOnce() -> String) -> Result<T, Error> {
        self.map_err(|error| Error::Doing(what(), Box::new(error.into())))
    }
}

/// What `?` and predicates want of a result of the API.
pub trait ApiResult<T> {
    /// `None` where the object does not exist; other errors stay.
    ///
    /// # Errors
    /// Every other one.
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

/// Whether an object was refused because its namespace is being deleted: a controller has nothing left to do there.
pub fn is_namespace_terminating(error: &ApiError) -> bool {
    error.reason == "NamespaceTerminating"
}
