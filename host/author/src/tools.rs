//! The programs that builds need. Nothing is installed here: an error names all missing programs and how to get them.

use std::process::{Command, Stdio};

use anyhow::{Result, ensure};

/// A program that builds need.
#[derive(Clone, Debug)]
pub struct Tool {
    /// The name that an error shows.
    pub name: String,
    /// A command that succeeds if the program is installed.
    pub probe: Vec<String>,
    /// The least version, major and minor. The version is the first one in the output of the probe.
    pub version: Option<(u32, u32)>,
    /// Explains why the program is needed, and how to install it.
    pub advice: String,
    /// Why the program can't be used, if that is known without the probe.
    unusable: Option<String>,
}

impl Tool {
    /// Creates a tool of any version. It is named after the probe's program.
    pub fn new(probe: &[&str], advice: &str) -> Self {
        Self {
            name: probe[0].to_owned(),
            probe: probe.iter().map(|&part| part.to_owned()).collect(),
            version: None,
            advice: advice.to_owned(),
            unusable: None,
        }
    }

    /// Creates a tool that is known to be unusable, for example because none of several alternatives was found.
    pub fn unusable(name: &str, problem: &str, advice: &str) -> Self {
        Self {
            unusable: Some(problem.to_owned()),
            ..Self::new(&[name], advice)
        }
    }

    /// Shows another name than the probe's program has.
    pub fn named(mut self, name: &str) -> Self {
        self.name = name.to_owned();
        self
    }

    /// Requires at least this version.
    pub fn at_least(mut self, major: u32, minor: u32) -> Self {
        self.version = Some((major, minor));
        self
    }

    /// Returns why the tool can't be used; none if it can.
    pub fn problem(&self) -> Option<String> {
        if self.unusable.is_some() {
            return self.unusable.clone();
        }
        let output = Command::new(&self.probe[0])
            .args(&self.probe[1..])
            .stdin(Stdio::null())
            .output();
        let output = match output {
            Ok(output) if output.status.success() => output,
            Ok(_) => return Some(format!("`{}` fails", self.probe.join(" "))),
            Err(_) => return Some("not installed".into()),
        };
        let (major, minor) = self.version?;
        let text = String::from_utf8_lossy(&output.stdout);
        match version_in(&text) {
            Some(found) if found >= (major, minor) => None,
            Some((old, older)) => Some(format!(
                "version {old}.{older} is older than {major}.{minor}"
            )),
            None => Some(format!("`{}` prints no version", self.probe.join(" "))),
        }
    }
}

/// Fails with a list of the tools that can't be used.
pub fn require(tools: &[Tool]) -> Result<()> {
    let problems: Vec<String> = tools
        .iter()
        .filter_map(|tool| {
            let problem = tool.problem()?;
            Some(format!("{} ({problem}): {}", tool.name, tool.advice))
        })
        .collect();
    // On one line: commands print no more of an error.
    ensure!(
        problems.is_empty(),
        "these programs are missing or don't work: {}",
        problems.join(" | ")
    );
    Ok(())
}

/// Returns the first version in a text, as in `go1.26.8` or `v22.1.0`.
fn version_in(text: &str) -> Option<(u32, u32)> {
    text.split(|c: char| !c.is_ascii_digit() && c != '.')
        .find_map(|word| {
            let (major, rest) = word.split_once('.')?;
            let minor = rest.split('.').next()?;
            Some((major.parse().ok()?, minor.parse().ok()?))
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_error_names_each_unusable_program_with_advice() {
        let tools = [
            Tool::new(&["flyball-has-no-such-program"], "for a test"),
            Tool::new(&["cargo", "--version"], "it works"),
            Tool::new(&["cargo", "--version"], "from the future").at_least(99, 0),
            Tool::new(&["cargo", "no-such-command"], "it fails"),
        ];
        let error = require(&tools).unwrap_err().to_string();
        assert_eq!(error.lines().count(), 1, "{error}");
        let (_, error) = error.split_once("don't work: ").unwrap();
        let parts: Vec<&str> = error.split(" | ").collect();
        assert_eq!(parts.len(), 3, "{error}");
        assert_eq!(
            parts[0],
            "flyball-has-no-such-program (not installed): for a test"
        );
        assert!(
            parts[1].starts_with("cargo (version 1.")
                && parts[1].ends_with("99.0): from the future"),
            "{error}"
        );
        assert_eq!(parts[2], "cargo (`cargo no-such-command` fails): it fails");
        require(&tools[1..2]).unwrap();
    }

    #[test]
    fn versions_are_found_in_what_programs_print() {
        assert_eq!(version_in("go version go1.26.8 linux/amd64"), Some((1, 26)));
        assert_eq!(version_in("v22.3.0\n"), Some((22, 3)));
        assert_eq!(version_in("Debian clang version 22.1 (rc)"), Some((22, 1)));
        assert_eq!(version_in("none. at 5 all"), None);
    }
}
