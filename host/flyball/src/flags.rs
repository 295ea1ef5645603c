//! The flags of `flyball run` and of `flyball cloud run`: kube-controller-manager's and cloud-controller-manager's, and
//! Flyball's own.

use clap::{Arg, ArgAction, Command};
use flyball_controllers::flag::Effect::Yes;
use flyball_controllers::flag::Kind::{Bool, Text, Texts};
use flyball_controllers::flag::{Effect, Flag, Kind, flag};

use crate::{ccm, kcm};

/// The flags that kube-controller-manager lacks.
const OWN: &[Flag] = &[
    flag(
        "context",
        Text,
        "",
        Yes("Context of the kubeconfig; by default the current one"),
    ),
    flag(
        "plugin-dir",
        Texts,
        "[]",
        Yes("Folder with plugins; changes are loaded at once; may be repeated"),
    ),
    flag(
        "policy",
        Text,
        "",
        Yes(
            "Policy with the grants of plugins: a TOML file or a folder of them; by default the folder `policy` in --state-dir",
        ),
    ),
    flag(
        "admin-socket",
        Text,
        "",
        Yes(
            "Unix socket for operator commands; by default flyball/admin.sock in $XDG_RUNTIME_DIR or ~/.local/state",
        ),
    ),
    flag(
        "dashboard",
        Bool,
        "false",
        Yes(
            "Serve the dashboard on the secure port, at /dashboard/, to users who may get that path; it shows names of objects, errors and logs",
        ),
    ),
    flag(
        "state-dir",
        Text,
        "",
        Yes(
            "Folder for the versions of plugins that can be rolled back to; by default $XDG_STATE_HOME/flyball or ~/.local/state/flyball",
        ),
    ),
    flag(
        "trust-plugins",
        Bool,
        "false",
        Yes("Grant all that a plugin asks for if the policy does not mention it"),
    ),
    flag(
        "certificate-authority",
        Texts,
        "[]",
        Yes(
            "Authority that signs certificates for plugins, as <signer>=<certificate file>:<key file>, with a signer such as example.com/name; may be repeated",
        ),
    ),
    flag(
        "tracing-config-file",
        Text,
        "",
        Yes(
            "File with the TracingConfiguration of traces, as kube-apiserver has it; by default there are none",
        ),
    ),
    flag(
        "tzdata",
        Text,
        "",
        Yes(
            "Folder with the time zone database of CronJobs, such as /usr/share/zoneinfo; by default $ZONEINFO or that of the system; zones that it lacks come from the binary",
        ),
    ),
    flag(
        "plugin-config",
        Text,
        "",
        Yes("Configuration value of a controller, as <controller>.<key>=<value>; may be repeated"),
    ),
];

/// Returns all flags.
pub(crate) fn all() -> impl Iterator<Item = &'static Flag> {
    OWN.iter().chain(ccm::FLAGS).chain(kcm::flags::all())
}

/// Returns the command `run` with its flags.
pub(crate) fn command() -> Command {
    let run = Command::new("run")
        .about("Run controllers: the built-in ones and plugins")
        .after_help("Write flags as --flag=value or --flag value. Flags without a description are accepted but have no effect yet.")
        .disable_version_flag(true)
        .args_override_self(true)
        .next_line_help(false);
    let own = OWN
        .iter()
        .map(|flag| arg(flag).help_heading("Flyball's own flags"));
    let theirs = kcm::flags::all()
        .filter(|flag| flag.name != "help")
        .map(|flag| match flag.effect {
            Effect::Yes(_) => arg(flag).help_heading("kube-controller-manager's flags"),
            _ => arg(flag)
                .help_heading("kube-controller-manager's flags without effect yet")
                .hide_short_help(true),
        });
    let of_clouds = ccm::FLAGS
        .iter()
        .map(|flag| arg(flag).help_heading("cloud-controller-manager's flags"));
    run.args(own.chain(of_clouds).chain(theirs))
}

