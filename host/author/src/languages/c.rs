//! Projects in C. A compiler with a C library for WASI compiles the project, the SDK and the generated bindings into
//! one module, which is then encoded as a component.

use std::ffi::OsString;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail, ensure};
use serde::Deserialize;
use wit_bindgen_core::Files;
use wit_bindgen_core::wit_parser::Resolve;

use super::{Sdk, Support, VENDORED, ensure_built, sdk_folder};
use crate::Project;
use crate::componentize::{self, WORLD, WORLD_ALONE};
use crate::embedded::{self, C_SDK, C_TEMPLATE, File};
use crate::tools::Tool;

/// The versions of clang that are searched for by name. Debian installs each under a name of its own.
const CLANGS: std::ops::RangeInclusive<u32> = 16..=24;
/// The compiler arguments for the places where distributions install the C library. The first is for Debian.
const LIBRARIES: [&[&str]; 4] = [
    &[
        "--sysroot=/",
        "-isystem",
        "/usr/include/wasm32-wasi",
        "-L/usr/lib/wasm32-wasi",
        "-B/usr/lib/wasm32-wasi",
    ],
    &["--sysroot=/usr/share/wasi-sysroot"],
    &["--sysroot=/usr/wasm32-wasi"],
    &["--sysroot=/opt/homebrew/share/wasi-sysroot"],
];
/// A program that only a complete toolchain can build.
const PROBE: &str = "#include <stdlib.h>\n__attribute__((export_name(\"probe\"))) int probe(void) { return malloc(1) == 0; }\n";
/// Optimises, and keeps assertions. Failed checks are logged with file and line: see `sandbox/exports.c` in the SDK.
const COMPILE: [&str; 7] = [
    "-c",
    "-std=gnu17",
    "-O2",
    "-UNDEBUG",
    // The arguments for libraries are the linker's.
    "-Wno-unused-command-line-argument",
    "-fsanitize=null,alignment,array-bounds,integer-divide-by-zero,shift,unreachable,return,vla-bound",
    "-fno-sanitize-recover=all",
];
/// The stack, which is part of an instance's memory, is at address 0, so that an overflow traps. [`OUTPUT`] follows,
/// and then the data.
const LINK: [&str; 5] = [
    "-mexec-model=reactor",
    "-O2",
    "-Wl,--strip-debug",
    "-Wl,-z,stack-size=131072",
    "-Wl,--global-base=135168",
];
/// Memory that the module doesn't use itself: its output is collected there.
const OUTPUT: std::ops::Range<u32> = 131_072..135_168;

pub(super) struct C;

/// The content of `flyball.toml`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Manifest {
    name: String,
    /// The folder of the SDK.
    #[serde(default = "vendored")]
    sdk: PathBuf,
    /// Further arguments of the compiler for the project's own files.
    #[serde(default)]
    flags: Vec<String>,
}

fn vendored() -> PathBuf {
    VENDORED.into()
}

