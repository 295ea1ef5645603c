//! The servers that a plugin may send requests to over `wasi:http`, and the addresses that they may have. A name is not
//! enough: the owner of its DNS zone could direct a request to a service of the host's own network, such as the
//! metadata service of a cloud.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use flyball_types::ApiError;
use ipnet::{IpNet, Ipv4Net, Ipv6Net};
use serde::de::value::MapAccessDeserializer;
use serde::de::{Error, MapAccess, Visitor};
use serde::ser::SerializeMap;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::PluginPolicy;

/// A server that a plugin may send requests to. In a policy, either is valid:
///
/// - `"example.com"`, `"http://example.com:8080"` or `"10.1.2.3"`: a name allows only public addresses of the server,
///   an address allows this address.
/// - `{ host = "vault.internal", addresses = ["10.1.0.0/16", "fd00::1"] }`: the server may have these addresses and no
///   other.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct HttpHost {
    /// The server, as in `example.com` or `http://example.com:8080`.
    pub host: String,
    /// The networks of its addresses. If empty, a name allows public addresses, and an address allows itself.
    pub addresses: Vec<IpNet>,
}

/// The addresses of a server that a connection may be made to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reach {
    /// The server, as in `https://example.com:443`.
    server: String,
    /// Whether all public addresses are allowed.
    public: bool,
    networks: Vec<IpNet>,
}

impl PluginPolicy {
    /// Fails with `Denied` if the plugin may not send requests to this server, named as in `https://example.com:443`.
    pub fn check_server(&self, server: &str) -> Result<Reach, ApiError> {
        let mut granted = self
            .http_hosts
            .iter()
            .filter(|host| host.server().as_deref() == Some(server))
            .peekable();
        if granted.peek().is_none() {
            return Err(ApiError::denied(format!(
                "the policy does not let this plugin send requests to {server}"
            )));
        }
        let mut reach = Reach {
            server: server.to_owned(),
            public: false,
            networks: Vec::new(),
        };
        for host in granted {
            match host.literal() {
                Some(address) => reach.networks.push(address.into()),
                None if host.addresses.is_empty() => reach.public = true,
                None => reach.networks.extend(&host.addresses),
            }
        }
        Ok(reach)
    }
}

impl HttpHost {
    /// The server with its scheme and port, as in `https://example.com:443`; none if it is not valid.
    fn server(&self) -> Option<String> {
        let (scheme, authority) = self.authority()?;
        let usual = if scheme == "http" { 80 } else { 443 };
        Some(format!(
            "{scheme}://{}:{}",
            authority.host().to_ascii_lowercase(),
            authority.port_u16().unwrap_or(usual)
        ))
    }

    /// The address, if the host is an address and not a name.
    fn literal(&self) -> Option<IpAddr> {
        let (_, authority) = self.authority()?;
        let host = authority.host().trim_matches(['[', ']']);
        host.parse()
            .ok()
            .map(|address: IpAddr| address.to_canonical())
    }

    fn authority(&self) -> Option<(&str, http::uri::Authority)> {
        let (scheme, rest) = self.host.split_once("://").unwrap_or(("https", &self.host));
        let authority: http::uri::Authority = rest.parse().ok()?;
        let is_valid = matches!(scheme, "http" | "https")
            && !authority.host().is_empty()
            && !authority.as_str().contains('@');
        is_valid.then_some((scheme, authority))
    }

    /// Fails with a sentence about what is not valid.
    pub(super) fn validate(&self) -> Result<(), String> {
        let host = &self.host;
        if self.server().is_none() {
            return Err(format!(
                "`{host}` is not a server: write `example.com`, `example.com:8443` or `http://example.com`"
            ));
        }
        if self.literal().is_some() && !self.addresses.is_empty() {
            return Err(format!(
                "`{host}` is an address: remove `addresses`, which are about a name"
            ));
        }
        Ok(())
    }
}

impl Reach {
    /// Returns the server's addresses that a connection may be made to. Fails with `Denied` if there are none.
    pub fn check(&self, addresses: Vec<SocketAddr>) -> Result<Vec<SocketAddr>, ApiError> {
        let (allowed, denied): (Vec<_>, Vec<_>) = addresses
            .into_iter()
            .partition(|address| self.allows(address.ip()));
        match denied.first() {
            Some(address) if allowed.is_empty() => Err(ApiError::denied(format!(
                "the policy does not let this plugin send requests to {}, an address of {}: name the networks that the \
                 server may be in, as in `http-hosts = [{{ host = \"…\", addresses = [\"10.1.0.0/16\"] }}]`",
                address.ip(),
                self.server
            ))),
            _ => Ok(allowed),
        }
    }

