//! Suggestions for misspelt names.

/// Returns the name that is most similar to `name`, or none if no name is similar enough to be a misspelling.
///
/// ```
/// use flyball_types::nearest::nearest;
///
/// assert_eq!(nearest("kubeconfg", ["kubeconfig", "master"]), Some("kubeconfig"));
/// assert_eq!(nearest("elephant", ["kubeconfig", "master"]), None);
/// ```
pub fn nearest<'a>(name: &str, names: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let similarity = |other: &str| strsim::jaro_winkler(name, other);
    names
        .into_iter()
        .map(|other| (similarity(other), other))
        .filter(|(similarity, _)| *similarity > 0.8)
        .max_by(|(a, _), (b, _)| a.total_cmp(b))
        .map(|(_, other)| other)
}

/// Replaces the list of expected names in serde's message about an unknown field or variant by the nearest one. Returns
/// every other message unchanged.
///
/// ```
/// use flyball_types::nearest::with_nearest;
///
/// let message = "unknown field `knid`, expected one of `kind`, `path`";
/// assert_eq!(with_nearest(message), "unknown field `knid`: did you mean `kind`?");
/// ```
pub fn with_nearest(message: &str) -> String {
    let suggestion = || {
        let (problem, expected) = message.split_once(", expected ")?;
        let is_unknown = |what| problem.strip_prefix(what)?.strip_suffix('`');
        let name = is_unknown("unknown field `").or_else(|| is_unknown("unknown variant `"))?;
        // The names are between backticks: every second part is one.
        let near = nearest(name, expected.split('`').skip(1).step_by(2))?;
        Some(format!("{problem}: did you mean `{near}`?"))
    };
    suggestion().unwrap_or_else(|| message.to_owned())
}
