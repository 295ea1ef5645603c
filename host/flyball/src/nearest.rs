//! The name that someone may have meant.

/// The nearest of the names; none if none is near enough to be meant.
pub(crate) fn nearest<'a>(name: &str, names: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let similarity = |other: &str| strsim::jaro_winkler(name, other);
    names
        .into_iter()
        .map(|other| (similarity(other), other))
        .filter(|(similarity, _)| *similarity > 0.8)
        .max_by(|(a, _), (b, _)| a.total_cmp(b))
        .map(|(_, other)| other)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slip_is_near_and_another_word_is_not() {
        assert_eq!(
            nearest("kubeconfg", ["kubeconfig", "master"]),
            Some("kubeconfig")
        );
        assert_eq!(nearest("elephant", ["kubeconfig", "master"]), None);
    }
}