    fn allows(&self, address: IpAddr) -> bool {
        let address = address.to_canonical();
        (self.public && is_public(address))
            || self
                .networks
                .iter()
                .any(|network| network.contains(&address))
    }
}

/// Networks of IPv4 that are not part of the public Internet: IANA's registry of special-purpose addresses, multicast,
/// and addresses that clouds use for themselves.
const SPECIAL_V4: [Ipv4Net; 16] = [
    // This host.
    Ipv4Net::new_assert(Ipv4Addr::new(0, 0, 0, 0), 8),
    Ipv4Net::new_assert(Ipv4Addr::new(10, 0, 0, 0), 8),
    // Between a provider and its customers (CGNAT): the metadata service of Alibaba Cloud.
    Ipv4Net::new_assert(Ipv4Addr::new(100, 64, 0, 0), 10),
    Ipv4Net::new_assert(Ipv4Addr::new(127, 0, 0, 0), 8),
    // Link-local: the metadata services of most clouds.
    Ipv4Net::new_assert(Ipv4Addr::new(169, 254, 0, 0), 16),
    // Azure's WireServer, which each virtual machine reaches although the address is a public one:
    // <https://learn.microsoft.com/azure/virtual-network/what-is-ip-address-168-63-129-16>
    Ipv4Net::new_assert(Ipv4Addr::new(168, 63, 129, 16), 32),
    Ipv4Net::new_assert(Ipv4Addr::new(172, 16, 0, 0), 12),
    // Protocols: the metadata service of Oracle Cloud.
    Ipv4Net::new_assert(Ipv4Addr::new(192, 0, 0, 0), 24),
    Ipv4Net::new_assert(Ipv4Addr::new(192, 0, 2, 0), 24),
    // Relays to 6to4.
    Ipv4Net::new_assert(Ipv4Addr::new(192, 88, 99, 0), 24),
    Ipv4Net::new_assert(Ipv4Addr::new(192, 168, 0, 0), 16),
    Ipv4Net::new_assert(Ipv4Addr::new(198, 18, 0, 0), 15),
    Ipv4Net::new_assert(Ipv4Addr::new(198, 51, 100, 0), 24),
    Ipv4Net::new_assert(Ipv4Addr::new(203, 0, 113, 0), 24),
    // Multicast, and the reserved range beyond it.
    Ipv4Net::new_assert(Ipv4Addr::new(224, 0, 0, 0), 4),
    Ipv4Net::new_assert(Ipv4Addr::new(240, 0, 0, 0), 4),
];
/// All public addresses of IPv6, except for [`SPECIAL_V6`].
const GLOBAL_UNICAST: Ipv6Net = Ipv6Net::new_assert(Ipv6Addr::new(0x2000, 0, 0, 0, 0, 0, 0, 0), 3);
/// Networks of IPv6 in [`GLOBAL_UNICAST`] that are not public.
const SPECIAL_V6: [Ipv6Net; 3] = [
    // Protocols, such as Teredo, whose addresses contain others.
    Ipv6Net::new_assert(Ipv6Addr::new(0x2001, 0, 0, 0, 0, 0, 0, 0), 23),
    // Documentation.
    Ipv6Net::new_assert(Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 0), 32),
    Ipv6Net::new_assert(Ipv6Addr::new(0x3fff, 0, 0, 0, 0, 0, 0, 0), 20),
];
/// NAT64: the last 32 bits are an address of IPv4.
const NAT64: Ipv6Net = Ipv6Net::new_assert(Ipv6Addr::new(0x64, 0xff9b, 0, 0, 0, 0, 0, 0), 96);
/// 6to4: the 32 bits after the prefix are an address of IPv4.
const SIX_TO_FOUR: Ipv6Net = Ipv6Net::new_assert(Ipv6Addr::new(0x2002, 0, 0, 0, 0, 0, 0, 0), 16);