impl Support for C {
    fn manifest(&self) -> &'static str {
        "flyball.toml"
    }

    fn name(&self, dir: &Path) -> Result<String> {
        Ok(manifest(dir)?.name)
    }

    fn required_tools(&self, project: &Project) -> Vec<Tool> {
        match Compiler::find(project) {
            Some(_) => Vec::new(),
            None => vec![Tool::unusable(
                "a C compiler for WASI",
                "none of clang, the wasi-sdk and Zig builds a small program",
                "compiles C; set WASI_SDK_PATH to the folder of a wasi-sdk, or on Debian run `sudo apt-get install \
                 --no-install-recommends clang-22 lld-22 libclang-rt-22-dev-wasm32 wasi-libc`, or in the project's folder run \
                 `python3 -m venv .venv && .venv/bin/pip install ziglang`",
            )],
        }
    }

    fn compile(&self, project: &Project, wit: &Path, work: &Path) -> Result<Vec<u8>> {
        let Manifest { sdk, flags, .. } = manifest(&project.dir)?;
        let dir = std::path::absolute(&project.dir)?;
        let work = std::path::absolute(work)?;
        let sdk = dir.join(sdk);
        ensure!(
            sdk.join("flyball.h").is_file(),
            "{} is not the SDK: name its folder as `sdk` in {}",
            sdk.display(),
            dir.join(self.manifest()).display()
        );
        let bindings = work.join("bindings");
        let object = generate(wit, &bindings).context("can't generate bindings")?;
        let Some(compiler) = Compiler::find(project) else {
            bail!("the C compiler is gone");
        };
        let includes = [&sdk, &bindings, &dir.join("src")].map(|folder| {
            let mut option = OsString::from("-I");
            option.push(folder);
            option
        });
        let own = sources(&dir.join("src"))?;
        ensure!(
            !own.is_empty(),
            "{} has no C files",
            dir.join("src").display()
        );
        let mut others = sources(&sdk)?;
        others.extend(sources(&sdk.join("sandbox"))?);
        others.push(sdk.join("vendor/cJSON.c"));
        others.push(bindings.join("controller.c"));
        let mut objects = vec![object];
        let headers = headers(&[
            sdk.clone(),
            sdk.join("sandbox"),
            sdk.join("vendor"),
            bindings.clone(),
        ])?;
        let own = own.into_iter().map(|source| (source, true));
        let others = others.into_iter().map(|source| (source, false));
        for (position, (source, is_own)) in own.chain(others).enumerate() {
            let mut command = compiler.command();
            command.args(COMPILE).args(&includes);
            command
                .args(prefix_map(&dir, ""))
                .args(prefix_map(&sdk, "flyball-sdk/"));
            if is_own {
                command.args(["-Wall", "-Wextra"]).args(&flags);
            } else {
                command.arg("-w");
            }
            let object = match is_own {
                true => work.join(format!("{position}.o")),
                // The SDK and the bindings seldom change.
                false => work.join(format!("{:016x}.o", stamp(&command, &source, &headers)?)),
            };
            if is_own || !object.is_file() {
                // A build that is interrupted leaves no object that is incomplete.
                let new = work.join("new.o");
                run(command.arg(&source).arg("-o").arg(&new), &source)?;
                std::fs::rename(&new, &object)
                    .with_context(|| format!("can't write {}", object.display()))?;
            }
            objects.push(object);
        }
        let module = work.join(format!("{}.core.wasm", project.name));
        let mut link = compiler.command();
        link.args(LINK).args(compiler.linker);
        run(link.args(&objects).arg("-o").arg(&module), &module)?;
        let bytes =
            std::fs::read(&module).with_context(|| format!("can't read {}", module.display()))?;
        let component = componentize::component_of_wasi(bytes, wit, OUTPUT)
            .with_context(|| format!("can't encode {} as a component", module.display()))?;
        componentize::check(&component, &WORLD_ALONE)?;
        Ok(component)
    }

    fn template(&self) -> &'static [File] {
        &C_TEMPLATE
    }

    fn sdk(&self) -> &'static [File] {
        &C_SDK
    }

    fn sdk_reference(&self, sdk: Sdk) -> Result<String> {
        match sdk {
            Sdk::Vendored => Ok(VENDORED.into()),
            Sdk::At(given) => sdk_folder(given, "flyball.h", "SDK for C", "guests/sdk/c"),
        }
    }

    fn test_command(&self) -> &'static str {
        "make test"
    }
}

/// Returns the content of the headers in these folders.
fn headers(folders: &[PathBuf]) -> Result<Vec<u8>> {
    let mut content = Vec::new();
    for folder in folders {
        let entries = folder
            .read_dir()
            .and_then(|entries| entries.collect::<Result<Vec<_>, _>>())
            .with_context(|| format!("can't read {}", folder.display()))?;
        let mut paths: Vec<PathBuf> = entries.into_iter().map(|entry| entry.path()).collect();
        paths.retain(|path| path.extension().is_some_and(|extension| extension == "h"));
        paths.sort();
        for path in paths {
            let text = std::fs::read(&path);
            content.extend(text.with_context(|| format!("can't read {}", path.display()))?);
        }
    }
    Ok(content)
}

/// Returns a number for what an object is made of: the compiler, its arguments, the source and the headers.
fn stamp(command: &Command, source: &Path, headers: &[u8]) -> Result<u64> {
    let mut hasher = DefaultHasher::new();
    command.get_program().hash(&mut hasher);
    command
        .get_args()
        .for_each(|argument| argument.hash(&mut hasher));
    let text = std::fs::read(source);
    let text = text.with_context(|| format!("can't read {}", source.display()))?;
    (source, text, headers).hash(&mut hasher);
    Ok(hasher.finish())
}

/// A compiler for WASI.
#[derive(Clone, Debug)]
struct Compiler {
    program: PathBuf,
    arguments: Vec<&'static str>,
    /// Further arguments for the linker.
    linker: &'static [&'static str],
}

impl Compiler {
    /// Finds a compiler that builds a small program.
    fn find(project: &Project) -> Option<Self> {
        let folder = project.work();
        let source = folder.join("probe.c");
        embedded::write(&source, PROBE.as_bytes()).ok()?;
        let works = |compiler: &Self| {
            let built = compiler
                .command()
                .args(LINK)
                .args(compiler.linker)
                .arg(&source)
                .arg("-o")
                .arg(folder.join("probe.wasm"))
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .status();
            built.is_ok_and(|status| status.success())
        };
        candidates(&project.dir).into_iter().find(works)
    }

    fn command(&self) -> Command {
        let mut command = Command::new(&self.program);
        command.args(&self.arguments).stdin(Stdio::null());
        command
    }
}

