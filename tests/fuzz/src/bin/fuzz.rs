//! `fuzz TARGET SECONDS SEED CURRENT`: fuzzes one target for SECONDS. Each input is written to the
//! file CURRENT before it is fed, in case it aborts the process. If an input fails, the program adds
//! the shrunk input to the corpus and exits with 1.
//!
//! `fuzz list` prints the names of the targets, one per line.

use std::io::{Seek, Write};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use flyball_fuzz::{Failure, Run, TARGETS, Target, corpus, corpus_folder, shrink};
use sha2::{Digest, Sha256};

fn main() -> Result<ExitCode> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if arguments == ["list"] {
        TARGETS
            .iter()
            .for_each(|target| println!("{}", target.name));
        return Ok(ExitCode::SUCCESS);
    }
    let [name, seconds, seed, current] = arguments.as_slice() else {
        bail!("usage: fuzz TARGET SECONDS SEED CURRENT, or fuzz list")
    };
    let target = TARGETS
        .iter()
        .find(|target| target.name == name)
        .with_context(|| format!("unknown target {name}"))?;
    let time = Duration::from_secs(seconds.parse().context("SECONDS must be a number")?);
    let mut current =
        std::fs::File::create(current).with_context(|| format!("can't write {current}"))?;
    // Don't print each panic: the one failure is printed below.
    std::panic::set_hook(Box::new(|_| {}));
    match fuzz(
        target,
        time,
        seed.parse().context("SEED must be a number")?,
        &mut current,
    )? {
        None => Ok(ExitCode::SUCCESS),
        Some(failure) => {
            let failure = shrink(target, failure);
            let digest: String = Sha256::digest(&failure.input)
                .iter()
                .take(6)
                .map(|b| format!("{b:02x}"))
                .collect();
            let path = corpus_folder(target).join(format!("found-{digest}"));
            std::fs::write(&path, &failure.input)
                .with_context(|| format!("can't write {}", path.display()))?;
            println!(
                "{name}: {}\n  input: {:?}\n  stored in {}",
                failure.reason,
                String::from_utf8_lossy(&failure.input),
                path.display()
            );
            Ok(ExitCode::FAILURE)
        }
    }
}

fn fuzz(
    target: &Target,
    time: Duration,
    seed: u64,
    current: &mut std::fs::File,
) -> Result<Option<Failure>> {
    let known: Vec<Vec<u8>> = corpus(target)?
        .into_iter()
        .map(|(_, input)| input)
        .collect();
    let mut run = Run::new(target, known.clone(), seed);
    if let Some(failure) = known.into_iter().find_map(|input| run.feed(input).err()) {
        return Ok(Some(failure));
    }
    let (start, mut fed, mut slowest) = (Instant::now(), 0u64, Duration::ZERO);
    while start.elapsed() < time {
        let input = run.next_input();
        current.rewind()?;
        current.set_len(0)?;
        current.write_all(&input)?;
        let begun = Instant::now();
        if let Err(failure) = run.feed(input) {
            return Ok(Some(failure));
        }
        slowest = slowest.max(begun.elapsed());
        fed += 1;
    }
    let (reached, counted) = run.reached();
    println!(
        "{}: {fed} inputs, {} shapes of outcomes, {reached} of {counted} places of the code, the slowest input took \
         {slowest:?}",
        target.name,
        run.shapes()
    );
    Ok(None)
}
