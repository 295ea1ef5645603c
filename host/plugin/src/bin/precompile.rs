//! `precompile OUT COMPONENT…`: compiles components for a host that embeds them. For each `NAME.wasm` it writes three
//! files into the folder OUT: a copy of the component, the compiled code as `NAME.cwasm`, and the digest as
//! `NAME.sha256`. For the tests of the crate, it is also the child process that compiles a component.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use flyball_plugin::Engine;

fn main() -> ExitCode {
    if let Some(code) = flyball_plugin::run_compiler(std::env::args_os()) {
        return code;
    }
    let mut arguments = std::env::args_os().skip(1).map(PathBuf::from);
    let Some(out) = arguments.next() else {
        eprintln!("usage: precompile OUT COMPONENT…");
        return ExitCode::from(2);
    };
    for component in arguments {
        if let Err(error) = precompile(&out, &component) {
            eprintln!("can't precompile {}: {error}", component.display());
            return ExitCode::FAILURE;
        }
    }
    ExitCode::SUCCESS
}

fn precompile(out: &Path, component: &Path) -> Result<(), Box<dyn std::error::Error>> {
    let wasm = std::fs::read(component)?;
    let compiled = Engine::precompile(&wasm)?;
    let name = component.file_name().ok_or("it has no file name")?;
    std::fs::write(out.join(name), &wasm)?;
    std::fs::write(out.join(name).with_extension("cwasm"), compiled)?;
    std::fs::write(
        out.join(name).with_extension("sha256"),
        flyball_plugin::digest(&wasm),
    )?;
    Ok(())
}