fn arg(flag: &'static Flag) -> Arg {
    let kind = flag.kind;
    let check = move |text: &str| kind.check(text).map(|()| text.to_owned());
    let arg = Arg::new(flag.name).long(flag.name).value_parser(check);
    let arg = match kind {
        Kind::Bool => arg
            .num_args(0..=1)
            .require_equals(true)
            .default_missing_value("true")
            .default_value(flag.default),
        Kind::Version => arg
            .num_args(0..=1)
            .require_equals(true)
            .default_missing_value("true"),
        _ => arg
            .num_args(1)
            .allow_hyphen_values(true)
            .value_name(kind.go_type()),
    };
    // pflag shows the default of a list in brackets.
    let list = flag
        .default
        .strip_prefix('[')
        .and_then(|list| list.strip_suffix(']'));
    let arg = match (list, flag.default) {
        (Some("") | None, "" | "[]") => arg,
        (Some(list), _) => arg.default_value(list),
        (None, _) if kind.needs_no_value() => arg,
        (None, default) => arg.default_value(default),
    };
    // A configuration value may contain commas, so each use of the flag is one value.
    let adds = kind.is_list() || flag.name == "plugin-config";
    let arg = arg.action(if adds {
        ArgAction::Append
    } else {
        ArgAction::Set
    });
    let arg = if flag.name == "v" {
        arg.short('v')
    } else {
        arg
    };
    match flag.effect {
        Effect::Yes(help) => arg.help(help),
        Effect::NotYet | Effect::Already(_) => arg,
    }
}

/// Replaces underscores in flag names by dashes, as Kubernetes does: `--kube_api_qps` becomes `--kube-api-qps`. Values
/// are unchanged.
pub(crate) fn with_dashes(args: Vec<String>) -> Vec<String> {
    let mut is_value = false;
    let rename = |arg: String| {
        if std::mem::take(&mut is_value) || !arg.starts_with("--") {
            return arg;
        }
        let (name, value) = arg
            .split_once('=')
            .map_or((arg.as_str(), None), |(name, value)| (name, Some(value)));
        let name = name.replace('_', "-");
        let known = all().find(|flag| flag.name == &name[2..]);
        is_value = value.is_none() && known.is_some_and(|flag| !flag.kind.needs_no_value());
        value.map_or(name.clone(), |value| format!("{name}={value}"))
    };
    args.into_iter().map(rename).collect()
}

