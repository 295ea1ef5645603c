//! The memory of hosts with many idle plugins of one language, and of an operator in Go that watches the same kinds.
//! The plugins are the language's greeter under different names: distinct files, which the host compiles one by one.

use std::fs;
use std::time::Duration;

use anyhow::Result;
use flyball_cluster_tests::{Cluster, guest, replace};
use flyball_controlplane::{Options, Process};

use super::bed::{QUIET, plane, plugins};
use super::operators;
use super::process::{anonymous_kib, resident_mib};
use super::relays::renamed;
use super::report::Figures;
use super::wait::wait;

const LANGUAGES: [&str; 6] = ["rust", "c", "javascript", "typescript", "python", "go"];
/// The name of the host without plugins.
const EMPTY: &str = "no plugin";
/// The operator's name.
const OPERATOR: &str = "an operator in Go";

/// Starts a host with `count` plugins of each language, one without plugins, and the operator. Returns their memory
/// after so long without work.
pub(super) async fn measure(count: usize, after: Duration) -> Result<Figures> {
    let operator = operators::build(".")?;
    let cluster = plane(Options {
        scheduler: false,
        ..Options::default()
    })
    .await?;
    cluster.define_greetings().await?;
    let mut processes = vec![(EMPTY, 0, start(&cluster, EMPTY, &[], 0).await?)];
    for language in LANGUAGES {
        let name = format!("greeter-{language}");
        let Ok(component) = guest(&name) else {
            println!(
                "{language} is not measured: build its greeter with `cargo xtask guests {language}`"
            );
            continue;
        };
        let wasm = fs::read(component)?;
        let files = (0..count)
            .map(|number| renamed(&wasm, &name, &numbered(&name, number)))
            .collect::<Result<Vec<_>>>()?;
        let host = start(&cluster, language, &files, count).await?;
        processes.push((language, count, host));
    }
    let operator = operators::start(&cluster, OPERATOR, &operator, &[]).await?;
    processes.push((OPERATOR, 0, operator));
    tokio::time::sleep(after).await;

    let mut figures = Figures::default();
    let empty = resident_mib(&processes[0].2)?;
    for (name, count, process) in &mut processes {
        let resident = resident_mib(process)?;
        if *count > 0 {
            figures.push(format!("{name}: plugins"), *count as f64);
        }
        figures.push(format!("{name}: process, MiB"), resident);
        let anonymous = anonymous_kib(process)? / 1024.0;
        figures.push(format!("{name}: without pages of files, MiB"), anonymous);
        if *count > 0 {
            let each = (resident - empty) * 1024.0 / *count as f64;
            figures.push(format!("{name}: each plugin, KiB"), each);
        }
        process.stop().await?;
    }
    cluster.shutdown().await?;
    Ok(figures)
}

/// Another name of the same length.
fn numbered(name: &str, number: usize) -> String {
    format!("{}{number:03}", &name[..name.len() - 3])
}

/// Starts a host, and waits until it runs the plugins in these files.
async fn start(cluster: &Cluster, name: &str, files: &[Vec<u8>], count: usize) -> Result<Process> {
    let folder = cluster.folder_with(name, &[])?;
    for (number, file) in files.iter().enumerate() {
        replace(&folder.join(format!("{number}.wasm")), file)?;
    }
    let host = plugins(cluster, name, &folder, QUIET)?;
    wait("the plugins run", async || {
        // The command fails until the host has created its socket.
        let all = cluster.plugins(name).unwrap_or_default();
        let running = all.iter().filter(|status| status["state"] == "running");
        Ok((running.count(), count))
    })
    .await?;
    Ok(host)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbered_names_have_the_length_of_the_name() {
        assert_eq!(numbered("greeter-c", 7), "greete007");
        assert_eq!(numbered("greeter-go", 42), "greeter042");
    }
}
