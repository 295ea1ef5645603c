//! `flyball completion`: generates completion scripts with clap.

use clap::ValueEnum;
use clap_complete::{Shell as ClapShell, generate};

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Shell {
    Bash,
    Zsh,
    Fish,
}

/// Returns the completion script for a shell.
pub(super) fn script(shell: Shell, mut command: clap::Command) -> String {
    let shell = match shell {
        Shell::Bash => ClapShell::Bash,
        Shell::Zsh => ClapShell::Zsh,
        Shell::Fish => ClapShell::Fish,
    };
    let mut script = Vec::new();
    generate(shell, &mut command, "flyball", &mut script);
    String::from_utf8_lossy(&script).into_owned()
}