/// Parses the flags of `flyball run`.
#[cfg(test)]
pub(crate) fn parse(flags: &[&str]) -> Result<clap::ArgMatches, String> {
    let args = flags.iter().map(|flag| (*flag).to_owned()).collect();
    let args = std::iter::once("run".to_owned()).chain(with_dashes(args));
    command()
        .try_get_matches_from(args)
        .map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use clap::ArgMatches;

    use super::*;

    fn one(matches: &ArgMatches, name: &str) -> String {
        matches.get_one::<String>(name).cloned().unwrap_or_default()
    }

    /// The page of the docs with all flags.
    fn page() -> String {
        let rows = |flags: &mut dyn Iterator<Item = &Flag>| -> String {
            let row = |flag: &Flag| match flag.effect {
                Effect::Yes(help) => {
                    let default = match flag.default {
                        "" | "[]" => String::new(),
                        default => format!("`{default}`"),
                    };
                    let (name, help) = (flag.name, help.replace('<', "\\<").replace('|', "\\|"));
                    Some(format!("| `--{name}` | {default} | {help} |\n"))
                }
                Effect::NotYet | Effect::Already(_) => None,
            };
            let rows = flags.filter_map(row);
            format!(
                "| flag | default | effect |\n|---|---|---|\n{}",
                rows.collect::<String>()
            )
        };
        let idle = kcm::flags::all().filter_map(|flag| match flag.effect {
            Effect::Yes(_) => None,
            Effect::NotYet => Some(format!("- `--{}`\n", flag.name)),
            Effect::Already(values) => {
                let values = values.iter().map(|value| format!("`{value:?}`"));
                let values = values.collect::<Vec<_>>().join(" and ");
                Some(format!(
                    "- `--{}`, which Flyball does as with {values}\n",
                    flag.name
                ))
            }
        });
        format!(
            "# Flags of `flyball run`\n\n\
             Write flags as `--flag=value` or `--flag value`. `flyball run --help` prints the same. This page is generated from the\n\
             flags: `BLESS=1 cargo test --workspace --bin flyball flags_in_the_docs` writes it.\n\n\
             `flyball cloud run` has the same flags; its port is 10258, and its Lease `cloud-controller-manager`.\n\n\
             ## Flyball's own\n\n{}\n## cloud-controller-manager's\n\n{}\n## kube-controller-manager's\n\n{}\n\
             ## Without effect yet\n\n\
             These are accepted. One warning at the start names those that are set.\n\n{}",
            rows(&mut OWN.iter()),
            rows(&mut ccm::FLAGS.iter()),
            rows(&mut kcm::flags::all()),
            idle.collect::<String>()
        )
    }

    #[test]
    fn the_flags_in_the_docs_are_those_of_the_command() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/flags.md");
        let page = page();
        if std::env::var_os("BLESS").is_some() {
            std::fs::write(path, &page).expect("the page is written");
        }
        let committed = std::fs::read_to_string(path).unwrap_or_default();
        assert!(
            committed == page,
            "docs/flags.md is out of date: BLESS=1 writes it"
        );
    }

    #[test]
    fn every_flag_of_kube_controller_manager_parses_with_its_default() {
        let golden = include_str!("../testdata/kcm-1.37-flags.txt");
        for line in golden
            .lines()
            .filter(|line| !line.starts_with('#') && !line.starts_with("help\t"))
        {
            let [name, kind, default] = line.split('\t').collect::<Vec<_>>()[..] else {
                panic!("{line:?}")
            };
            let default = default.trim_matches(['[', ']']);
            let with_equals = format!("--{name}={default}");
            parse(&[&with_equals]).unwrap_or_else(|error| panic!("{error}"));
            if kind == "bool" {
                let matches =
                    parse(&[&format!("--{name}")]).unwrap_or_else(|error| panic!("{error}"));
                assert_eq!(one(&matches, name), "true");
            } else if name != "version" {
                parse(&[&format!("--{name}"), default]).unwrap_or_else(|error| panic!("{error}"));
            }
        }
    }

    #[test]
    fn a_flag_takes_the_next_argument_whatever_it_looks_like() {
        let matches =
            parse(&["--controllers", "-job,*", "--kubeconfig", "--a_b"]).expect("it parses");
        assert_eq!(
            (
                one(&matches, "controllers").as_str(),
                one(&matches, "kubeconfig").as_str()
            ),
            ("-job,*", "--a_b")
        );
    }

    #[test]
    fn the_last_use_of_a_flag_wins_and_lists_grow() {
        let matches = parse(&[
            "--v=1",
            "-v",
            "2",
            "-v=4",
            "--controllers=a",
            "--controllers=b,c",
        ])
        .expect("it parses");
        assert_eq!(one(&matches, "v"), "4");
        let lists: Vec<&String> = matches.get_many("controllers").expect("given").collect();
        assert_eq!(lists, ["a", "b,c"]);
        assert_eq!(
            one(
                &parse(&["--profiling", "--profiling=false"]).expect("it parses"),
                "profiling"
            ),
            "false"
        );
    }

    #[test]
    fn an_unknown_flag_is_an_error_that_suggests_the_nearest() {
        let error = parse(&["--kubeconfg=x"]).expect_err("it is unknown");
        assert!(
            error.contains("--kubeconfg") && error.contains("'--kubeconfig'"),
            "{error}"
        );
    }

    #[test]
    fn a_value_of_another_type_is_an_error() {
        let error = parse(&["--leader-elect-lease-duration=15"]).expect_err("it has no unit");
        assert!(
            error.contains("--leader-elect-lease-duration")
                && error.contains("`15` has a number without a unit"),
            "{error}"
        );
        assert!(parse(&["--leader-elect", "false"]).is_err());
    }
}
