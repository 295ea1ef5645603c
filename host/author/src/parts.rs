//! The parts of the world that only some guests in Go use: clouds, and HTTP requests over WASI. The world of a guest is
//! put together from those that it uses.

use std::path::Path;

use anyhow::{Context, Result};
use wit_parser::{PackageId, Resolve, WorldId};

use crate::componentize::{WITH_HTTP, WORLD, WORLD_ALONE};

/// The packages of WASI that guests in Go import, each after those that it uses.
const WASI: [(&str, &str); 3] = [
    ("io.wit", include_str!("../wasi/io.wit")),
    ("clocks.wit", include_str!("../wasi/clocks.wit")),
    ("http.wit", include_str!("../wasi/http.wit")),
];

/// The parts that a guest uses besides those of every controller.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Parts {
    /// It is a cloud, and may wait.
    pub(crate) cloud: bool,
    /// It sends HTTP requests.
    pub(crate) http: bool,
}

impl Parts {
    /// The prefixes of the interfaces that such a guest may import.
    pub(crate) fn interfaces(self) -> &'static [&'static str] {
        match self == Self::default() {
            true => &WORLD_ALONE,
            false => &WITH_HTTP,
        }
    }
}

/// The packages that worlds are made of.
pub(crate) struct Packages {
    pub(crate) resolve: Resolve,
    controller: PackageId,
}

impl Packages {
    /// Reads the packages in a folder of the world, and those of WASI.
    pub(crate) fn read(wit: &Path) -> Result<Self> {
        let mut resolve = Resolve::default();
        let (controller, _) = resolve
            .push_dir(wit)
            .with_context(|| format!("can't read the world in {}", wit.display()))?;
        let cloud = wit.join("cloud");
        resolve
            .push_dir(&cloud)
            .with_context(|| format!("can't read the world of clouds in {}", cloud.display()))?;
        for (name, text) in WASI {
            resolve.push_str(name, text)?;
        }
        Ok(Self {
            resolve,
            controller,
        })
    }

    /// The name of an interface or a world of the controllers' package, with its version.
    pub(crate) fn of_controller(&self, name: &str) -> String {
        self.resolve.packages[self.controller]
            .name
            .interface_id(name)
    }

    /// Adds a world that has these items.
    pub(crate) fn add(&mut self, name: &str, items: &[&str]) -> Result<WorldId> {
        let text = format!(
            "package flyball:{name};\nworld {name} {{ {}; }}",
            items.join("; ")
        );
        let package = self.resolve.push_str(format!("{name}.wit"), &text)?;
        self.resolve.select_world(&[package], Some(name))
    }

    /// Adds the world of a guest.
    pub(crate) fn add_guest(&mut self, parts: Parts) -> Result<WorldId> {
        let controller = format!("include {}", self.of_controller(WORLD));
        let mut items = vec![controller.as_str()];
        if parts.cloud {
            items.extend(CLOUD);
        }
        if parts.http {
            items.extend(HTTP);
        }
        self.add("plugin", &items)
    }
}

/// The items of a world that make a guest a cloud.
pub(crate) const CLOUD: [&str; 2] = [
    "import flyball:cloud/credentials@0.1.0",
    "export flyball:cloud/provider@0.1.0",
];
/// The items of a world with HTTP requests.
pub(crate) const HTTP: [&str; 1] = ["import wasi:http/outgoing-handler@0.2.0"];
/// The items of a world in which sleeping takes time.
pub(crate) const WAITING: [&str; 2] = [
    "import wasi:clocks/monotonic-clock@0.2.0",
    "import wasi:io/poll@0.2.0",
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::embedded;

    fn packages() -> Packages {
        let folder = tempfile::tempdir().unwrap();
        embedded::write_all(&embedded::WIT, folder.path()).unwrap();
        Packages::read(folder.path()).unwrap()
    }

    /// The names of the imports and of the exports of a guest's world.
    fn names(parts: Parts) -> [String; 2] {
        let mut packages = packages();
        let world = packages.add_guest(parts).unwrap();
        let resolve = &packages.resolve;
        let world = &resolve.worlds[world];
        [&world.imports, &world.exports].map(|items| {
            let names = items.keys().map(|key| resolve.name_world_key(key));
            names.collect::<Vec<_>>().join(" ")
        })
    }

    #[test]
    fn a_guest_has_the_parts_that_it_uses() {
        let [imports, exports] = names(Parts::default());
        assert!(imports.contains("flyball:controller/lister@"), "{imports}");
        assert!(
            !imports.contains("wasi:") && !imports.contains("flyball:cloud"),
            "{imports}"
        );
        assert!(
            exports.starts_with("flyball:controller/guest@"),
            "{exports}"
        );
        let both = Parts {
            cloud: true,
            http: true,
        };
        let [imports, exports] = names(both);
        for name in [
            "flyball:cloud/credentials@",
            "wasi:http/outgoing-handler@0.2.",
            "wasi:http/types@0.2.",
        ] {
            assert!(imports.contains(name), "{imports}");
        }
        assert!(!imports.contains("flyball:cloud/calls"), "{imports}");
        assert!(exports.contains("flyball:cloud/provider@"), "{exports}");
    }

    #[test]
    fn the_world_of_clouds_has_the_version_that_guests_are_built_for() {
        let world = embedded::WIT
            .iter()
            .find(|(path, _)| *path == "cloud/world.wit");
        let text = std::str::from_utf8(world.unwrap().1).unwrap();
        let (_, version) = CLOUD[0].split_once('@').unwrap();
        let package = format!("package flyball:cloud@{version};");
        assert!(text.starts_with(&package), "{CLOUD:?}");
    }
}
