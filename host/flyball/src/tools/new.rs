//! `flyball new`: creates a project with a working controller and a test.

use std::path::{Path, PathBuf};

use anyhow::{Context, bail, ensure};
use serde_json::json;

/// The SDK in the checkout that this binary was built from.
const OWN_SDK: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../guests/sdk");

/// The files of a Rust project. `{{NAME}}`, `{{CRATE}}` and `{{SDK}}` are replaced.
const FILES: [(&str, &str); 6] = [
    (
        "Cargo.toml",
        include_str!("../../templates/rust/Cargo.toml.in"),
    ),
    (
        ".cargo/config.toml",
        include_str!("../../templates/rust/config.toml.in"),
    ),
    (
        ".gitignore",
        include_str!("../../templates/rust/gitignore.in"),
    ),
    (
        "README.md",
        include_str!("../../templates/rust/README.md.in"),
    ),
    ("src/lib.rs", include_str!("../../templates/rust/lib.rs.in")),
    (
        "tests/controller.rs",
        include_str!("../../templates/rust/controller.rs.in"),
    ),
];

/// Valid names of plugins that cargo refuses as names of crates.
const RESERVED: [&str; 6] = ["test", "core", "std", "alloc", "proc-macro", "flyball-sdk"];

/// Creates a project. Returns text with the next steps.
pub(super) fn run(name: &str, dir: Option<PathBuf>, sdk: Option<&str>) -> anyhow::Result<String> {
    check(name)?;
    let dependency = dependency(sdk)?;
    let dir = dir.unwrap_or_else(|| name.into());
    let is_empty = |dir: &Path| dir.read_dir().is_ok_and(|mut files| files.next().is_none());
    ensure!(
        !dir.exists() || is_empty(&dir),
        "can't create a project in {}: the folder exists and is not empty; name another one with --dir",
        dir.display()
    );
    for (file, template) in FILES {
        let path = dir.join(file);
        let folder = path.parent().unwrap_or(&dir);
        std::fs::create_dir_all(folder)
            .with_context(|| format!("can't create {}", folder.display()))?;
        let text = template
            .replace("{{CRATE}}", &name.replace('-', "_"))
            .replace("{{NAME}}", name);
        let text = text.replace("{{SDK}}", &dependency);
        std::fs::write(&path, text).with_context(|| format!("can't write {}", path.display()))?;
    }
    Ok(format!(
        "created {dir}\n\n  cd {dir}\n  cargo test               # runs its test, without a cluster\n  flyball build            # builds {name}.wasm\n  \
         flyball policy {name}.wasm\n",
        dir = dir.display()
    ))
}

fn check(name: &str) -> anyhow::Result<()> {
    let inner = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    let is_name = (1..=63).contains(&name.len())
        && name.chars().all(inner)
        && name.starts_with(|c: char| c.is_ascii_lowercase())
        && !name.ends_with('-')
        && !name.contains("--");
    ensure!(
        is_name,
        "`{name}` can't be a plugin's name: use lower-case letters, digits and dashes, a letter first"
    );
    ensure!(
        !RESERVED.contains(&name) && !is_keyword(name),
        "`{name}` can't be a crate's name, because Rust or cargo reserves it: choose another name"
    );
    Ok(())
}

/// Whether the name is a keyword of Rust, which no crate may have as its name.
fn is_keyword(name: &str) -> bool {
    const KEYWORDS: &str = "abstract as async await become box break const continue crate do dyn else enum extern false final \
                            fn for gen if impl in let loop macro match mod move mut override priv pub ref return self static \
                            struct super trait true try type typeof unsafe unsized use virtual where while yield";
    KEYWORDS.split_whitespace().any(|keyword| keyword == name)
}

/// Returns the SDK as a dependency for `Cargo.toml`. `sdk` is a folder or a URL.
fn dependency(sdk: Option<&str>) -> anyhow::Result<String> {
    let is_url = |text: &str| {
        ["https://", "http://", "ssh://", "git://", "file://"]
            .iter()
            .any(|scheme| text.starts_with(scheme))
    };
    if let Some(url) = sdk.filter(|sdk| is_url(sdk)) {
        return Ok(format!("{{ git = {} }}", json!(url)));
    }
    let path = Path::new(sdk.unwrap_or(OWN_SDK));
    let manifest = path.join("Cargo.toml");
    let is_sdk = std::fs::read_to_string(&manifest)
        .is_ok_and(|text| text.contains("name = \"flyball-sdk\""));
    match (is_sdk, sdk) {
        (true, _) => {}
        (false, Some(given)) => {
            bail!("--sdk {given} is not Flyball's SDK: name the folder `guests/sdk` of a checkout")
        }
        (false, None) => bail!(
            "the SDK is not published yet, and the checkout that this binary was built from does not exist any more: name the \
             folder `guests/sdk` of another checkout, or the URL of its git repository, with --sdk"
        ),
    }
    let path = path
        .canonicalize()
        .with_context(|| format!("can't find {}", path.display()))?;
    let path = path
        .to_str()
        .with_context(|| format!("the path {} is not Unicode", path.display()))?;
    Ok(format!("{{ path = {} }}", json!(path)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invalid_names_of_plugins_and_crates_are_errors() {
        for name in ["", "A", "1a", "a_b", "a-", "a--b", "match", "test", "../x"] {
            assert!(check(name).is_err(), "{name}");
        }
        for name in ["a", "greeter", "my-plugin-2"] {
            assert!(check(name).is_ok(), "{name}");
        }
    }

    #[test]
    fn the_sdk_is_a_folder_or_a_repository() {
        assert_eq!(
            dependency(Some("https://x/y")).expect("a URL"),
            r#"{ git = "https://x/y" }"#
        );
        assert!(
            dependency(None)
                .expect("the checkout")
                .ends_with("guests/sdk\" }")
        );
        let error = dependency(Some("/no/such"))
            .expect_err("it does not exist")
            .to_string();
        assert!(
            error.contains("--sdk /no/such is not Flyball's SDK"),
            "{error}"
        );
    }

    #[test]
    fn existing_files_are_not_overwritten() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("Cargo.toml");
        std::fs::write(&file, "mine").expect("it is written");
        let error = run("a", Some(folder.path().into()), None)
            .expect_err("the folder is not empty")
            .to_string();
        assert!(error.contains("not empty"), "{error}");
        assert_eq!(
            std::fs::read_to_string(file).expect("the file exists"),
            "mine"
        );
    }
}
