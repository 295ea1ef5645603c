//! Tests of the versions that are kept, and of the target of a rollback.

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::PathBuf;

use flyball_plugin::digest;

use super::*;

const MAX_VERSION: usize = 1000;

fn open(home: &tempfile::TempDir) -> (VersionFolder, Record) {
    VersionFolder::open(&home.path().join("state"), MAX_VERSION).unwrap()
}

fn path(folder: &VersionFolder, digest: &str) -> PathBuf {
    folder.folder.path().join(name(digest))
}

/// Records that a version runs.
fn run(record: &mut Record, digest: &str, file: &str) {
    run_from(record, digest, None, file);
}

/// Records that a version from a package runs.
fn run_from(record: &mut Record, digest: &str, package: Option<&str>, file: &str) {
    let runs = PluginFile {
        digest,
        package,
        name: None,
    };
    let version = format!("{digest}.0");
    let versions = record.after("a", runs, &version, file, Asks::default());
    record.set("a", versions);
}

#[test]
fn a_version_is_known_by_where_it_ran_from() {
    let mut record = Record::default();
    run(&mut record, "1", "1");
    run_from(&mut record, "2", Some("oci://2"), "2");
    let package = |record: &Record, digest: &str| {
        let found = record.version("a", digest).package;
        found.map(str::to_owned)
    };
    assert_eq!(package(&record, "1"), None);
    assert_eq!(package(&record, "2").as_deref(), Some("oci://2"));
    // A file that takes the place of a package remains a file.
    let instead_of = Origin::Package("oci://2".into());
    let file = record.origin("a", "1", &instead_of);
    assert_eq!(file, Origin::File("sha256:1".into()));
    assert_eq!(record.origin("a", "2", &file), instead_of);
    // The addresses of removed versions are removed, too.
    for digest in ["3", "4", "5", "6"] {
        run(&mut record, digest, digest);
    }
    assert_eq!(package(&record, "2").as_deref(), Some("oci://2"));
    run(&mut record, "7", "7");
    assert_eq!(package(&record, "2"), None);
}

/// The version that a rollback without further options leads to.
fn before<'a>(record: &'a Record, file: &'a str) -> Result<&'a str, RollbackError> {
    record.target("a", file, &RollbackTo::Previous)
}

#[test]
fn a_rollback_holds_until_the_file_changes() {
    let mut record = Record::default();
    run(&mut record, "1", "1");
    run(&mut record, "2", "2");
    assert_eq!(before(&record, "2"), Ok("1"));
    record.pin("a", "1", "2");
    run(&mut record, "1", "2");
    assert_eq!(record.pinned("a", "2"), Some("1"));
    assert_eq!(record.pinned("a", "3"), None);
    run(&mut record, "3", "3");
    assert_eq!(record.of("a").unwrap().pin, None);
}

#[test]
fn a_second_rollback_never_leads_to_the_version_that_the_first_one_left() {
    let mut record = Record::default();
    run(&mut record, "1", "1");
    run(&mut record, "2", "2");
    record.pin("a", "1", "2");
    assert_eq!(before(&record, "2"), Ok("1"), "before it runs");
    run(&mut record, "1", "2");
    assert_eq!(before(&record, "2"), Ok("1"), "while it runs");
    assert_eq!(before(&record, "3"), Ok("1"), "while a new file waits");
    run(&mut record, "3", "3");
    assert_eq!(before(&record, "3"), Ok("1"), "after a new file");
}

#[test]
fn a_rollback_ends_with_the_version_of_the_file() {
    let mut record = Record::default();
    run(&mut record, "1", "1");
    run(&mut record, "2", "2");
    record.pin("a", "1", "2");
    run(&mut record, "1", "2");
    assert_eq!(record.target("a", "2", &RollbackTo::File), Ok("2"));
    record.pin("a", "2", "2");
    assert_eq!(record.pinned("a", "2"), None);
    run(&mut record, "2", "2");
    assert_eq!(before(&record, "2"), Ok("1"));
}

#[test]
fn a_version_is_named_by_its_own_name_or_its_digest() {
    let mut record = Record::default();
    let digests = ["aaaaaa1", "aaaaaa2", "bbbbbb3", "bbbbbb4"];
    for digest in digests {
        run(&mut record, digest, digest);
    }
    let target = |asked: &str| {
        let to = RollbackTo::Version(asked.into());
        record.target("a", "bbbbbb4", &to).map(str::to_owned)
    };
    for asked in ["aaaaaa2", "sha256:aaaaaa2", "aaaaaa2.0"] {
        assert_eq!(target(asked).as_deref(), Ok("aaaaaa2"), "{asked}");
    }
    assert_eq!(target("bbbbbb4.0").as_deref(), Ok("bbbbbb4"));
    for (asked, why) in [
        ("aaaaaa", "several versions match"),
        ("aaa", "no such version is kept"),
        ("2.0", "no such version is kept"),
    ] {
        let error = target(asked).unwrap_err().to_string();
        assert!(error.contains(why), "{asked}: {error}");
        assert!(
            error.contains("aaaaaa1.0 (sha256:aaaaaa1), aaaaaa2.0"),
            "{error}"
        );
    }
}

