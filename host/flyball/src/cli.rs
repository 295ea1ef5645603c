//! The command line of the binary: `flyball run`, the commands for authors and installers, and those for a running
//! host.

#[cfg(test)]
mod page;

use clap::{ArgMatches, Command, FromArgMatches, Subcommand};

use crate::admin::AdminCommand;
use crate::tools::{NOT_COMPLETE, Tool};
use crate::{ccm, flags};

/// The action that the command line asks for.
pub(crate) enum Action {
    /// `flyball run` with these flags.
    Run(Box<ArgMatches>),
    /// `flyball cloud run` with these flags.
    RunCloud(Box<ArgMatches>),
    /// A command that needs no running host.
    Tool(Box<Tool>),
    /// A command for a running host.
    Admin(Box<AdminCommand>),
    /// Print this text and exit successfully.
    Print(String),
}

/// Parses the arguments, starting with the program's name. The name `kube-controller-manager` stands for `flyball run`, and
/// `cloud-controller-manager` for `flyball cloud run`.
/// The error is a text for the operator.
pub(crate) fn parse(args: impl IntoIterator<Item = String>) -> Result<Action, String> {
    let mut args: Vec<String> = args.into_iter().collect();
    let called = args
        .first()
        .map(|path| path.rsplit('/').next().unwrap_or_default().to_owned());
    match called.as_deref() {
        Some("kube-controller-manager") => args.insert(1, "run".to_owned()),
        Some(ccm::NAME) => drop(args.splice(1..1, ["cloud".to_owned(), "run".to_owned()])),
        _ => {}
    }
    let words: Vec<&str> = args.iter().map(String::as_str).collect();
    let flags = match words[..] {
        [_, "run", ..] => Some(2),
        [_, "cloud", "run", ..] => Some(3),
        _ => None,
    };
    if let Some(flags) = flags {
        let flags = args.split_off(flags);
        args.extend(flags::with_dashes(flags));
    }
    match command().try_get_matches_from(args) {
        Ok(matches) => match matches.subcommand() {
            Some(("run", run)) if is_version_asked(run) => Ok(Action::Print(version())),
            Some(("run", run)) => Ok(Action::Run(Box::new(run.clone()))),
            Some(("cloud", cloud)) => match cloud.subcommand() {
                Some((_, run)) if !is_version_asked(run) => {
                    Ok(Action::RunCloud(Box::new(run.clone())))
                }
                _ => Ok(Action::Print(version())),
            },
            Some((name, _)) if AdminCommand::has_subcommand(name) => {
                AdminCommand::from_arg_matches(&matches)
                    .map(|command| Action::Admin(Box::new(command)))
                    .map_err(|error| error.render().to_string())
            }
            Some(_) => Tool::from_arg_matches(&matches)
                .map(|tool| Action::Tool(Box::new(tool)))
                .map_err(|error| error.render().to_string()),
            None => Ok(Action::Print(command().render_help().to_string())),
        },
        Err(error) if error.use_stderr() => Err(error.render().to_string()),
        Err(text) => Ok(Action::Print(text.render().to_string())),
    }
}

/// The exit code for arguments that can't be parsed: 1, but 2 for `plan`, whose 1 says that something would change.
pub(crate) fn usage_code(args: &[String]) -> u8 {
    match args.get(1).map(String::as_str) {
        Some("plan") => NOT_COMPLETE,
        _ => 1,
    }
}

pub(crate) fn command() -> Command {
    Tool::augment_subcommands(AdminCommand::augment_subcommands(
        Command::new("flyball")
            .subcommand(flags::command())
            .subcommand(ccm::command()),
    ))
    .version(env!("CARGO_PKG_VERSION"))
    .about("Runs Kubernetes controllers as WebAssembly components")
    .long_about(None)
    .subcommand_required(false)
    .arg_required_else_help(false)
}

fn is_version_asked(run: &ArgMatches) -> bool {
    run.get_one::<String>("version")
        .is_some_and(|text| text != "false")
}

fn version() -> String {
    format!("flyball {}\n", env!("CARGO_PKG_VERSION"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cloud_controller_manager_as_the_programs_name_stands_for_cloud_run() {
        let args = ["/cloud-controller-manager", "--kube_api_qps=50"].map(str::to_owned);
        let Ok(Action::RunCloud(matches)) = parse(args) else {
            panic!("it does not run")
        };
        for (flag, value) in [("kube-api-qps", "50"), ("secure-port", "10258")] {
            let found = matches.get_one::<String>(flag).map(String::as_str);
            assert_eq!(found, Some(value), "{flag}");
        }
    }

    #[test]
    fn kube_controller_manager_as_the_programs_name_stands_for_run() {
        let args = [
            "/usr/local/bin/kube-controller-manager",
            "--kube_api_qps=50",
        ]
        .map(str::to_owned);
        let Ok(Action::Run(matches)) = parse(args) else {
            panic!("it does not run")
        };
        assert_eq!(
            matches
                .get_one::<String>("kube-api-qps")
                .map(String::as_str),
            Some("50")
        );
    }
}
