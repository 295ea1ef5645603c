//! Reads the flags of the node-ipam-controller, with kube-controller-manager's checks.

use std::net::IpAddr;

use flyball_types::cidr;

use super::flags::{ConfigError, Flags};
use crate::config::NodeIpam;

const ALLOCATE: &str = "allocate-node-cidrs";
const TYPE: &str = "cidr-allocator-type";
const CLUSTER: &str = "cluster-cidr";
const SERVICES: &str = "service-cluster-ip-range";
const MASK: &str = "node-cidr-mask-size";
const MASK_IPV4: &str = "node-cidr-mask-size-ipv4";
const MASK_IPV6: &str = "node-cidr-mask-size-ipv6";

/// The only allocator without a cloud provider.
const RANGES: &str = "RangeAllocator";
const DEFAULT_IPV4: i64 = 24;
const DEFAULT_IPV6: i64 = 64;
/// The largest number of bits by which a node's IPv6 prefix may be longer than the cluster's.
const MAX_IPV6_DIFFERENCE: i64 = 16;

type Range = (IpAddr, u8);

impl Flags<'_> {
    /// Returns the settings, and warnings for the operator. If the controller does not run, there are no settings, and
    /// ranges are not checked.
    pub(super) fn node_ipam(
        &self,
        is_enabled: bool,
    ) -> Result<(Option<NodeIpam>, Vec<String>), ConfigError> {
        let services = self.text(SERVICES).unwrap_or_default();
        if services.split(',').count() > 2 {
            return Err(self.error(SERVICES, "it can not contain more than two entries"));
        }
        let allocator = self.text(TYPE);
        if allocator.as_deref().is_some_and(|name| name != RANGES) {
            let reason = "only RangeAllocator is available, because the other ones need a built-in cloud provider";
            return Err(self.error(TYPE, reason));
        }
        if !self.bool(ALLOCATE) || !is_enabled {
            return Ok((None, Vec::new()));
        }
        if allocator.is_none() {
            return Err(self.error(TYPE, "it must be RangeAllocator"));
        }
        let clusters = self.cluster_cidrs()?;
        let (services, warnings) = self.service_cidrs(&services)?;
        let mask_sizes = self.mask_sizes(&clusters)?;
        let settings = NodeIpam {
            cluster_cidrs: joined(clusters.iter().map(text)),
            service_cidrs: joined(services.iter().map(text)),
            mask_sizes: joined(mask_sizes.iter().map(i64::to_string)),
        };
        Ok((Some(settings), warnings))
    }

    fn cluster_cidrs(&self) -> Result<Vec<Range>, ConfigError> {
        let Some(given) = self.text(CLUSTER) else {
            return Err(self.error(
                CLUSTER,
                "--allocate-node-cidrs needs a range of the cluster",
            ));
        };
        let ranges: Option<Vec<Range>> = given.trim().split(',').map(cidr).collect();
        let ranges = ranges.ok_or_else(|| self.error(CLUSTER, "it is not a list of ranges"))?;
        match ranges.as_slice() {
            [_] => Ok(ranges),
            [one, other] if is_ipv4(one) != is_ipv4(other) => Ok(ranges),
            [_, _] => Err(self.error(CLUSTER, "two ranges must be of different families")),
            _ => Err(self.error(CLUSTER, "it can not contain more than two ranges")),
        }
    }

    /// Like kube-controller-manager, skips texts that are not ranges.
    fn service_cidrs(&self, given: &str) -> Result<(Vec<Range>, Vec<String>), ConfigError> {
        let (mut ranges, mut warnings) = (Vec::new(), Vec::new());
        for item in given.split(',').filter(|item| !item.trim().is_empty()) {
            match cidr(item) {
                Some(range) => ranges.push(range),
                None => warnings.push(format!(
                    "--{SERVICES}: `{item}` is not a range, and is ignored"
                )),
            }
        }
        match ranges.as_slice() {
            [one, other] if is_ipv4(one) == is_ipv4(other) => {
                Err(self.error(SERVICES, "two ranges must be of different families"))
            }
            _ => Ok((ranges, warnings)),
        }
    }

    fn mask_sizes(&self, clusters: &[Range]) -> Result<Vec<i64>, ConfigError> {
        let given = |name| Some(self.int(name)).filter(|size| *size != 0);
        let [size, ipv4, ipv6] = [MASK, MASK_IPV4, MASK_IPV6].map(given);
        let is_dual = clusters.len() > 1;
        if size.is_some() && is_dual {
            let reason = "it is not allowed with two ranges of the cluster: use --node-cidr-mask-size-ipv4 and --node-cidr-mask-size-ipv6";
            return Err(self.error(MASK, reason));
        }
        if size.is_some() && (ipv4.is_some() || ipv6.is_some()) {
            let reason = "it is not allowed together with --node-cidr-mask-size-ipv4 or --node-cidr-mask-size-ipv6";
            return Err(self.error(MASK, reason));
        }
        for (name, given, is_of_family) in [(MASK_IPV4, ipv4, true), (MASK_IPV6, ipv6, false)] {
            if given.is_some() && !is_dual && is_ipv4(&clusters[0]) != is_of_family {
                return Err(self.error(name, "the range of the cluster is of the other family"));
            }
        }
        let sizes = clusters.iter().map(|range| {
            let (name, given, default) = match is_ipv4(range) {
                true => (MASK_IPV4, ipv4, DEFAULT_IPV4),
                false => (MASK_IPV6, ipv6, DEFAULT_IPV6),
            };
            let name = if size.is_some() { MASK } else { name };
            let chosen = size.or(given).unwrap_or(default);
            self.check_size(name, chosen, range).map(|()| chosen)
        });
        sizes.collect()
    }

    fn check_size(&self, name: &'static str, size: i64, range: &Range) -> Result<(), ConfigError> {
        let (is_ipv4, prefix) = (is_ipv4(range), i64::from(range.1));
        let reason = if size < prefix {
            "a node's range can't be larger than the range of the cluster"
        } else if size > if is_ipv4 { 32 } else { 128 } {
            "it is longer than an address"
        } else if !is_ipv4 && size - prefix > MAX_IPV6_DIFFERENCE {
            "it can be at most 16 more than that of the range of the cluster"
        } else {
            return Ok(());
        };
        let range = text(range);
        Err(self.error(
            name,
            format!("with {size} for --{CLUSTER} {range}, {reason}"),
        ))
    }
}

