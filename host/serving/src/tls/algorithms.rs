//! The cipher suites and key exchanges of the server, as Go's names and numbers choose them.

use tokio_rustls::rustls::crypto::{CryptoProvider, ring};
use tokio_rustls::rustls::{CipherSuite, NamedGroup};

/// The suites of TLS 1.2 and before that Go 1.26 knows.
const SUITES: [&str; 23] = [
    "TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA",
    "TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA256",
    "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256",
    "TLS_ECDHE_ECDSA_WITH_AES_256_CBC_SHA",
    "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384",
    "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305",
    "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256",
    "TLS_ECDHE_ECDSA_WITH_RC4_128_SHA",
    "TLS_ECDHE_RSA_WITH_3DES_EDE_CBC_SHA",
    "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA",
    "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA256",
    "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256",
    "TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA",
    "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384",
    "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305",
    "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256",
    "TLS_ECDHE_RSA_WITH_RC4_128_SHA",
    "TLS_RSA_WITH_3DES_EDE_CBC_SHA",
    "TLS_RSA_WITH_AES_128_CBC_SHA",
    "TLS_RSA_WITH_AES_128_CBC_SHA256",
    "TLS_RSA_WITH_AES_128_GCM_SHA256",
    "TLS_RSA_WITH_AES_256_CBC_SHA",
    "TLS_RSA_WITH_AES_256_GCM_SHA384",
];
/// The suites of TLS 1.3, which are always on, as in Go.
const SUITES_13: [&str; 3] = [
    "TLS_AES_128_GCM_SHA256",
    "TLS_AES_256_GCM_SHA384",
    "TLS_CHACHA20_POLY1305_SHA256",
];
/// HTTP/2 over TLS 1.2 needs one of these (RFC 7540, 9.2.2).
const HTTP2: [&str; 2] = [
    "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256",
    "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256",
];
/// The key exchanges that Go 1.26 knows: its number and the name.
const CURVES: [(i64, &str); 7] = [
    (23, "CurveP256"),
    (24, "CurveP384"),
    (25, "CurveP521"),
    (29, "X25519"),
    (4587, "SecP256r1MLKEM768"),
    (4588, "X25519MLKEM768"),
    (4589, "SecP384r1MLKEM1024"),
];

/// The cipher suites and key exchanges; by default all that are supported.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Algorithms {
    /// Cipher suites for TLS 1.2. The suites of TLS 1.3 can't be configured, as in Go.
    suites: Option<Vec<CipherSuite>>,
    groups: Option<Vec<NamedGroup>>,
}

/// A value that Go knows and this server does not support.
pub type Unsupported = String;

impl Algorithms {
    /// Chooses the suites of TLS 1.2 with these names, as in Go's `crypto/tls`; all if there are none. Returns those
    /// that are not supported.
    ///
    /// # Errors
    /// Go knows no suite of a name, or HTTP/2 can't be served with these. The words are Kubernetes'.
    pub fn choose_suites(
        &mut self,
        names: &[String],
        http2: bool,
        tls13_only: bool,
    ) -> Result<Vec<Unsupported>, String> {
        if names.is_empty() {
            return Ok(Vec::new());
        }
        let (mut chosen, mut unsupported) = (Vec::new(), Vec::new());
        for name in names {
            if SUITES_13.contains(&name.as_str()) {
                continue;
            }
            if !SUITES.contains(&name.as_str()) {
                return Err(format!(
                    "Cipher suite {name} not supported or doesn't exist"
                ));
            }
            let full = match name.strip_suffix("_POLY1305") {
                Some(_) => format!("{name}_SHA256"),
                None => name.clone(),
            };
            let supported = ring::default_provider().cipher_suites;
            let found = supported
                .iter()
                .map(|suite| suite.suite())
                .find(|suite| format!("{suite:?}") == full);
            match found {
                Some(suite) => chosen.push(suite),
                None => unsupported.push(name.clone()),
            }
        }
        let serves_http2 = names.iter().any(|name| HTTP2.contains(&name.as_str()));
        if http2 && !tls13_only && !serves_http2 {
            return Err(format!(
                "error configuring http2: http2: TLSConfig.CipherSuites is missing an HTTP/2-required AES_128_GCM_SHA256 \
                 cipher (need at least one of {} or {})",
                HTTP2[0], HTTP2[1]
            ));
        }
        self.suites = Some(chosen);
        Ok(unsupported)
    }

