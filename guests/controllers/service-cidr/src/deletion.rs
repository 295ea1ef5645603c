//! Decides whether a ServiceCIDR may be deleted.
//!
//! It may be deleted if other ServiceCIDRs contain all of its ranges, or all addresses in it. The controller then waits
//! for a grace period, in which the API servers learn of the deletion and stop allocating addresses from it.
//!
//! Upstream: pkg/controller/servicecidrs/servicecidrs_controller.go: canDeleteCIDR, containingServiceCIDRs.
//! Upstream: pkg/api/servicecidr/servicecidr.go: ContainsPrefix, ContainsAddress, PrefixContainsIP, broadcastAddress.

use std::net::IpAddr;
use std::time::Duration;

use flyball_sdk::prelude::*;
use ipnet::IpNet;

use crate::ServiceCidr;

/// Selects the addresses that API servers have allocated.
pub const MANAGED: &str = "ipaddress.kubernetes.io/managed-by=ipallocator.k8s.io";
/// The time from the request of the deletion until the finalizer is removed.
const GRACE: Duration = Duration::from_secs(10);

/// An address that a Service has. Its name is the address.
#[derive(View, Clone, Debug, Default)]
#[view(kind = "networking.k8s.io/v1/IPAddress")]
pub struct IpAddress {
    #[view(path = "metadata.name")]
    pub address: String,
}

/// When a ServiceCIDR may be deleted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Deletion {
    /// Addresses still need the ServiceCIDR.
    Blocked,
    /// The ServiceCIDR may be deleted after this time.
    In(Duration),
    Now,
}

/// Decides about a ServiceCIDR that is being deleted.
///
/// # Errors
/// The ServiceCIDRs or the addresses can't be read.
pub fn of(host: &Host, range: &ServiceCidr) -> Result<Deletion, Error> {
    let others = Others::of(range, &host.list::<ServiceCidr>().all()?);
    if !others.contain_all(range) {
        for family in families(range) {
            let selector = format!("{MANAGED},ipaddress.kubernetes.io/ip-family={family}");
            let mut is_needed = false;
            host.list::<IpAddress>().labels(&selector).each(|ip| {
                is_needed = is_needed || others.leave_to(range, &ip.address);
                Ok(())
            })?;
            if is_needed {
                return Ok(Deletion::Blocked);
            }
        }
    }
    let requested = range.meta.deletion_timestamp.unwrap_or_default();
    Ok(match (requested + GRACE).from_now(host.now()) {
        Duration::ZERO => Deletion::Now,
        rest => Deletion::In(rest),
    })
}

/// The families of a ServiceCIDR's ranges, as in the label of addresses.
fn families(range: &ServiceCidr) -> impl Iterator<Item = &'static str> {
    parsed(range).map(|net| match net {
        IpNet::V4(_) => "IPv4",
        IpNet::V6(_) => "IPv6",
    })
}

/// The ranges of all other ServiceCIDRs, including ServiceCIDRs that are being deleted.
struct Others(Vec<IpNet>);

impl Others {
    fn of(own: &ServiceCidr, all: &[ServiceCidr]) -> Self {
        let others = all.iter().filter(|other| other.meta.name != own.meta.name);
        Self(others.flat_map(parsed).collect())
    }

    /// Whether each range of `own` lies within another one.
    fn contain_all(&self, own: &ServiceCidr) -> bool {
        parsed(own).all(|net| self.0.iter().any(|other| other.contains(&net)))
    }

    /// Whether only `own` has this address.
    fn leave_to(&self, own: &ServiceCidr, address: &str) -> bool {
        // Kubernetes validates that the names of IPAddresses are addresses.
        let Ok(address) = address.parse() else {
            return false;
        };
        parsed(own).any(|net| has(&net, address)) && !self.0.iter().any(|net| has(net, address))
    }
}

/// The valid ranges of a ServiceCIDR.
fn parsed(range: &ServiceCidr) -> impl Iterator<Item = IpNet> {
    range.ranges.iter().filter_map(|text| text.parse().ok())
}

/// Whether an address may have been allocated from a range: never its first address, and in IPv4 never its last one.
fn has(net: &IpNet, address: IpAddr) -> bool {
    let is_reserved = address == net.network() || address.is_ipv4() && address == net.broadcast();
    net.contains(&address) && !is_reserved
}

#[cfg(test)]
mod tests {
    use flyball_sdk::testing::view;

    use super::*;

    fn range(name: &str, ranges: &[&str]) -> ServiceCidr {
        view(json!({"metadata": {"name": name}, "spec": {"cidrs": ranges}}))
    }

    fn others(ranges: &[&[&str]]) -> Others {
        let all: Vec<_> = ranges.iter().map(|cidrs| range("other", cidrs)).collect();
        Others::of(&range("own", &[]), &all)
    }

    #[test]
    fn the_first_and_the_last_address_of_a_range_are_never_allocated() {
        for (net, address, expected) in [
            ("10.1.0.0/24", "10.1.0.1", true),
            ("10.1.0.0/24", "10.1.0.254", true),
            ("10.1.0.0/24", "10.1.0.0", false),
            ("10.1.0.0/24", "10.1.0.255", false),
            ("10.1.0.0/24", "10.1.1.1", false),
            ("10.1.0.0/31", "10.1.0.1", false),
            ("10.1.0.1/32", "10.1.0.1", false),
            ("fd00::/120", "fd00::", false),
            ("fd00::/120", "fd00::1", true),
            ("fd00::/120", "fd00::ff", true),
            ("fd00::/120", "10.1.0.1", false),
        ] {
            let net: IpNet = net.parse().unwrap();
            assert_eq!(
                has(&net, address.parse().unwrap()),
                expected,
                "{address} in {net}"
            );
        }
    }

    #[test]
    fn a_range_is_contained_in_larger_ones_and_in_equal_ones() {
        let own = range("own", &["10.1.0.0/24"]);
        for (other, expected) in [
            ("10.1.0.0/16", true),
            ("10.1.0.0/24", true),
            ("10.1.0.0/25", false),
            ("10.2.0.0/16", false),
            ("fd00::/8", false),
            ("not a range", false),
        ] {
            assert_eq!(others(&[&[other]]).contain_all(&own), expected, "{other}");
        }
    }

    #[test]
    fn each_range_must_be_contained_by_some_other_one() {
        let own = range("own", &["10.1.0.0/24", "fd00:1::/112"]);
        assert!(!others(&[&["10.0.0.0/8"]]).contain_all(&own));
        assert!(others(&[&["10.0.0.0/8"], &["fd00::/16"]]).contain_all(&own));
        assert!(others(&[&["10.0.0.0/8", "fd00::/16"]]).contain_all(&own));
    }

    #[test]
    fn a_service_cidr_is_not_among_the_others() {
        let own = range("own", &["10.1.0.0/24"]);
        assert!(!Others::of(&own, std::slice::from_ref(&own)).contain_all(&own));
    }

    #[test]
    fn an_address_is_left_to_the_only_range_that_has_it() {
        let own = range("own", &["10.1.0.0/24"]);
        let smaller = others(&[&["10.1.0.0/28"]]);
        assert!(smaller.leave_to(&own, "10.1.0.20"));
        assert!(!smaller.leave_to(&own, "10.1.0.2"));
        // The last address of the smaller range is an ordinary address of the larger one.
        assert!(smaller.leave_to(&own, "10.1.0.15"));
        assert!(!smaller.leave_to(&own, "10.2.0.1"));
        assert!(!smaller.leave_to(&own, "not an address"));
    }
}
