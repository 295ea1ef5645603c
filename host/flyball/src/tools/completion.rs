//! `flyball completion`: the scripts that clap makes.

use clap_complete::{Shell as Known, generate};

use super::Shell;

/// The script for a shell.
pub(super) fn script(shell: Shell, mut command: clap::Command) -> String {
    let known = match shell {
        Shell::Bash => Known::Bash,
        Shell::Zsh => Known::Zsh,
        Shell::Fish => Known::Fish,
    };
    let mut script = Vec::new();
    generate(known, &mut command, "flyball", &mut script);
    String::from_utf8_lossy(&script).into_owned()
}