    /// Chooses the key exchanges with these numbers of Go's `crypto/tls`; all if there are none. Returns the names of
    /// those that are not supported.
    ///
    /// # Errors
    /// A number is out of range, occurs twice or is unknown to Go, or none is supported.
    pub fn choose_curves(&mut self, numbers: &[i64]) -> Result<Vec<Unsupported>, String> {
        if numbers.is_empty() {
            return Ok(Vec::new());
        }
        let (mut chosen, mut unsupported) = (Vec::new(), Vec::new());
        for (at, number) in numbers.iter().enumerate() {
            if !(1..=i64::from(u16::MAX)).contains(number) {
                return Err(format!(
                    "curve preference {number} is out of range (must be 1-{})",
                    u16::MAX
                ));
            }
            if numbers[..at].contains(number) {
                return Err(format!("duplicate curve preference {number}"));
            }
            let Some((_, name)) = CURVES.iter().find(|(known, _)| known == number) else {
                return Err(format!(
                    "curve preference {number} is not supported by the current Go version"
                ));
            };
            let group = NamedGroup::from(*number as u16);
            let supported = ring::default_provider().kx_groups;
            match supported.iter().any(|known| known.name() == group) {
                true => chosen.push(group),
                false => unsupported.push((*name).to_owned()),
            }
        }
        if chosen.is_empty() {
            return Err(format!(
                "Flyball supports none of {}: add 23 (CurveP256), 24 (CurveP384) or 29 (X25519)",
                unsupported.join(", ")
            ));
        }
        self.groups = Some(chosen);
        Ok(unsupported)
    }

    pub(super) fn provider(&self) -> CryptoProvider {
        let mut provider = ring::default_provider();
        if let Some(suites) = &self.suites {
            provider
                .cipher_suites
                .retain(|suite| suite.tls13().is_some() || suites.contains(&suite.suite()));
        }
        if let Some(groups) = &self.groups {
            provider
                .kx_groups
                .retain(|group| groups.contains(&group.name()));
        }
        provider
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn suites(names: &[&str]) -> Result<(Vec<String>, Vec<Unsupported>), String> {
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let mut algorithms = Algorithms::default();
        let unsupported = algorithms.choose_suites(&names, true, false)?;
        let provider = algorithms.provider();
        let of_tls12 = provider
            .cipher_suites
            .iter()
            .filter(|suite| suite.tls13().is_none());
        Ok((
            of_tls12
                .map(|suite| format!("{:?}", suite.suite()))
                .collect(),
            unsupported,
        ))
    }

    #[test]
    fn the_suites_of_tls_1_2_are_those_that_are_named() {
        assert_eq!(suites(&[]).unwrap().0.len(), 6);
        let (chosen, unsupported) = suites(&[
            "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305",
            "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256",
            "TLS_RSA_WITH_AES_128_CBC_SHA",
            "TLS_AES_128_GCM_SHA256",
        ])
        .unwrap();
        assert_eq!(
            chosen,
            [
                "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256",
                "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256"
            ]
        );
        assert_eq!(unsupported, ["TLS_RSA_WITH_AES_128_CBC_SHA"]);
    }

    #[test]
    fn an_unknown_suite_is_refused_in_the_words_of_kubernetes() {
        assert_eq!(
            suites(&["TLS_NULL"]).unwrap_err(),
            "Cipher suite TLS_NULL not supported or doesn't exist"
        );
        let error = suites(&["TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384"]).unwrap_err();
        assert!(error.contains("missing an HTTP/2-required"), "{error}");
        let only = ["TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384".to_owned()];
        for (http2, tls13_only) in [(false, false), (true, true)] {
            let chosen = Algorithms::default().choose_suites(&only, http2, tls13_only);
            assert_eq!(chosen, Ok(vec![]));
        }
    }

    #[test]
    fn key_exchanges_are_chosen_by_their_numbers() {
        let mut algorithms = Algorithms::default();
        let unsupported = algorithms.choose_curves(&[4588, 24, 23]).unwrap();
        assert_eq!(unsupported, ["X25519MLKEM768"]);
        let groups = algorithms.provider().kx_groups;
        let names: Vec<NamedGroup> = groups.iter().map(|group| group.name()).collect();
        assert_eq!(names, [NamedGroup::secp256r1, NamedGroup::secp384r1]);
        let refused = |numbers: &[i64]| Algorithms::default().choose_curves(numbers).unwrap_err();
        assert_eq!(
            refused(&[0]),
            "curve preference 0 is out of range (must be 1-65535)"
        );
        assert_eq!(refused(&[23, 23]), "duplicate curve preference 23");
        assert_eq!(
            refused(&[26]),
            "curve preference 26 is not supported by the current Go version"
        );
        assert!(refused(&[25]).contains("supports none of CurveP521"));
    }
}