fn is_ipv4(range: &Range) -> bool {
    range.0.is_ipv4()
}

fn text((address, prefix): &Range) -> String {
    format!("{address}/{prefix}")
}

fn joined(items: impl Iterator<Item = String>) -> String {
    items.collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::RunConfig;
    use crate::flags::parse;

    fn read(args: &[&str]) -> Result<RunConfig, String> {
        RunConfig::read(&parse(args).expect("they parse")).map_err(|error| error.to_string())
    }

    /// Reads the settings of a cluster that allocates ranges.
    fn allocating(args: &[&str]) -> Result<NodeIpam, String> {
        let args = [&["--allocate-node-cidrs"], args].concat();
        read(&args).map(|config| config.built_ins.node_ipam.expect("it allocates"))
    }

    #[test]
    fn the_sizes_of_nodes_ranges_have_kube_controller_managers_defaults() {
        for (args, cluster, sizes) in [
            (&["--cluster-cidr=10.244.0.0/16"][..], "10.244.0.0/16", "24"),
            (&["--cluster-cidr=fd00::/48"], "fd00::/48", "64"),
            (
                &["--cluster-cidr=010.0.0.0/8,fd00::/56"],
                "10.0.0.0/8,fd00::/56",
                "24,64",
            ),
            (
                &["--cluster-cidr= fd00::/56,10.0.0.0/8"],
                "fd00::/56,10.0.0.0/8",
                "64,24",
            ),
            (
                &["--cluster-cidr=10.0.0.0/8", "--node-cidr-mask-size=20"],
                "10.0.0.0/8",
                "20",
            ),
            (
                &["--cluster-cidr=fd00::/100", "--node-cidr-mask-size=112"],
                "fd00::/100",
                "112",
            ),
            (
                &["--cluster-cidr=10.0.0.0/8", "--node-cidr-mask-size-ipv4=8"],
                "10.0.0.0/8",
                "8",
            ),
            (
                &["--cluster-cidr=fd00::/56", "--node-cidr-mask-size-ipv6=72"],
                "fd00::/56",
                "72",
            ),
            (
                &[
                    "--cluster-cidr=10.0.0.0/8,fd00::/56",
                    "--node-cidr-mask-size-ipv4=26",
                    "--node-cidr-mask-size-ipv6=60",
                ],
                "10.0.0.0/8,fd00::/56",
                "26,60",
            ),
        ] {
            let settings = allocating(args).unwrap();
            assert_eq!(settings.cluster_cidrs, cluster, "{args:?}");
            assert_eq!(settings.mask_sizes, sizes, "{args:?}");
            assert_eq!(settings.service_cidrs, "");
        }
    }

    #[test]
    fn invalid_ranges_and_sizes_are_errors_if_ranges_are_allocated() {
        let v4 = "--cluster-cidr=10.0.0.0/16";
        let v6 = "--cluster-cidr=fd00::/48";
        let both = "--cluster-cidr=10.0.0.0/16,fd00::/48";
        for (args, expected) in [
            (&[][..], "needs a range of the cluster"),
            (&["--cluster-cidr=10.0.0.0"], "not a list of ranges"),
            (&["--cluster-cidr=10.0.0.0/16,"], "not a list of ranges"),
            (
                &["--cluster-cidr=10.0.0.0/16,10.1.0.0/16"],
                "of different families",
            ),
            (
                &["--cluster-cidr=10.0.0.0/16,fd00::/48,10.1.0.0/16"],
                "more than two ranges",
            ),
            (&[v4, "--cidr-allocator-type="], "must be RangeAllocator"),
            (
                &[v4, "--service-cluster-ip-range=10.1.0.0/16,10.2.0.0/16"],
                "of different families",
            ),
            (
                &[both, "--node-cidr-mask-size=24"],
                "not allowed with two ranges",
            ),
            (
                &[
                    v4,
                    "--node-cidr-mask-size=24",
                    "--node-cidr-mask-size-ipv4=24",
                ],
                "not allowed together",
            ),
            (
                &[v4, "--node-cidr-mask-size-ipv6=64"],
                "of the other family",
            ),
            (
                &[v6, "--node-cidr-mask-size-ipv4=24"],
                "of the other family",
            ),
            (
                &[v4, "--node-cidr-mask-size=15"],
                "larger than the range of the cluster",
            ),
            (&[v4, "--node-cidr-mask-size=33"], "longer than an address"),
            (&[v6, "--node-cidr-mask-size=65"], "at most 16 more"),
            (
                &["--cluster-cidr=10.0.0.0/25"],
                "larger than the range of the cluster",
            ),
        ] {
            let error = allocating(args).unwrap_err();
            assert!(error.contains(expected), "{args:?}: {error}");
        }
    }

    #[test]
    fn ranges_are_not_checked_unless_the_controller_runs() {
        for args in [
            &["--cluster-cidr=nonsense", "--node-cidr-mask-size=99"][..],
            &["--allocate-node-cidrs", "--controllers=*,-nodeipam"],
            &["--allocate-node-cidrs", "--controllers=ttl"],
        ] {
            assert_eq!(read(args).unwrap().built_ins.node_ipam, None);
        }
    }

    #[test]
    fn cloud_allocators_and_three_ranges_of_services_are_always_errors() {
        let error = read(&["--cidr-allocator-type=CloudAllocator"]).unwrap_err();
        assert!(error.contains("need a built-in cloud provider"), "{error}");
        let error = read(&["--service-cluster-ip-range=10.0.0.0/16,fd00::/108,"]).unwrap_err();
        assert!(error.contains("more than two entries"), "{error}");
    }

    #[test]
    fn a_range_of_services_that_is_none_is_ignored_with_a_warning() {
        let config = read(&[
            "--allocate-node-cidrs",
            "--cluster-cidr=10.0.0.0/16",
            "--service-cluster-ip-range=nonsense,10.0.3.0/24",
        ])
        .unwrap();
        assert_eq!(
            config.built_ins.node_ipam.unwrap().service_cidrs,
            "10.0.3.0/24"
        );
        assert_eq!(config.warnings.len(), 1);
        assert!(config.warnings[0].contains("`nonsense` is not a range"));
    }
}
