//! IP addresses, and ranges of them in CIDR notation, as Kubernetes parses them.

use std::net::{IpAddr, Ipv4Addr};

/// Parses a range such as `10.244.0.0/16` or `fd00::/64` into its address and the length of its prefix. As in
/// Kubernetes, the parts of an IPv4 address may have leading zeros. The address may have bits beyond the prefix.
///
/// ```
/// assert_eq!(
///     flyball_types::cidr("010.1.2.3/08"),
///     Some(([10, 1, 2, 3].into(), 8)),
/// );
/// assert_eq!(flyball_types::cidr("10.1.2.3"), None);
/// ```
pub fn cidr(text: &str) -> Option<(IpAddr, u8)> {
    let (address, prefix) = text.split_once('/')?;
    let address = match address.contains(':') {
        true => IpAddr::V6(address.parse().ok()?),
        false => IpAddr::V4(ipv4(address)?),
    };
    let longest = if address.is_ipv4() { 32 } else { 128 };
    let prefix = number(prefix).filter(|prefix| *prefix <= longest)?;
    Some((address, prefix))
}

/// Parses an IPv4 address. As in Kubernetes, its parts may have leading zeros.
pub fn ipv4(text: &str) -> Option<Ipv4Addr> {
    let parts: Option<Vec<u8>> = text.split('.').map(number).collect();
    <[u8; 4]>::try_from(parts?).ok().map(Ipv4Addr::from)
}

/// Digits alone: `parse` would also accept a sign.
fn number(text: &str) -> Option<u8> {
    let is_number = text.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| text.parse().ok())?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_of_both_families_are_parsed() {
        for (text, expected) in [
            ("10.244.0.0/16", "10.244.0.0 16"),
            ("0.0.0.0/0", "0.0.0.0 0"),
            ("010.001.000.009/032", "10.1.0.9 32"),
            ("fd00:1::5/64", "fd00:1::5 64"),
            ("::/128", ":: 128"),
        ] {
            let (address, prefix) = cidr(text).unwrap();
            assert_eq!(format!("{address} {prefix}"), expected);
        }
    }

    #[test]
    fn other_texts_are_no_ranges() {
        for text in [
            "",
            "10.0.0.0",
            "10.0.0.0/",
            "/8",
            "10.0.0/8",
            "10.0.0.0.0/8",
            "10.0.0.256/8",
            "10.0.0.+1/8",
            "10.0.0.0/33",
            "10.0.0.0/-1",
            "10.0.0.0/8/8",
            " 10.0.0.0/8",
            "fd00::/129",
            "fd00::%eth0/64",
            "fd00:::/64",
        ] {
            assert_eq!(cidr(text), None, "{text}");
        }
    }
}
