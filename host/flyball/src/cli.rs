//! The command line of the binary: `flyball run`, the commands for authors and installers, and those for a running
//! host.

#[cfg(test)]
mod page;

use clap::{ArgMatches, Command, FromArgMatches, Subcommand};

use crate::admin::AdminCommand;
use crate::flags;
use crate::tools::Tool;

/// The action that the command line asks for.
pub(crate) enum Action {
    /// `flyball run` with these flags.
    Run(Box<ArgMatches>),
    /// A command that needs no running host.
    Tool(Box<Tool>),
    /// A command for a running host.
    Admin(Box<AdminCommand>),
    /// Print this text and exit successfully.
    Print(String),
}

/// Parses the arguments, starting with the program's name. The name `kube-controller-manager` stands for `flyball run`.
/// The error is a text for the operator.
pub(crate) fn parse(args: impl IntoIterator<Item = String>) -> Result<Action, String> {
    let mut args: Vec<String> = args.into_iter().collect();
    let called = args
        .first()
        .map(|path| path.rsplit('/').next().unwrap_or_default().to_owned());
    if called.as_deref() == Some("kube-controller-manager") {
        args.insert(1, "run".to_owned());
    }
    if args.get(1).is_some_and(|arg| arg == "run") {
        let flags = args.split_off(2);
        args.extend(flags::with_dashes(flags));
    }
    match command().try_get_matches_from(args) {
        Ok(matches) => match matches.subcommand() {
            Some(("run", run)) if is_version_asked(run) => Ok(Action::Print(version())),
            Some(("run", run)) => Ok(Action::Run(Box::new(run.clone()))),
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

pub(crate) fn command() -> Command {
    Tool::augment_subcommands(AdminCommand::augment_subcommands(
        Command::new("flyball").subcommand(flags::command()),
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
