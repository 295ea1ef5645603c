//! The programs that builds need. Nothing is installed here: an error names the missing programs and
//! how to install them.

use anyhow::{Result, ensure};

use crate::run::{command, output};

/// A program that builds need.
pub(crate) struct Prerequisite {
    /// A command that succeeds if the program is installed.
    probe: &'static [&'static str],
    /// What it is needed for, and how to install it.
    advice: &'static str,
}

pub(crate) const GO: Prerequisite = Prerequisite {
    probe: &["go", "version"],
    advice: "Go 1.26 or later, for the control plane and a guest: see https://go.dev/dl or your distribution's packages",
};
pub(crate) const PYTHON: Prerequisite = Prerequisite {
    probe: &["python3", "-c", "import ensurepip, venv"],
    advice: "Python 3.10 or later with venv, for a guest: on Debian, `sudo apt-get install python3-venv`",
};
pub(crate) const C_COMPILER: Prerequisite = Prerequisite {
    probe: &["cc", "--version"],
    advice: "a C compiler, for dependencies of the host: on Debian, `sudo apt-get install gcc libc6-dev`",
};

/// Fails with a list of the missing programs and how to install them.
pub(crate) fn require(all: &[Prerequisite]) -> Result<()> {
    let missing: Vec<String> = all
        .iter()
        .filter(|prerequisite| !prerequisite.is_installed())
        .map(|prerequisite| format!("  {}: {}", prerequisite.probe[0], prerequisite.advice))
        .collect();
    ensure!(
        missing.is_empty(),
        "these programs are missing or don't work:\n{}",
        missing.join("\n")
    );
    Ok(())
}

/// Whether this runs in continuous integration, where system packages may be installed: `CI` is
/// set, and not to `false`.
pub(crate) fn is_ci() -> bool {
    std::env::var("CI").is_ok_and(|value| !value.is_empty() && value != "false")
}

impl Prerequisite {
    fn is_installed(&self) -> bool {
        output(command(self.probe[0]).args(&self.probe[1..])).is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MISSING: Prerequisite = Prerequisite {
        probe: &["flyball-has-no-such-program"],
        advice: "for a test",
    };

    #[test]
    fn the_error_names_a_missing_program_with_advice() {
        let error = require(&[MISSING]).unwrap_err().to_string();
        assert!(
            error.ends_with("  flyball-has-no-such-program: for a test"),
            "{error}"
        );
        require(&[]).unwrap();
    }
}
