//! Resource versions.

use crate::version::Version;

#[test]
fn versions_are_compared_as_numbers_of_any_length() {
    let version = |text| Version::parse(text).unwrap();
    assert!(version("9") < version("10"));
    assert!(version("100") > version("99"));
    assert_eq!(version("42"), version("42"));
    assert!(version("99999999999999999999999999") < version("100000000000000000000000000"));
}

#[test]
fn other_texts_are_not_well_formed() {
    for text in ["", "0", "01", "-1", "1a", " 1", "1.0"] {
        assert_eq!(
            Version::parse(text).unwrap_err(),
            format!("resource version is not well formed: {text}")
        );
    }
}
