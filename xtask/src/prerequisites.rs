//! The programs that the builds and tests of this repository need.

use flyball_author::tools::Tool;

/// Go, for the control plane.
pub fn go() -> Tool {
    Tool::new(
        &["go", "version"],
        "builds the control plane; see https://go.dev/dl or your distribution's packages",
    )
    .at_least(1, 26)
}

/// Python, for a guest.
pub fn python() -> Tool {
    Tool::new(
        &["python3", "-c", "import ensurepip, venv"],
        "builds a guest; version 3.10 or later, with venv: on Debian, `sudo apt-get install python3-venv`",
    )
}

/// Node.js and npm, for guests in TypeScript and JavaScript.
pub fn node() -> [Tool; 2] {
    [
        Tool::new(
            &["node", "--version"],
            "builds guests; version 20 or later: see https://nodejs.org/en/download or your distribution's packages",
        )
        .at_least(20, 0),
        Tool::new(
            &["npm", "--version"],
            "installs the tools of guests; it comes with Node.js, or on Debian, `sudo apt-get install npm`",
        ),
    ]
}

/// A C compiler, for dependencies of the host.
pub fn c_compiler() -> Tool {
    Tool::new(
        &["cc", "--version"],
        "compiles dependencies of the host: on Debian, `sudo apt-get install gcc libc6-dev`",
    )
}

/// Whether this runs in continuous integration, where system packages may be installed: `CI` is set, and not to
/// `false`.
pub fn is_ci() -> bool {
    std::env::var("CI").is_ok_and(|value| !value.is_empty() && value != "false")
}
