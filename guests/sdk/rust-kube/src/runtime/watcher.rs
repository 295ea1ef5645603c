//! The objects that a controller watches.

/// Selects objects of a watch. The host decides how it lists and resumes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Config {
    /// Only objects whose labels match.
    pub label_selector: Option<String>,
    /// Only objects whose fields match.
    pub field_selector: Option<String>,
}

impl Config {
    /// Only objects whose labels match.
    #[must_use]
    pub fn labels(mut self, selector: &str) -> Self {
        self.label_selector = Some(selector.into());
        self
    }

    /// Only objects whose labels match.
    #[must_use]
    pub fn labels_from(self, selector: &kube_core::Selector) -> Self {
        self.labels(&selector.to_string())
    }

    /// Only objects whose fields match.
    #[must_use]
    pub fn fields(mut self, selector: &str) -> Self {
        self.field_selector = Some(selector.into());
        self
    }

    /// This function has no effect: the host resumes from any version that the API server still has.
    #[must_use]
    pub fn any_semantic(self) -> Self {
        self
    }

    /// This function has no effect: the host streams lists where the API server supports it.
    #[must_use]
    pub fn streaming_lists(self) -> Self {
        self
    }
}
