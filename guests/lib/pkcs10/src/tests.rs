//! Requests of OpenSSL, read as Go reads them.

use super::*;

macro_rules! file {
    ($name:literal) => {
        include_str!(concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/testdata/",
            $name,
            ".pem"
        ))
    };
}

fn parsed(pem: &str) -> Requested {
    Requested::parse(&base64::encode(pem.as_bytes())).expect("it is a request")
}

#[test]
fn all_attributes_that_go_keeps_are_read_and_grouped_in_its_order() {
    let subject = parsed(file!("user")).subject;
    assert_eq!(subject.countries, ["DE", "FR"]);
    assert_eq!(subject.organizations, ["ops", "dev"]);
    assert_eq!(subject.common_name, "jäne", "the last one counts");
    let names = subject.relative_names();
    let names: Vec<String> = names
        .iter()
        .map(|attributes| {
            let one = |one: &Attribute| format!("{}={}", one.oid, one.value);
            attributes.iter().map(one).collect::<Vec<_>>().join("+")
        })
        .collect();
    assert_eq!(
        names,
        [
            "2.5.4.6=DE+2.5.4.6=FR",
            "2.5.4.8=Berlin",
            "2.5.4.7=Mitte",
            "2.5.4.9=Allee 1",
            "2.5.4.17=10115",
            "2.5.4.10=ops+2.5.4.10=dev",
            "2.5.4.11=a+2.5.4.11=b",
            "2.5.4.3=jäne",
            "2.5.4.5=7",
        ]
    );
}

#[test]
fn the_kinds_of_names_that_go_keeps_are_read() {
    let requested = parsed(file!("names"));
    assert_eq!(requested.dns_names, ["a"]);
    assert_eq!(requested.email_addresses, ["a@example.com"]);
    assert_eq!(requested.uris, ["spiffe://example.com/a"]);
    assert_eq!(requested.ip_addresses, ["::ffff:10.0.0.2"]);
    assert!(requested.has_alternative_names());
}

#[test]
fn a_name_of_any_of_these_kinds_is_an_alternative_name() {
    let node = parsed(file!("node"));
    assert_eq!(node.subject.organizations, ["system:nodes"]);
    assert_eq!(node.subject.common_name, "system:node:a");
    assert!(!node.has_alternative_names());
    for named in [file!("dns"), file!("ip"), file!("email"), file!("uri")] {
        let named = parsed(named);
        assert_eq!(named.subject, node.subject);
        assert!(named.has_alternative_names());
    }
}

/// An object identifier as an alternative name, and both parts of the subject in one set.
#[test]
fn names_of_other_kinds_and_the_grouping_of_the_subject_do_not_count() {
    for same in [file!("unusual"), file!("multi")] {
        let same = parsed(same);
        assert_eq!(same.subject, parsed(file!("node")).subject);
        assert!(!same.has_alternative_names());
    }
}

#[test]
fn all_organizations_and_the_last_common_name_count() {
    let masters = parsed(file!("masters")).subject;
    assert_eq!(masters.organizations, ["system:nodes", "system:masters"]);
    assert_eq!(parsed(file!("two")).subject.common_name, "system:node:a");
}

#[test]
fn what_is_no_request_is_an_error() {
    let parse = |text: &str| Requested::parse(&base64::encode(text.as_bytes())).unwrap_err();
    assert_eq!(Requested::parse("-").unwrap_err(), "it is not base64");
    parse("node");
    assert_eq!(
        parse(&file!("node").replace("CERTIFICATE REQUEST", "CERTIFICATE")),
        "PEM block type must be CERTIFICATE REQUEST"
    );
    parse("-----BEGIN CERTIFICATE REQUEST-----\nAAAA\n-----END CERTIFICATE REQUEST-----\n");
}

#[test]
fn an_empty_subject_has_no_names() {
    let requested = parsed(file!("empty"));
    assert_eq!(requested.subject, Subject::default());
    assert!(!requested.has_alternative_names());
    assert!(requested.subject.relative_names().is_empty());
}

/// The text has two bytes for the letter, which Latin-1 reads as two letters.
#[test]
fn teletex_strings_are_read_as_latin_1() {
    assert_eq!(parsed(file!("latin")).subject.common_name, "JÃ¶hn");
}

#[test]
fn the_terminator_of_a_bmp_string_is_left_out() {
    for (bytes, expected) in [
        (&[0, b'a', 0, b'b'][..], "ab"),
        (&[0, b'a', 0, b'b', 0, 0], "ab"),
        (&[0, b'a', 0, 0, 0, 0], "a\0"),
        // A letter whose low byte is zero isn't one.
        (&[1, 0], "\u{100}"),
        (&[0, 0], ""),
    ] {
        let value = AnyRef::new(Tag::BmpString, bytes).unwrap();
        assert_eq!(text(value).as_deref(), Some(expected));
    }
}

#[test]
fn text_around_the_pem_and_other_line_ends_are_ignored() {
    let around = format!("a request:\r\n{}\nbye", file!("user").replace('\n', "\r\n"));
    assert_eq!(parsed(&around), parsed(file!("user")));
}

#[test]
fn no_truncated_or_altered_request_panics() {
    for pem in [file!("user"), file!("names"), file!("latin")] {
        let der = pem::parse(pem).unwrap().into_contents();
        let read = |der: &[u8]| {
            let block = pem::Pem::new("CERTIFICATE REQUEST", der);
            Requested::parse(&base64::encode(pem::encode(&block).as_bytes()))
        };
        assert!(read(&der).is_ok());
        for end in 0..der.len() {
            assert!(read(&der[..end]).is_err());
        }
        for at in 0..der.len() {
            for bit in [0, 5, 7] {
                let mut changed = der.clone();
                changed[at] ^= 1 << bit;
                let _ = read(&changed);
            }
        }
    }
}