/// Whether an address is part of the public Internet. The address must be canonical: not IPv4 mapped into IPv6.
fn is_public(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => !SPECIAL_V4.iter().any(|network| network.contains(&address)),
        IpAddr::V6(address) => {
            let [_, first, second, .., third, fourth] = address.segments();
            let inner = |high: u16, low: u16| {
                let bits = u32::from(high) << 16 | u32::from(low);
                is_public(Ipv4Addr::from_bits(bits).into())
            };
            if NAT64.contains(&address) {
                inner(third, fourth)
            } else if SIX_TO_FOUR.contains(&address) {
                inner(first, second)
            } else {
                GLOBAL_UNICAST.contains(&address)
                    && !SPECIAL_V6.iter().any(|network| network.contains(&address))
            }
        }
    }
}

impl Serialize for HttpHost {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if self.addresses.is_empty() {
            return serializer.serialize_str(&self.host);
        }
        let mut table = serializer.serialize_map(Some(2))?;
        table.serialize_entry("host", &self.host)?;
        let addresses: Vec<String> = self.addresses.iter().map(IpNet::to_string).collect();
        table.serialize_entry("addresses", &addresses)?;
        table.end()
    }
}

impl<'de> Deserialize<'de> for HttpHost {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(TextOrTable)
    }
}

struct TextOrTable;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Table {
    host: String,
    addresses: Vec<String>,
}

impl<'de> Visitor<'de> for TextOrTable {
    type Value = HttpHost;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a server, or a table with `host` and `addresses`")
    }

    fn visit_str<E: Error>(self, host: &str) -> Result<HttpHost, E> {
        Ok(HttpHost {
            host: host.to_owned(),
            addresses: Vec::new(),
        })
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<HttpHost, A::Error> {
        let Table { host, addresses } = Table::deserialize(MapAccessDeserializer::new(map))?;
        if addresses.is_empty() {
            return Err(A::Error::custom(
                "`addresses` is empty: name at least one network, or write only the server",
            ));
        }
        let parse = |text: &String| {
            network(text).ok_or_else(|| {
                A::Error::custom(format!(
                    "`{text}` is not a network: write `10.1.0.0/16` or `10.1.2.3`"
                ))
            })
        };
        Ok(HttpHost {
            host,
            addresses: addresses.iter().map(parse).collect::<Result<_, _>>()?,
        })
    }
}

