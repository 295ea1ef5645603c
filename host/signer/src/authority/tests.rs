//! Authorities in files that change.

use std::fs;

use tempfile::TempDir;

use super::*;

macro_rules! pair {
    ($name:literal) => {
        (
            &include_bytes!(concat!("../../testdata/authorities/", $name, ".crt"))[..],
            &include_bytes!(concat!("../../testdata/keys/", $name, ".pem"))[..],
        )
    };
}

/// The files of an authority.
struct Home {
    folder: TempDir,
}

impl Home {
    fn new((certificate, key): (&[u8], &[u8])) -> Self {
        let home = Self {
            folder: tempfile::tempdir().unwrap(),
        };
        home.write(Some(certificate), Some(key));
        home
    }

    fn write(&self, certificate: Option<&[u8]>, key: Option<&[u8]>) {
        let [certificate_file, key_file] = self.files();
        if let Some(certificate) = certificate {
            fs::write(certificate_file, certificate).unwrap();
        }
        if let Some(key) = key {
            fs::write(key_file, key).unwrap();
        }
    }

    fn files(&self) -> [PathBuf; 2] {
        ["ca.crt", "ca.key"].map(|name| self.folder.path().join(name))
    }

    fn open(&self) -> Result<Authority, AuthorityError> {
        let [certificate, key] = self.files();
        Authority::open(&certificate, &key)
    }
}

fn name(authority: &Authority) -> String {
    authority.issuer().name.to_string()
}

#[test]
fn a_pair_of_each_algorithm_is_an_authority() {
    for (pair, name) in [
        (pair!("rsa"), "rsa"),
        (pair!("p256"), "p256"),
        (pair!("p384"), "p384"),
        (pair!("p521"), "p521"),
    ] {
        let issuer = Home::new(pair).open().unwrap().issuer();
        assert!(
            issuer
                .name
                .to_string()
                .contains(&format!("CN=authority {name}"))
        );
        assert_eq!(issuer.key_id.as_ref().unwrap().len(), 20);
        assert!(issuer.not_after > SystemTime::now());
        assert!(pem::parse(pair.0).unwrap().contents() == issuer.certificate);
    }
}

#[test]
fn files_that_hold_no_authority_are_refused_with_the_file_and_the_reason() {
    let (rsa, p256) = (pair!("rsa"), pair!("p256"));
    let two = [rsa.0, p256.0].concat();
    let der = pem::parse(rsa.0).unwrap().contents().to_vec();
    let torn = pem::encode(&pem::Pem::new("CERTIFICATE", &der[..der.len() / 2]));
    for (pair, expected) in [
        (
            (&b""[..], rsa.1),
            "ca.crt must hold one certificate, and holds 0",
        ),
        (
            (&two, rsa.1),
            "ca.crt must hold one certificate, and holds 2",
        ),
        ((torn.as_bytes(), rsa.1), "ca.crt is not valid"),
        ((rsa.0, p256.1), "is not that of the certificate in"),
        (
            (rsa.0, b""),
            "ca.key can't sign: it holds no RSA or EC private key",
        ),
        (
            (rsa.1, rsa.0),
            "ca.crt must hold one certificate, and holds 0",
        ),
    ] {
        let error = with_source(&Home::new(pair).open().err().unwrap());
        assert!(error.contains(expected), "{error}");
    }
    let home = Home::new(rsa);
    fs::remove_file(&home.files()[1]).unwrap();
    let error = with_source(&home.open().err().unwrap());
    assert!(
        error.contains("can't read") && error.contains("ca.key"),
        "{error}"
    );
}

#[test]
fn changed_files_are_used_once_they_fit_each_other() {
    let (rsa, p256) = (pair!("rsa"), pair!("p256"));
    let home = Home::new(rsa);
    let authority = home.open().unwrap();
    assert!(name(&authority).contains("authority rsa"));
    home.write(Some(p256.0), None);
    assert!(
        name(&authority).contains("authority rsa"),
        "half a rotation"
    );
    assert!(authority.current.lock().refused.is_some());
    home.write(None, Some(b"-----BEGIN"));
    assert!(name(&authority).contains("authority rsa"), "half a file");
    home.write(None, Some(p256.1));
    assert!(name(&authority).contains("authority p256"));
    assert_eq!(authority.current.lock().refused, None);
    fs::remove_file(&home.files()[0]).unwrap();
    assert!(name(&authority).contains("authority p256"), "no file");
    home.write(Some(rsa.0), Some(rsa.1));
    assert!(name(&authority).contains("authority rsa"));
}
