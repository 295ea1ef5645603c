//! The flags as `/flagz` and `/configz` show them: with the words of Go's pflag, and as the configuration that
//! kube-controller-manager derives from them.

use flyball_types::duration;
use serde_json::{Value, json};

use crate::ccm;
use crate::kcm::flags;
use crate::kcm::leader_migration::LeaderMigration;
use flyball_controllers::flag::{self, Flag, Kind};

/// The configuration: a text `--NAME` stands for the value of that flag.
const CONFIGURATION: &str = include_str!("configz.json");
/// The parts of the configuration that cloud-controller-manager has, too.
const OF_CLOUDS: [&str; 3] = ["Generic", "KubeCloudShared", "ServiceController"];
/// The name of the configuration.
const NAME: &str = "kubecontrollermanager.config.k8s.io";

/// Returns the value of a flag as pflag's `String` does, given each use of it, or its default.
pub(crate) fn text(kind: Kind, uses: &[&str]) -> String {
    let last = uses.last().copied().unwrap_or_default();
    match kind {
        Kind::Texts | Kind::Ints => format!("[{}]", items(uses).join(",")),
        Kind::KeyPairs => format!("[{}]", uses.join(";")),
        Kind::Pairs => {
            let pairs = uses
                .iter()
                .flat_map(|text| flag::map(text).unwrap_or_default());
            let pairs: Vec<String> = pairs.map(|(key, value)| format!("{key}={value}")).collect();
            format!("[{}]", pairs.join(","))
        }
        Kind::Gates => {
            // A gate without a component is shown with an empty component name.
            let mut gates = items(uses);
            let names_component =
                |gate: &str| gate.split('=').next().unwrap_or_default().contains(':');
            for gate in gates.iter_mut().filter(|gate| !names_component(gate)) {
                gate.insert(0, ':');
            }
            gates.sort_by_key(|gate| gate.split(':').next().map(str::to_owned));
            gates.join(",")
        }
        Kind::Modules => items(uses).join(","),
        Kind::Version if last.is_empty() => "false".to_owned(),
        _ => match value(kind, uses) {
            Value::String(text) => text,
            value => value.to_string(),
        },
    }
}

/// Returns the value of a flag as JSON. Durations are in the form of Go.
fn value(kind: Kind, uses: &[&str]) -> Value {
    let last = uses.last().copied().unwrap_or_default();
    match kind {
        Kind::Bool => (flag::bool(last) == Ok(true)).into(),
        Kind::Int | Kind::Int32 | Kind::Level => flag::int(last, i64::MIN, i64::MAX)
            .unwrap_or_default()
            .into(),
        Kind::Float | Kind::Double => number(flag::float(last).unwrap_or_default()),
        Kind::Duration => go_duration(duration::parse_nanoseconds(last).unwrap_or_default()).into(),
        Kind::Texts | Kind::Ints => items(uses).into(),
        _ => last.into(),
    }
}

/// Whole numbers are written without a fraction, as Go does.
fn number(value: f64) -> Value {
    match value.fract() == 0.0 && value.abs() < 1e15 {
        true => (value as i64).into(),
        false => value.into(),
    }
}

fn items(uses: &[&str]) -> Vec<String> {
    uses.iter()
        .flat_map(|text| flag::list(text).unwrap_or_default())
        .collect()
}

/// Returns the body of `/configz`, given the uses of a flag by its name, and the configuration of leader migration if
/// it is enabled.
pub(crate) fn configz<'a>(
    uses: impl Fn(&'static Flag) -> Vec<&'a str>,
    migration: Option<&LeaderMigration>,
) -> String {
    let mut configuration: Value = serde_json::from_str(CONFIGURATION).unwrap_or_default();
    let of_flag = |name: &str| {
        let flag = flags::all().find(|flag| flag.name == name)?;
        Some(value(flag.kind, &uses(flag)))
    };
    fill(&mut configuration, &of_flag);
    let ranges = of_flag("service-cluster-ip-range").unwrap_or_default();
    let mut ranges = ranges.as_str().unwrap_or_default().split(',');
    for name in ["ServiceCIDR", "SecondaryServiceCIDR"] {
        let range = ranges.next().unwrap_or_default();
        configuration["NodeIPAMController"][name] = range.into();
    }
    if let Some(migration) = migration {
        configuration["Generic"]["LeaderMigration"] = migration.shown();
    }
    json!({ NAME: configuration }).to_string()
}

/// Returns the body of `/configz` of a process that stands for cloud-controller-manager.
pub(crate) fn configz_of_clouds<'a>(uses: impl Fn(&'static Flag) -> Vec<&'a str>) -> String {
    let mut configuration: Value = serde_json::from_str(CONFIGURATION).unwrap_or_default();
    let mut shown = json!({
        "NodeStatusUpdateFrequency": "--node-status-update-frequency",
        "NodeController": {
            "ConcurrentNodeSyncs": "--concurrent-node-syncs",
            "ConcurrentNodeStatusUpdates": "--concurrent-node-status-updates",
        },
        "NodeLifecycleController": {
            "ConcurrentNodeLifecycleSyncs": "--concurrent-node-lifecycle-syncs",
        },
    });
    for part in OF_CLOUDS {
        shown[part] = configuration[part].take();
    }
    fill(&mut shown, &|name| {
        let flag = crate::flags::all().find(|flag| flag.name == name)?;
        Some(value(flag.kind, &uses(flag)))
    });
    json!({ ccm::CONFIGURATION: shown }).to_string()
}