/// A network, or a single address.
fn network(text: &str) -> Option<IpNet> {
    let single = || Some(text.parse::<IpAddr>().ok()?.to_canonical().into());
    text.parse().ok().or_else(single)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::Policy;

    fn parse(hosts: &str) -> Result<PluginPolicy, String> {
        let text = format!("[plugins.a]\nhttp-hosts = [{hosts}]");
        let policy = Policy::parse(Path::new("policy.toml"), &text);
        let mut policy = policy.map_err(|error| error.to_string())?;
        Ok(policy.plugins.remove("a").unwrap())
    }

    fn sockets(addresses: &[&str]) -> Vec<SocketAddr> {
        let socket = |text: &&str| SocketAddr::new(text.parse().unwrap(), 443);
        addresses.iter().map(socket).collect()
    }

    #[test]
    fn requests_go_to_the_servers_that_the_operator_names() {
        let policy =
            parse(r#""Example.com", "http://[::1]:8080", "https://other.com:8443""#).unwrap();
        for server in [
            "https://example.com:443",
            "http://[::1]:8080",
            "https://other.com:8443",
        ] {
            assert!(policy.check_server(server).is_ok(), "{server}");
        }
        for server in [
            "http://example.com:80",
            "https://example.com:8443",
            "https://other.com:443",
            "https://x.example.com:443",
        ] {
            let error = policy.check_server(server).unwrap_err();
            assert_eq!(error.reason, "Denied", "{server}");
        }
    }

    #[test]
    fn a_name_allows_only_public_addresses() {
        let policy = parse(r#""example.com""#).unwrap();
        let reach = policy.check_server("https://example.com:443").unwrap();
        for address in [
            "93.184.215.14",
            "100.63.0.1",
            "168.63.129.17",
            "172.32.0.1",
            "2606:4700::1111",
            "::ffff:93.184.215.14",
            "64:ff9b::5db8:d70e",
        ] {
            let sockets = sockets(&[address]);
            assert_eq!(reach.check(sockets.clone()).unwrap(), sockets, "{address}");
        }
        for address in [
            "0.0.0.0",
            "10.1.2.3",
            "100.64.0.1",
            "100.100.100.200",
            "127.0.0.1",
            "168.63.129.16",
            "::ffff:168.63.129.16",
            "64:ff9b::a83f:8110",
            "169.254.169.254",
            "172.16.0.1",
            "192.0.0.192",
            "192.168.1.1",
            "198.18.0.1",
            "224.0.0.1",
            "255.255.255.255",
            "::",
            "::1",
            "::7f00:1",
            "::ffff:10.1.2.3",
            "::ffff:169.254.169.254",
            "64:ff9b::a01:203",
            "64:ff9b:1::1",
            "2001::1",
            "2001:db8::1",
            "2002:a01:203::1",
            "fc00::1",
            "fd00:ec2::254",
            "fd20:ce::254",
            "fe80::1",
            "fec0::1",
            "ff02::1",
        ] {
            let error = reach.check(sockets(&[address])).unwrap_err();
            assert_eq!(error.reason, "Denied", "{address}");
        }
        let mixed = sockets(&["10.1.2.3", "93.184.215.14"]);
        assert_eq!(reach.check(mixed).unwrap(), sockets(&["93.184.215.14"]));
    }

    #[test]
    fn an_address_that_is_named_is_allowed_and_no_other() {
        for (host, server, address) in [
            (
                "http://127.0.0.1:8080",
                "http://127.0.0.1:8080",
                "127.0.0.1",
            ),
            ("[fd00::1]", "https://[fd00::1]:443", "fd00::1"),
            (
                "[::ffff:10.0.0.1]",
                "https://[::ffff:10.0.0.1]:443",
                "10.0.0.1",
            ),
        ] {
            let reach = parse(&format!("{host:?}")).unwrap();
            let reach = reach.check_server(server).unwrap();
            assert!(reach.check(sockets(&[address])).is_ok(), "{host}");
            assert!(reach.check(sockets(&["127.0.0.2"])).is_err(), "{host}");
            assert!(reach.check(sockets(&["93.184.215.14"])).is_err(), "{host}");
        }
    }

    #[test]
    fn a_name_with_addresses_allows_these_and_no_other() {
        let host =
            r#"{ host = "http://vault.internal:8200", addresses = ["10.1.0.0/16", "fd00::1"] }"#;
        let policy = parse(host).unwrap();
        let reach = policy.check_server("http://vault.internal:8200").unwrap();
        let inside = sockets(&["10.1.2.3", "::ffff:10.1.2.3", "fd00::1"]);
        assert_eq!(reach.check(inside.clone()).unwrap(), inside);
        for address in ["10.2.0.1", "fd00::2", "169.254.169.254", "93.184.215.14"] {
            let error = reach.check(sockets(&[address])).unwrap_err();
            for part in [address, "http://vault.internal:8200", "addresses = ["] {
                assert!(error.message.contains(part), "{error}");
            }
        }
        let both = parse(&format!("{host}, \"http://vault.internal:8200\"")).unwrap();
        let reach = both.check_server("http://vault.internal:8200").unwrap();
        assert!(reach.check(sockets(&["93.184.215.14"])).is_ok());
        assert!(reach.check(sockets(&["10.1.2.3"])).is_ok());
    }

    #[test]
    fn a_host_reads_back_as_it_was_written() {
        let hosts = r#""example.com", { host = "a.internal", addresses = ["10.0.0.0/8"] }"#;
        let policy = parse(hosts).unwrap();
        let written = serde_json::to_string(&policy).unwrap();
        assert_eq!(
            serde_json::from_str::<PluginPolicy>(&written).unwrap(),
            policy,
            "{written}"
        );
    }

    #[test]
    fn what_names_no_server_or_no_network_is_refused() {
        for (hosts, expected) in [
            (r#""""#, "is not a server"),
            (r#""ftp://example.com""#, "is not a server"),
            (r#""user@example.com""#, "is not a server"),
            (r#""example.com/path""#, "is not a server"),
            (r#""a b""#, "is not a server"),
            (r#"{ host = "a", addresses = [] }"#, "at least one network"),
            (
                r#"{ host = "a", addresses = ["x"] }"#,
                "`x` is not a network",
            ),
            (r#"{ host = "a" }"#, "addresses"),
            (r#"{ host = "a", address = "10.0.0.1" }"#, "address"),
            (
                r#"{ host = "10.0.0.1", addresses = ["10.0.0.2"] }"#,
                "is an address",
            ),
            ("1", "a server, or a table"),
        ] {
            let error = parse(hosts).unwrap_err();
            assert!(error.contains(expected), "{hosts}: {error}");
        }
    }
}