/// The compilers to try, in order: the wasi-sdk that the user names, clang, and Zig in the project's environment or the
/// path.
fn candidates(dir: &Path) -> Vec<Compiler> {
    const CLANG: &str = "--target=wasm32-wasip1";
    const ZIG: [&str; 5] = ["-m", "ziglang", "cc", "-target", "wasm32-wasi"];
    let clang = |program: PathBuf, library: &[&'static str]| Compiler {
        program,
        arguments: [&[CLANG], library].concat(),
        linker: &["-Wl,--stack-first"],
    };
    // Zig places the stack first anyway, and does not know the option.
    let zig = |program: PathBuf, arguments: &[&'static str]| Compiler {
        program,
        arguments: arguments.to_vec(),
        linker: &[],
    };
    let mut all = Vec::new();
    if let Some(sdk) = std::env::var_os("WASI_SDK_PATH").filter(|folder| !folder.is_empty()) {
        all.push(clang(Path::new(&sdk).join("bin/clang"), &[]));
    }
    let versions = CLANGS.rev().map(|version| format!("clang-{version}"));
    for program in versions.chain(["clang".into()]) {
        all.extend(LIBRARIES.map(|library| clang(PathBuf::from(&program), library)));
    }
    all.push(zig(dir.join(".venv/bin/python"), &ZIG));
    all.push(zig("python3".into(), &ZIG));
    all.push(zig("zig".into(), &ZIG[2..]));
    all
}

/// Shows the files of a folder with this prefix in the program's messages. It also makes builds reproducible.
fn prefix_map(folder: &Path, prefix: &str) -> [OsString; 1] {
    let mut option = OsString::from("-ffile-prefix-map=");
    option.push(folder);
    option.push(format!("/={prefix}"));
    [option]
}

fn run(command: &mut Command, made: &Path) -> Result<()> {
    let status = command
        .status()
        .with_context(|| format!("can't run {}", command.get_program().display()))?;
    ensure_built(status, made, "the compiler")
}

/// The C files of a folder, sorted.
fn sources(folder: &Path) -> Result<Vec<PathBuf>> {
    let entries = folder
        .read_dir()
        .with_context(|| format!("can't read {}", folder.display()))?;
    let paths = entries
        .map(|entry| Ok(entry?.path()))
        .collect::<Result<Vec<_>>>()?;
    let is_source = |path: &PathBuf| path.extension().is_some_and(|extension| extension == "c");
    let mut paths: Vec<PathBuf> = paths.into_iter().filter(is_source).collect();
    paths.sort();
    Ok(paths)
}

fn manifest(dir: &Path) -> Result<Manifest> {
    let path = dir.join("flyball.toml");
    let text =
        std::fs::read_to_string(&path).with_context(|| format!("can't read {}", path.display()))?;
    toml::from_str(&text).with_context(|| format!("{} is not a project's", path.display()))
}

/// Generates the bindings of the world. Returns the object that belongs to them.
fn generate(wit: &Path, folder: &Path) -> Result<PathBuf> {
    let mut resolve = Resolve::default();
    let (package, _) = resolve.push_dir(wit)?;
    let world = resolve.select_world(&[package], Some(WORLD))?;
    let mut files = Files::default();
    let mut generator = wit_bindgen_c::Opts::default().build();
    generator.generate(&mut resolve, world, &mut files)?;
    for (path, content) in files.iter() {
        embedded::write(&folder.join(path), content)?;
    }
    Ok(folder.join(format!("{WORLD}_component_type.o")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_manifest_has_a_name_and_may_name_another_sdk() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("flyball.toml");
        std::fs::write(&path, "name = \"a\"").unwrap();
        let found = manifest(folder.path()).unwrap();
        assert_eq!((found.name.as_str(), found.sdk), ("a", vendored()));
        std::fs::write(&path, "name = \"a\"\nsdk = \"../x\"\nflags = [\"-DX\"]").unwrap();
        assert_eq!(manifest(folder.path()).unwrap().sdk, Path::new("../x"));
        std::fs::write(&path, "name = \"a\"\ncolour = \"red\"").unwrap();
        assert!(manifest(folder.path()).is_err());
    }

    #[test]
    fn the_bindings_are_those_that_the_sdk_includes() {
        let folder = tempfile::tempdir().unwrap();
        let wit = folder.path().join("wit");
        embedded::write_all(&embedded::WIT, &wit).unwrap();
        let object = generate(&wit, folder.path()).unwrap();
        assert!(object.is_file());
        let header = std::fs::read_to_string(folder.path().join("controller.h")).unwrap();
        assert!(header.contains("flyball_controller_lister_get"), "{header}");
    }

    #[test]
    fn another_sdk_is_a_folder_with_its_header() {
        let own = concat!(env!("CARGO_MANIFEST_DIR"), "/../../guests/sdk/c");
        assert!(
            C.sdk_reference(Sdk::At(own))
                .unwrap()
                .ends_with("guests/sdk/c")
        );
        let error = C
            .sdk_reference(Sdk::At("/no/such"))
            .unwrap_err()
            .to_string();
        assert!(error.contains("guests/sdk/c"), "{error}");
    }
}
