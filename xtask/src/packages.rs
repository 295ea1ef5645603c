//! `cargo xtask packages` makes the packages of the SDKs, as they are published: crates, an npm package, a wheel and a
//! source distribution for Python, and the module for Go. It publishes nothing.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use flyball_author::tools::{Tool, require};
use xtask::prerequisites::{go, node};
use xtask::run::{command, output, run, say, workspace};

/// The version of all packages.
const VERSION: &str = env!("CARGO_PKG_VERSION");
/// The crates, in the order in which they are published: each after what it depends on.
const CRATES: [&str; 5] = [
    "flyball-types",
    "flyball-recording",
    "flyball-sdk-macros",
    "flyball-sdk",
    "flyball-kube",
];
/// The folder of the Go module in the repository. A tag of its version begins with it.
const GO_MODULE: &str = "guests/sdk/go";

/// Make the packages of the SDKs, and write them to target/dist/packages
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Package the working copy although it has changes that are not committed
    #[arg(long)]
    allow_dirty: bool,
}

/// Makes all packages.
pub(crate) fn write(arguments: &Arguments) -> Result<()> {
    let [node, npm] = node();
    require(&[go(), node, npm, python()])?;
    let folder = workspace().join("target/dist/packages");
    if folder.exists() {
        fs::remove_dir_all(&folder)?;
    }
    fs::create_dir_all(&folder).with_context(|| format!("can't create {}", folder.display()))?;
    crates(&folder, arguments.allow_dirty)?;
    npm_package(&folder)?;
    python_packages(&folder)?;
    let module = go_module(&folder)?;
    say(&format!(
        "the packages are in {}. To publish the Go module, commit {} as {GO_MODULE} and tag that commit {GO_MODULE}/v{VERSION}; \
         docs/releasing.md has the commands for all",
        folder.display(),
        module.display()
    ));
    Ok(())
}

fn python() -> Tool {
    Tool::new(
        &["python3", "-m", "build", "--version"],
        "makes packages for Python: in a virtual environment, `pip install build`",
    )
    .named("build (for Python)")
}

/// Makes the crates, and compiles each from its package, with the packages of the crates that it depends on.
fn crates(folder: &Path, allow_dirty: bool) -> Result<()> {
    say("packaging the crates");
    let mut cargo = command("cargo");
    cargo.args(["package", "--locked"]);
    for name in CRATES {
        cargo.args(["--package", name]);
    }
    if allow_dirty {
        cargo.arg("--allow-dirty");
    }
    run(&mut cargo)?;
    for name in CRATES {
        let file = format!("{name}-{VERSION}.crate");
        copy(
            &workspace().join("target/package").join(&file),
            &folder.join(&file),
        )?;
    }
    Ok(())
}

fn npm_package(folder: &Path) -> Result<()> {
    say("packaging the SDK for TypeScript and JavaScript");
    let mut npm = command("npm");
    npm.current_dir(workspace().join("guests/sdk/js"));
    run(npm
        .args(["pack", "--ignore-scripts", "--pack-destination"])
        .arg(folder))
}

fn python_packages(folder: &Path) -> Result<()> {
    say("packaging the SDK for Python");
    // setuptools writes into the folder of the sources.
    let sources = tempfile::tempdir()?;
    copy_tracked("guests/sdk/python", sources.path())?;
    run(command("python3")
        .args(["-m", "build", "--outdir"])
        .arg(folder)
        .arg(sources.path()))
}

/// Writes the module with the bindings that are generated, and compiles it for plugins. Returns its folder.
fn go_module(folder: &Path) -> Result<PathBuf> {
    say("packaging the SDK for Go");
    let module = folder.join("go");
    copy_tracked(GO_MODULE, &module)?;
    // They are modules of their own, which projects get from the program flyball.
    for nested in ["cloudprovider", "controllerruntime", "crdgen"] {
        fs::remove_dir_all(module.join(nested))?;
    }
    let work = tempfile::tempdir()?;
    flyball_author::write_go_bindings(&module, work.path())?;
    let ignored = module.join(".gitignore");
    fs::remove_file(&ignored).with_context(|| format!("can't delete {}", ignored.display()))?;
    let mut vet = command("go");
    run(vet.current_dir(&module).args(["vet", "./..."]))?;
    let mut build = command("go");
    build.env("GOOS", "wasip1").env("GOARCH", "wasm");
    run(build.current_dir(&module).args(["build", "./..."]))?;
    Ok(module)
}

/// Copies the files of a folder that git tracks.
fn copy_tracked(from: &str, to: &Path) -> Result<()> {
    let listed = output(command("git").args(["ls-files", "-z", from]));
    let listed = listed
        .with_context(|| format!("can't list the files of {from}: is this a checkout of git?"))?;
    let files: Vec<&str> = listed.split('\0').filter(|file| !file.is_empty()).collect();
    ensure!(!files.is_empty(), "git tracks no file of {from}");
    for file in files {
        let below = Path::new(file).strip_prefix(from)?;
        copy(&workspace().join(file), &to.join(below))?;
    }
    Ok(())
}

fn copy(from: &Path, to: &Path) -> Result<()> {
    if let Some(folder) = to.parent() {
        fs::create_dir_all(folder)?;
    }
    fs::copy(from, to)
        .with_context(|| format!("can't copy {} to {}", from.display(), to.display()))?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn manifest(path: &str) -> toml::Table {
        let text = fs::read_to_string(workspace().join(path)).unwrap();
        text.parse().unwrap()
    }

    #[test]
    fn all_packages_have_the_version_of_the_workspace() {
        let package = fs::read_to_string(workspace().join("guests/sdk/js/package.json")).unwrap();
        let package: serde_json::Value = serde_json::from_str(&package).unwrap();
        assert_eq!(package["version"], VERSION);
        let python = manifest("guests/sdk/python/pyproject.toml");
        assert_eq!(python["project"]["version"].as_str(), Some(VERSION));
        let workspace = manifest("Cargo.toml");
        for name in ["flyball-types", "flyball-sdk", "flyball-sdk-macros"] {
            let dependency = &workspace["workspace"]["dependencies"][name];
            assert_eq!(dependency["version"].as_str(), Some(VERSION), "{name}");
        }
    }

    #[test]
    fn the_crates_of_the_sdk_may_be_published_and_no_others() {
        let all = output(command("cargo").args(["metadata", "--no-deps", "--format-version=1"]));
        let all: serde_json::Value = serde_json::from_str(&all.unwrap()).unwrap();
        let packages = all["packages"].as_array().unwrap().iter();
        // An empty list of registries means none.
        let published = packages.filter(|package| package["publish"].is_null());
        let mut names: Vec<&str> = published
            .map(|package| package["name"].as_str().unwrap())
            .collect();
        names.sort_unstable();
        let mut expected = CRATES;
        expected.sort_unstable();
        assert_eq!(names, expected);
    }
}
