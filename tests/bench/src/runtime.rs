//! Benchmarks of the runtime alone, without a control plane. Each is an example of a crate.

use std::io::{BufRead, BufReader};
use std::process::{ChildStdout, Stdio};

use anyhow::{Context, Result, ensure};
use flyball_controlplane::process;
use xtask::build::Profile;
use xtask::run::{command, run, workspace};

use super::report::Figures;
use super::sizes::Size;
use super::workloads::LANGUAGES;

/// The exit code of an example whose figures exceed their bounds.
const OUT_OF_BOUNDS: i32 = 2;

pub(super) fn describe(name: &str, size: Size) -> String {
    match (name, argument(name, size)) {
        ("hostile", Some(seconds)) => {
            format!("a plugin alone, and beside each kind of fault, for {seconds} s each")
        }
        ("idle", Some(plugins)) => format!("{plugins} distinct plugins, one of them busy"),
        (LANGUAGES, _) => "the greeters".into(),
        _ => "what a call costs".into(),
    }
}

/// The argument of the example: for `hostile`, the seconds for which it calls its victim beside each fault; for `idle`,
/// the number of plugins.
fn argument(name: &str, size: Size) -> Option<u32> {
    match (name, size) {
        ("hostile", Size::Whole) => Some(60),
        ("hostile", Size::Quick) => Some(1),
        ("idle", Size::Whole) => Some(1000),
        ("idle", Size::Quick) => Some(50),
        _ => None,
    }
}

/// Runs an example. Returns its figures, and whether they are within their bounds.
pub(super) fn measure(name: &str, size: Size) -> Result<(Figures, bool)> {
    // Only figures that count need an optimised engine.
    let profile = match size {
        Size::Whole => Profile::Release,
        Size::Quick => Profile::Dev,
    };
    run(command("cargo").args([
        "build",
        "--profile",
        profile.name(),
        "--quiet",
        "--workspace",
        "--example",
        name,
    ]))?;
    let mut example = command(
        workspace()
            .join("target")
            .join(profile.folder())
            .join("examples")
            .join(name),
    );
    example
        .args(argument(name, size).map(|argument| argument.to_string()))
        .stdout(Stdio::piped());
    if let Some(components) = flyball_cluster_tests::components() {
        example.env("FLYBALL_COMPONENTS", components);
    }
    let mut child = process::spawn(example).with_context(|| format!("can't start {name}"))?;
    let figures = child
        .stdout
        .take()
        .map(read)
        .transpose()
        .with_context(|| format!("can't read the output of {name}"))?;
    let status = child.wait()?;
    ensure!(
        status.success() || status.code() == Some(OUT_OF_BOUNDS),
        "{name} ended with {status}"
    );
    let figures = figures
        .filter(|figures| !figures.is_empty())
        .with_context(|| format!("{name} printed no figure"))?;
    Ok((figures, status.success()))
}

/// Reads the figures in the output of an example. Prints all other lines immediately.
fn read(output: ChildStdout) -> std::io::Result<Figures> {
    let mut figures = Figures::default();
    for line in BufReader::new(output).lines() {
        let line = line?;
        match figure(&line) {
            Some((name, value)) => figures.push(name, value),
            None => println!("{line}"),
        }
    }
    Ok(figures)
}

/// Parses a line with a name, a value and a unit, separated by tabs.
fn figure(line: &str) -> Option<(String, f64)> {
    let [name, value, unit] = line.split('\t').collect::<Vec<_>>().try_into().ok()?;
    let name = if unit.is_empty() {
        name.to_owned()
    } else {
        format!("{name}, {unit}")
    };
    Some((name, value.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_figure_has_a_name_a_value_and_a_unit() {
        assert_eq!(
            figure("a call\t3100\tns"),
            Some(("a call, ns".to_owned(), 3100.0))
        );
        assert_eq!(
            figure("the ratio\t1.08\t"),
            Some(("the ratio".to_owned(), 1.08))
        );
        for line in [
            "OUT OF BOUNDS",
            "a call\tlong\tns",
            "a call\t1",
            "a\t1\tns\tmore",
        ] {
            assert_eq!(figure(line), None, "{line}");
        }
    }
}