fn fill(value: &mut Value, of_flag: &impl Fn(&str) -> Option<Value>) {
    match value {
        Value::Object(fields) => fields.values_mut().for_each(|value| fill(value, of_flag)),
        Value::String(text) => {
            if let Some(found) = text.strip_prefix("--").and_then(of_flag) {
                *value = found;
            }
        }
        _ => {}
    }
}

/// Writes nanoseconds as Go's `Duration.String` does: `1h0m0s`, `1.5s`, `250ms`.
fn go_duration(nanoseconds: i64) -> String {
    let sign = if nanoseconds < 0 { "-" } else { "" };
    let total = nanoseconds.unsigned_abs();
    let units = [(1_000_000, "ms"), (1_000, "µs"), (1, "ns")];
    if total == 0 {
        return "0s".to_owned();
    }
    if let Some((unit, name)) = units
        .into_iter()
        .find(|(unit, _)| total < 1_000_000_000 && total >= *unit)
    {
        return format!("{sign}{}{name}", decimal(total, unit));
    }
    let (minutes, rest) = (total / 60_000_000_000, total % 60_000_000_000);
    let seconds = decimal(rest, 1_000_000_000);
    match (minutes / 60, minutes % 60) {
        (0, 0) => format!("{sign}{seconds}s"),
        (0, minutes) => format!("{sign}{minutes}m{seconds}s"),
        (hours, minutes) => format!("{sign}{hours}h{minutes}m{seconds}s"),
    }
}

/// Writes a number of units with as many decimals as it needs.
fn decimal(value: u64, unit: u64) -> String {
    let (whole, rest) = (value / unit, value % unit);
    let digits = unit.ilog10() as usize;
    let fraction = format!("{rest:0digits$}");
    match fraction.trim_end_matches('0') {
        "" => whole.to_string(),
        fraction => format!("{whole}.{fraction}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn default(flag: &'static Flag) -> Vec<&'static str> {
        let default = flag.default;
        let list = default
            .strip_prefix('[')
            .and_then(|list| list.strip_suffix(']'));
        match list.unwrap_or(default) {
            "" => Vec::new(),
            default => vec![default],
        }
    }

    #[test]
    fn defaults_are_shown_as_pflag_does() {
        for flag in flags::all().filter(|flag| flag.name != "help") {
            assert_eq!(
                text(flag.kind, &default(flag)),
                flag.default,
                "--{}",
                flag.name
            );
        }
    }

    #[test]
    fn values_are_shown_in_the_form_of_go() {
        assert_eq!(text(Kind::Duration, &["90m"]), "1h30m0s");
        assert_eq!(text(Kind::Duration, &["1500ms"]), "1.5s");
        assert_eq!(text(Kind::Duration, &["-2500us"]), "-2.5ms");
        assert_eq!(text(Kind::Duration, &["61s"]), "1m1s");
        assert_eq!(text(Kind::Bool, &["T"]), "true");
        assert_eq!(text(Kind::Int32, &["0x10"]), "16");
        assert_eq!(text(Kind::Texts, &["a,b", "c"]), "[a,b,c]");
        assert_eq!(
            text(Kind::Gates, &["kube:C=true,B=true", "A=false"]),
            ":B=true,:A=false,kube:C=true"
        );
        assert_eq!(text(Kind::KeyPairs, &["a,b", "c,d:e"]), "[a,b;c,d:e]");
    }

    #[test]
    fn every_flag_in_the_configuration_exists() {
        let filled = configz(default, None);
        assert!(!filled.contains("\"--"), "{filled}");
        let filled: Value = serde_json::from_str(&filled).unwrap();
        let generic = &filled[NAME]["Generic"];
        assert_eq!(generic["MinResyncPeriod"], "12h0m0s");
        assert_eq!(generic["Controllers"], json!(["*"]));
        assert_eq!(generic["ClientConnection"]["qps"], 20);
        assert_eq!(generic["LeaderElection"]["leaderElect"], true);
        assert_eq!(
            filled[NAME]["HPAController"]["HorizontalPodAutoscalerTolerance"],
            0.1
        );
    }

    #[test]
    fn leader_migration_is_shown_as_it_is_configured() {
        let shown = |migration: Option<&LeaderMigration>| {
            let filled: Value = serde_json::from_str(&configz(default, migration)).unwrap();
            filled[NAME]["Generic"]["LeaderMigration"].clone()
        };
        let none = json!({"leaderName": "", "resourceLock": "", "controllerLeaders": null});
        assert_eq!(shown(None), none);
        let leaders = [
            "route-controller",
            "service-controller",
            "cloud-node-lifecycle-controller",
        ]
        .map(|name| json!({"name": name, "component": "*"}));
        let of_kcm = json!({
            "leaderName": "cloud-provider-extraction-migration", "resourceLock": "leases", "controllerLeaders": leaders,
        });
        assert_eq!(shown(Some(&LeaderMigration::default())), of_kcm);
        let text = "{apiVersion: controllermanager.config.k8s.io/v1, kind: LeaderMigrationConfiguration, leaderName: mine}";
        let mine =
            json!({"leaderName": "mine", "resourceLock": "leases", "controllerLeaders": null});
        assert_eq!(shown(Some(&LeaderMigration::parse(text).unwrap())), mine);
    }

    #[test]
    fn both_ranges_of_services_are_shown() {
        let uses = |flag: &'static Flag| match flag.name {
            "service-cluster-ip-range" => vec!["10.0.0.0/16,fd00::/108"],
            _ => default(flag),
        };
        let filled: Value = serde_json::from_str(&configz(uses, None)).unwrap();
        let ipam = &filled[NAME]["NodeIPAMController"];
        assert_eq!(ipam["ServiceCIDR"], "10.0.0.0/16");
        assert_eq!(ipam["SecondaryServiceCIDR"], "fd00::/108");
    }
}
