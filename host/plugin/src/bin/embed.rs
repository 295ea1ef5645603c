//! Prepares the code of the built-in controllers, which the host's binary embeds:
//! - `embed compile ARCHITECTURE OUT COMPONENT…` compiles each `NAME.wasm` to `OUT/NAME.cwasm`.
//! - `embed compress LEVEL CODES OUT COMPONENT…` compresses `CODES/NAME.cwasm` of each component at a level of zstd,
//!   for the host's build script: the shared code to `OUT/shared.zst`, the other code to `OUT/NAME.zst`. `OUT/index`
//!   has a line for each component: its name, its digest, its size before it was compiled and, for shared code, where
//!   it starts and ends.
//!
//! For the tests of the crate, it is also the child process that compiles a component.

use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use flyball_plugin::{CompressedCode, Part, compile_for, compress, digest};

const USAGE: &str =
    "usage: embed compile ARCHITECTURE OUT COMPONENT… | embed compress LEVEL CODES OUT COMPONENT…";
/// The number of components whose code other components refer to. A start without a cache unpacks them first, and they
/// take memory then.
const SHARED: usize = 1;

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

fn main() -> ExitCode {
    if let Some(code) = flyball_plugin::run_compiler(std::env::args_os()) {
        return code;
    }
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let done = match arguments.as_slice() {
        ["compile", architecture, out, components @ ..] => components
            .iter()
            .try_for_each(|component| compile(architecture, out, component)),
        ["compress", level, codes, out, components @ ..] => {
            compress_all(level, codes.as_ref(), out.as_ref(), components)
        }
        _ => {
            eprintln!("{USAGE}");
            return ExitCode::from(2);
        }
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn compile(architecture: &str, out: &str, component: &str) -> Result<()> {
    let compiled = compile_for(architecture, &read(component.as_ref())?)
        .map_err(|error| format!("can't compile {component} for {architecture}: {error}"))?;
    write(&code_of(out.as_ref(), component)?, compiled)
}

fn compress_all(level: &str, codes: &Path, out: &Path, components: &[&str]) -> Result<()> {
    let level = level
        .parse::<i32>()
        .map_err(|error| format!("the level {level} is not a number: {error}"))?;
    let read_code = |component: &&str| read(&code_of(codes, component)?);
    let codes: Vec<Vec<u8>> = components.iter().map(read_code).collect::<Result<_>>()?;
    let CompressedCode { shared, parts } = compress(&codes, SHARED, level)
        .map_err(|error| format!("can't compress the code at level {level}: {error}"))?;
    write(&out.join("shared.zst"), shared)?;
    let mut index = String::new();
    for (component, part) in components.iter().zip(parts) {
        let (name, wasm) = (name(component)?, read(component.as_ref())?);
        write!(index, "{name} {} {}", digest(&wasm), wasm.len())?;
        match part {
            Part::Shared(range) => write!(index, " {} {}", range.start, range.end)?,
            Part::Frame(frame) => write(&out.join(format!("{name}.zst")), frame)?,
        }
        index.push('\n');
    }
    write(&out.join("index"), index)
}

fn name(component: &str) -> Result<&str> {
    let name = Path::new(component)
        .file_stem()
        .and_then(|name| name.to_str());
    Ok(name.ok_or_else(|| format!("{component} names no file"))?)
}

fn code_of(folder: &Path, component: &str) -> Result<PathBuf> {
    Ok(folder.join(format!("{}.cwasm", name(component)?)))
}

fn read(path: &Path) -> Result<Vec<u8>> {
    Ok(fs::read(path).map_err(|error| format!("can't read {}: {error}", path.display()))?)
}

fn write(path: &Path, content: impl AsRef<[u8]>) -> Result<()> {
    fs::write(path, content)
        .map_err(|error| format!("can't write {}: {error}", path.display()).into())
}
