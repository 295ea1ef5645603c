//! Files that nobody has granted anything, generated from a seed: components with imports, exports, nesting and sections
//! in any number, guests whose `describe` sleeps, loops, allocates, traps or returns any text, names that several files
//! claim, and damaged files. Of each batch of files holds:
//!
//! - the host's memory and threads stay within limits, and the others work meanwhile;
//! - the status names each file, and gives a reason; for a file beyond a limit, the reason names the limit.

mod shapes;

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use flyball_cluster_tests::{is_full, until_within};
use rand::SeedableRng;
use rand::rngs::StdRng;

use crate::arena::{Arena, Class};
use shapes::{File, file};

/// Files that are in the folder at the same time, and batches of them.
const FILES: usize = 6;
const BATCHES: usize = 8;
/// The seed of the files that always run. With `--full`, it is a random one.
const SEED: u64 = 1;
/// How long the host may take for a batch: one file after another is compiled and describes itself.
const PATIENCE: Duration = Duration::from_secs(300);
/// Threads that the host may have besides those that it had before. Reading and compiling a file takes five.
const THREADS: u64 = 64;

/// Drops batches of generated files into the folder of plugins.
pub(crate) async fn all(arena: &mut Arena) -> Result<()> {
    let (seed, batches) = match is_full() {
        true => (rand::random(), BATCHES),
        false => (SEED, 1),
    };
    println!("seed of the files without a grant: {seed}");
    let mut random = StdRng::seed_from_u64(seed);
    let from = arena.log()?.len();
    for batch in 0..batches {
        let files: Vec<File> = (0..FILES).map(|_| file(&mut random)).collect();
        let name = format!("generated-files-{batch}");
        let ran = run(arena, &name, &files).await;
        ran.with_context(|| format!("batch {batch} of the seed {seed}"))?;
    }
    let answer = "the status names each file and why it does not run";
    arena
        .passed("generated-files", Class::Lifecycle, from, answer)
        .await
}

async fn run(arena: &mut Arena, name: &str, files: &[File]) -> Result<()> {
    let from = arena.log()?.len();
    arena.reset_peak()?;
    let threads = arena.threads()?;
    let paths: Vec<PathBuf> = (0..files.len())
        .map(|number| arena.plugins.join(format!("generated-{number}.wasm")))
        .collect();
    for (path, file) in paths.iter().zip(files) {
        fs::write(path, &file.bytes)?;
    }
    let answered = until_within(PATIENCE, "each file has its reason", async || {
        let now = arena.threads()?;
        if now > threads + THREADS {
            bail!("the host has {now} threads, and had {threads}");
        }
        let missing = missing(arena, &paths, files)?;
        Ok(if missing.is_empty() {
            Ok(())
        } else {
            Err(missing.join("\n"))
        })
    });
    answered.await?;
    arena.is_unharmed(name, from).await?;
    for path in paths {
        fs::remove_file(path)?;
    }
    Ok(())
}

/// The files whose reason is not the expected one yet, each with what the status says of it.
fn missing(arena: &Arena, paths: &[PathBuf], files: &[File]) -> Result<Vec<String>> {
    let all = arena.cluster().plugins("host")?;
    let mut missing = Vec::new();
    for (path, file) in paths.iter().zip(files) {
        let path = path.display().to_string();
        let mut about = all
            .iter()
            .filter(|status| status.to_string().contains(&path));
        let is_answered = about.clone().any(|status| {
            let reason = status["reason"].as_str().unwrap_or_default();
            file.reasons
                .iter()
                .any(|expected| reason.contains(expected))
        });
        if !is_answered {
            let status = about.next().map(ToString::to_string);
            missing.push(format!("{path} ({file:?}): {status:?}"));
        }
    }
    Ok(missing)
}
