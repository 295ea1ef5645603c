//! Refuses requests that another site caused in the user's browser.
//!
//! A browser sends cookies with requests that any page causes, and a page may name a server of its own that later
//! resolves to this one (DNS rebinding). The headers that say so can't be set by a page's code.

use http::header::{HOST, HeaderName, ORIGIN};
use http::{HeaderMap, Uri};

/// Says which site caused a request. Browsers send it to HTTPS and to loopback addresses.
const SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// Why a request is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Foreign {
    /// The request was for another server, or for this one by another name.
    #[error(
        "this server is {expected}, and the request is for {found:?}: open http://{expected}/dashboard/"
    )]
    Host { expected: String, found: String },
    /// A page of another origin caused the request.
    #[error("a page of another origin asked for this: only the dashboard's own page may")]
    Origin,
}

/// Fails if the request is not for this server. An HTTP/2 request has the name in its URI.
pub(crate) fn check_host(uri: &Uri, headers: &HeaderMap, own: &str) -> Result<(), Foreign> {
    match host(uri, headers) {
        Some(host) if host == own => Ok(()),
        found => Err(Foreign::Host {
            expected: own.to_owned(),
            found: found.unwrap_or_default().to_owned(),
        }),
    }
}

/// Fails if a page of another origin caused the request. Clients that are no browsers send neither header.
pub(crate) fn check_origin(uri: &Uri, headers: &HeaderMap, scheme: &str) -> Result<(), Foreign> {
    // `none` is the user's own doing, such as an address that they typed.
    let mut sites = headers.get_all(SITE).iter();
    if !sites.all(|site| site == "same-origin" || site == "none") {
        return Err(Foreign::Origin);
    }
    let own = host(uri, headers).map(|host| format!("{scheme}://{host}"));
    let mut origins = headers.get_all(ORIGIN).iter();
    match origins.all(|origin| own.as_ref().is_some_and(|own| origin == own.as_str())) {
        true => Ok(()),
        false => Err(Foreign::Origin),
    }
}

fn host<'a>(uri: &'a Uri, headers: &'a HeaderMap) -> Option<&'a str> {
    let mut named = headers.get_all(HOST).iter();
    let first = named.next().and_then(|host| host.to_str().ok());
    match (first, named.next()) {
        (None, _) => uri.authority().map(http::uri::Authority::as_str),
        (first, None) => first,
        // Two names: one of them may be another server's.
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    const OWN: &str = "127.0.0.1:4000";

    fn headers(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in pairs {
            headers.append(*name, HeaderValue::from_static(value));
        }
        headers
    }

    #[test]
    fn a_server_has_one_name() {
        let uri = Uri::from_static("/dashboard/");
        let check = |pairs: &[_]| check_host(&uri, &headers(pairs), OWN);
        assert_eq!(check(&[("host", OWN)]), Ok(()));
        for other in [
            &[("host", "evil.example:4000")][..],
            &[("host", "localhost:4000")],
            &[("host", "127.0.0.1")],
            &[("host", "127.0.0.1:4001")],
            &[("host", OWN), ("host", "evil.example")],
            &[],
        ] {
            assert!(check(other).is_err(), "{other:?}");
        }
        let absolute = Uri::from_static("http://127.0.0.1:4000/dashboard/");
        assert_eq!(check_host(&absolute, &headers(&[]), OWN), Ok(()));
    }

    #[test]
    fn only_the_own_page_or_the_user_causes_requests() {
        let uri = Uri::from_static("/dashboard/api/stream");
        let check = |pairs: &[_]| check_origin(&uri, &headers(pairs), "http");
        for own in [
            &[("host", OWN)][..],
            &[("host", OWN), ("origin", "http://127.0.0.1:4000")],
            &[("host", OWN), ("sec-fetch-site", "same-origin")],
            &[("host", OWN), ("sec-fetch-site", "none")],
        ] {
            assert_eq!(check(own), Ok(()), "{own:?}");
        }
        for other in [
            &[("host", OWN), ("origin", "https://evil.example")][..],
            &[("host", OWN), ("origin", "http://127.0.0.1:4001")],
            &[("host", OWN), ("origin", "https://127.0.0.1:4000")],
            &[("host", OWN), ("origin", "null")],
            &[("host", OWN), ("sec-fetch-site", "cross-site")],
            &[("host", OWN), ("sec-fetch-site", "same-site")],
            &[("origin", "http://127.0.0.1:4000")],
        ] {
            assert_eq!(check(other), Err(Foreign::Origin), "{other:?}");
        }
    }
}