#[test]
fn the_latest_versions_are_kept_once_each() {
    let mut record = Record::default();
    for digest in ["1", "2", "3", "1", "4", "5", "6", "7"] {
        run(&mut record, digest, digest);
    }
    let kept: Vec<&str> = record.of("a").unwrap().digests().collect();
    assert_eq!(kept, ["7", "6", "5", "4", "1"]);
}

#[test]
fn there_is_no_rollback_without_a_version_before() {
    let mut record = Record::default();
    let none = RollbackError::NoVersionBefore("a".into());
    assert_eq!(before(&record, "1"), Err(none.clone()));
    run(&mut record, "1", "1");
    run(&mut record, "1", "1");
    assert_eq!(before(&record, "1"), Err(none));
}

#[test]
fn the_record_is_read_back_as_it_was_written() {
    let home = tempfile::tempdir().unwrap();
    let (folder, mut record) = open(&home);
    assert_eq!(record, Record::default());
    run(&mut record, "1", "1");
    run(&mut record, "2", "2");
    record.pin("a", "1", "2");
    folder.write(&record, &BTreeSet::new()).unwrap();
    assert_eq!(open(&home).1, record);
}

/// A file of this content.
fn file(home: &tempfile::TempDir, wasm: &[u8]) -> PathBuf {
    let path = home.path().join(digest(wasm));
    fs::write(&path, wasm).unwrap();
    path
}

#[test]
fn a_file_that_was_changed_since_it_was_loaded_is_not_kept() {
    let home = tempfile::tempdir().unwrap();
    let (folder, _) = open(&home);
    let loaded = digest(b"1");
    assert!(folder.keep(&loaded, &file(&home, b"2")).is_err());
    assert!(folder.read(&loaded).is_err());
}

#[test]
fn a_version_that_was_changed_on_disk_is_not_read() {
    let home = tempfile::tempdir().unwrap();
    let (folder, _) = open(&home);
    let own = digest(b"1");
    folder.keep(&own, &file(&home, b"1")).unwrap();
    assert_eq!(folder.read(&own).unwrap(), &b"1"[..]);
    fs::write(path(&folder, &own), b"changed").unwrap();
    assert!(folder.read(&own).is_err());
}

#[test]
fn a_version_that_is_a_link_or_too_large_is_not_read() {
    let home = tempfile::tempdir().unwrap();
    let (folder, _) = open(&home);
    let large = vec![0; MAX_VERSION + 1];
    for (wasm, is_link) in [(b"1".as_slice(), true), (&large, false)] {
        let digest = digest(wasm);
        fs::write(path(&folder, &digest), wasm).unwrap();
        if is_link {
            let elsewhere = home.path().join("elsewhere");
            fs::rename(path(&folder, &digest), &elsewhere).unwrap();
            symlink(&elsewhere, path(&folder, &digest)).unwrap();
        }
        assert!(folder.read(&digest).is_err(), "{is_link}");
    }
}

#[test]
fn a_record_that_others_could_have_written_is_refused() {
    let home = tempfile::tempdir().unwrap();
    let (folder, mut record) = open(&home);
    run(&mut record, "1", "1");
    folder.write(&record, &BTreeSet::new()).unwrap();
    let state = home.path().join("state");
    for (path, mode) in [(state.clone(), 0o777), (state.join(RECORD), 0o666)] {
        let before = fs::metadata(&path).unwrap().permissions();
        fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
        assert!(
            VersionFolder::open(&state, MAX_VERSION).is_err(),
            "{}",
            path.display()
        );
        fs::set_permissions(&path, before).unwrap();
    }
    assert_eq!(open(&home).1, record);
}

#[tokio::test]
async fn versions_that_nobody_can_roll_back_to_are_removed() {
    let home = tempfile::tempdir().unwrap();
    let (folder, mut record) = open(&home);
    let store = VersionStore::start(Some(folder.clone()));
    let wasm: [&[u8]; 7] = [b"1", b"2", b"3", b"4", b"5", b"6", b"7"];
    let digests = wasm.map(digest);
    for (digest, wasm) in digests.iter().zip(wasm) {
        store.keep(digest, file(&home, wasm));
        run(&mut record, digest, digest);
    }
    store.write(&record, BTreeSet::from([digests[0].clone()]), None);
    store.close().await;
    let kept = digests.map(|digest| folder.read(&digest).is_ok());
    // The first is in use. The last five are the current version, the previous one and the three before it.
    assert_eq!(kept, [true, false, true, true, true, true, true]);
}

#[tokio::test]
async fn without_a_folder_nothing_is_kept() {
    let store = VersionStore::start(None);
    assert!(!store.is_kept());
    store.keep("1", "no-such-file".into());
    assert!(store.version("1").read().await.is_err());
    store.close().await;
}
