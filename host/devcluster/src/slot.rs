//! Ports and a folder that no other control plane on the machine uses, in any process.
//!
//! A slot is a number that determines the ports and the folder. A file lock reserves the folder. A listener on the
//! first port reserves all ports of the slot, since a process with another folder for temporary files may choose the
//! same ports. The kernel releases both when the process ends in any way. So the next holder can remove the files of a
//! killed one, and a restarted server finds its port still free.

use std::fs::{self, DirBuilder, File, TryLockError};
use std::net::{Ipv4Addr, TcpListener};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::{env, io, process};

use anyhow::{Context, bail};

/// The first port of the first slot. All ports are below the range of outgoing connections (from 32768 by default).
/// Otherwise an outgoing connection could take a port after it was found free and before it is bound.
const FIRST_PORT: u16 = 21_000;
const PORTS_PER_SLOT: u16 = 5;
const SLOTS: u16 = 256;
/// The first of the slots that are taken by seed. Slots without a seed are taken from 0 on, so that they rarely meet.
const FIRST_SEEDED: u16 = 128;

#[derive(Debug)]
pub(crate) struct Slot {
    number: u16,
    dir: PathBuf,
    kept: bool,
    /// Locked for as long as the slot is held.
    _lock: File,
    /// Bound for as long as the slot is held. It accepts no connections.
    _guard: TcpListener,
}

impl Slot {
    /// Takes a free slot, with an empty folder: the slot of the seed or, if it is taken, one of the next. Without a seed,
    /// the first one.
    pub(crate) fn take(seed: Option<u16>) -> anyhow::Result<Self> {
        let root = root();
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&root)
            .with_context(|| {
                format!(
                    "can't create {} for the data of control planes",
                    root.display()
                )
            })?;
        for number in order(seed) {
            if let Some(slot) = Self::try_take(&root, number).with_context(|| {
                format!(
                    "can't take slot {number} for a control plane in {}",
                    root.display()
                )
            })? {
                return Ok(slot);
            }
        }
        bail!(
            "can't start a control plane: all {SLOTS} slots in {} are held or their ports ({FIRST_PORT} to {}) in use; \
             end some of the processes that run control planes",
            root.display(),
            FIRST_PORT + SLOTS * PORTS_PER_SLOT - 1,
        )
    }

    fn try_take(root: &Path, number: u16) -> io::Result<Option<Self>> {
        let lock = File::create(root.join(format!("{number}.lock")))?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Ok(None),
            Err(TryLockError::Error(error)) => return Err(error),
        }
        let bind = |i| TcpListener::bind((Ipv4Addr::LOCALHOST, port(number, i)));
        let Ok(guard) = bind(0) else { return Ok(None) };
        if (1..PORTS_PER_SLOT).any(|i| bind(i).is_err()) {
            return Ok(None);
        }
        let dir = root.join(number.to_string());
        remove(&dir)?;
        fs::create_dir(&dir)?;
        Ok(Some(Self {
            number,
            dir,
            kept: false,
            _lock: lock,
            _guard: guard,
        }))
    }

    pub(crate) fn dir(&self) -> &Path {
        &self.dir
    }

    pub(crate) fn etcd_port(&self) -> u16 {
        port(self.number, 1)
    }

    pub(crate) fn etcd_peer_port(&self) -> u16 {
        port(self.number, 2)
    }

    pub(crate) fn apiserver_port(&self) -> u16 {
        port(self.number, 3)
    }

    /// The port for another process of the test.
    pub(crate) fn spare_port(&self) -> u16 {
        port(self.number, 4)
    }

    /// Moves the folder to a path that later control planes don't remove, and returns the path.
    pub(crate) fn keep(&mut self) -> io::Result<PathBuf> {
        let to = (0..)
            .map(|n| root().join(format!("kept-{}-{}-{n}", process::id(), self.number)))
            .find(|path| !path.exists())
            .expect("an unused number exists");
        fs::rename(&self.dir, &to)?;
        self.kept = true;
        Ok(to)
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        if !self.kept
            && let Err(error) = remove(&self.dir)
        {
            eprintln!(
                "controlplane: can't remove {}: {error}; the next control plane in this slot will retry",
                self.dir.display()
            );
        }
    }
}

/// All slots in the order in which they are tried.
fn order(seed: Option<u16>) -> impl Iterator<Item = u16> {
    let first = match seed {
        Some(seed) => FIRST_SEEDED + seed % (SLOTS - FIRST_SEEDED),
        None => 0,
    };
    (first..SLOTS).chain(0..first)
}

/// The port with index `i` of a slot. Port 0 reserves the others.
fn port(slot: u16, i: u16) -> u16 {
    FIRST_PORT + slot * PORTS_PER_SLOT + i
}

/// Each user has a separate folder, since the lock files of another user can't be opened.
fn root() -> PathBuf {
    env::temp_dir().join(format!(
        "flyball-controlplane-{}",
        rustix::process::getuid().as_raw()
    ))
}

/// Removes a folder with all its content, if it exists.
pub(crate) fn remove(dir: &Path) -> io::Result<()> {
    match fs::remove_dir_all(dir) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        result => result,
    }
}

/// Copies a folder with all its content to a new path.
pub(crate) fn copy(from: &Path, to: &Path) -> io::Result<()> {
    DirBuilder::new().mode(0o700).create(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let to = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            copy(&entry.path(), &to)?;
        } else {
            fs::copy(entry.path(), to)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_slots_share_neither_folder_nor_port() {
        let (a, b) = (Slot::take(None).unwrap(), Slot::take(None).unwrap());
        assert_ne!(a.dir(), b.dir());
        let ports = |slot: &Slot| {
            [
                slot.etcd_port(),
                slot.etcd_peer_port(),
                slot.apiserver_port(),
                slot.spare_port(),
            ]
        };
        assert!(ports(&a).iter().all(|port| !ports(&b).contains(port)));
    }

    #[test]
    fn a_seed_gets_the_same_ports_again_and_others_while_they_are_taken() {
        // Of this process alone, as far as possible.
        let seed = Some(process::id() as u16);
        let first = Slot::take(seed).unwrap();
        let (ports, dir) = (first.apiserver_port(), first.dir().to_owned());
        let second = Slot::take(seed).unwrap();
        assert_ne!(second.apiserver_port(), ports);
        drop(first);
        let again = Slot::take(seed).unwrap();
        assert_eq!((again.apiserver_port(), again.dir()), (ports, &*dir));
    }

    #[test]
    fn every_slot_is_tried_once() {
        for seed in [None, Some(0), Some(300), Some(u16::MAX)] {
            let mut slots: Vec<u16> = order(seed).collect();
            assert!(seed.is_none() || slots[0] >= FIRST_SEEDED);
            slots.sort_unstable();
            assert_eq!(slots, Vec::from_iter(0..SLOTS));
        }
    }

    #[test]
    fn a_dropped_slot_leaves_no_folder() {
        let slot = Slot::take(None).unwrap();
        let dir = slot.dir().to_owned();
        fs::write(dir.join("data"), "").unwrap();
        // The lock is held until the check, so that no other test takes the slot and creates the folder again.
        let _lock = slot._lock.try_clone().unwrap();
        drop(slot);
        assert!(!dir.exists());
    }

    #[test]
    fn a_kept_folder_outlives_its_slot() {
        let mut slot = Slot::take(None).unwrap();
        fs::write(slot.dir().join("log"), "text").unwrap();
        let kept = slot.keep().unwrap();
        drop(slot);
        assert_eq!(fs::read_to_string(kept.join("log")).unwrap(), "text");
        fs::remove_dir_all(kept).unwrap();
    }
}
