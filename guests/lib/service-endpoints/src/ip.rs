//! IP addresses as Kubernetes accepts and writes them.

use std::borrow::Cow;
use std::net::{IpAddr, Ipv6Addr};

/// The families of addresses, as in `spec.ipFamilies` of a Service and `addressType` of an EndpointSlice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Family {
    V4,
    V6,
}

impl Family {
    pub const ALL: [Self; 2] = [Self::V4, Self::V6];

    /// Returns the family with this name in the API; `None` if the name is unknown.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|family| family.as_str() == name)
    }

    /// The name in the API.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::V4 => "IPv4",
            Self::V6 => "IPv6",
        }
    }

    pub fn of(address: IpAddr) -> Self {
        match address {
            IpAddr::V4(_) => Self::V4,
            IpAddr::V6(_) => Self::V6,
        }
    }
}

/// Parses an address; `None` if the text isn't an address. The numbers of an IPv4 address may have leading zeros. An
/// IPv4 address in IPv6 notation (`::ffff:10.0.0.1`) is an IPv4 address.
pub fn parse(text: &str) -> Option<IpAddr> {
    if text.contains(':') {
        let address: Ipv6Addr = text.parse().ok()?;
        return Some(
            address
                .to_ipv4_mapped()
                .map_or(IpAddr::V6(address), IpAddr::V4),
        );
    }
    flyball_sdk::ipv4(text).map(IpAddr::V4)
}

/// Returns the family and the canonical form of an address; `None` if the text isn't an address.
pub fn canonical(text: &str) -> Option<(Family, Cow<'_, str>)> {
    let address = parse(text)?;
    // Most texts are canonical already: IPv4 addresses without leading zeros are.
    let has_leading_zero = |number: &str| number.len() > 1 && number.starts_with('0');
    let is_canonical = !text.contains(':') && !text.split('.').any(has_leading_zero);
    let form = match is_canonical {
        true => text.into(),
        false => address.to_string().into(),
    };
    Some((Family::of(address), form))
}

/// Whether the text is an IPv6 address.
pub fn is_v6(text: &str) -> bool {
    parse(text).is_some_and(|address| address.is_ipv6())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_written_in_canonical_form() {
        for (text, canonical) in [
            ("10.0.0.1", Some("10.0.0.1")),
            ("0.0.0.0", Some("0.0.0.0")),
            ("010.00.000.001", Some("10.0.0.1")),
            ("fd00:0:0::1", Some("fd00::1")),
            ("FD00::00AB", Some("fd00::ab")),
            ("::ffff:10.0.0.1", Some("10.0.0.1")),
            ("::1.2.3.4", Some("::102:304")),
            ("10.0.0.256", None),
            ("10.0.0", None),
            ("10.0.0.1.2", None),
            ("10.0.0.+1", None),
            ("fd00::1%eth0", None),
            ("", None),
        ] {
            let form = super::canonical(text);
            let form = form.as_ref().map(|(_, form)| form.as_ref());
            assert_eq!(form, canonical, "{text}");
        }
    }

    #[test]
    fn an_embedded_ipv4_address_is_not_ipv6() {
        assert!(is_v6("fd00::1"));
        assert!(!is_v6("::ffff:10.0.0.1") && !is_v6("10.0.0.1") && !is_v6("None"));
        assert_eq!(Family::named("IPv6"), Some(Family::V6));
        assert_eq!(Family::named("IPv5"), None);
    }
}
