//! The memory that this process can get: that of the machine or, as in a container, of its control group.

use std::fs;
use std::path::Path;

/// In bytes; none if it is unknown.
pub(crate) fn memory() -> Option<usize> {
    memory_under(Path::new("/"))
}

/// The memory according to the files under `root`.
fn memory_under(root: &Path) -> Option<usize> {
    let mut least = fs::read_to_string(root.join("proc/meminfo"))
        .ok()
        .and_then(|text| machine_memory(&text));
    let groups = fs::read_to_string(root.join("proc/self/cgroup")).unwrap_or_default();
    for group in groups.lines() {
        // As in `0::/kubepods/pod1` and, for the first version of control groups, `4:memory:/kubepods/pod1`.
        let mut parts = group.splitn(3, ':').skip(1);
        let (top, file) = match parts.next() {
            Some("") => ("sys/fs/cgroup", "memory.max"),
            Some("memory") => ("sys/fs/cgroup/memory", "memory.limit_in_bytes"),
            _ => continue,
        };
        let top = root.join(top);
        let path = top.join(parts.next().unwrap_or_default().trim_start_matches('/'));
        // The limits of all groups around it apply. In a container, only the topmost may be visible.
        for group in path.ancestors().take_while(|group| group.starts_with(&top)) {
            let limit = fs::read_to_string(group.join(file)).ok();
            // No number stands for no limit.
            let limit = limit.and_then(|limit| limit.trim().parse().ok());
            least = least.into_iter().chain(limit).min();
        }
    }
    least
}

/// The memory of the machine in bytes, by the text of `/proc/meminfo`.
fn machine_memory(text: &str) -> Option<usize> {
    let total = text
        .lines()
        .find_map(|line| line.strip_prefix("MemTotal:"))?;
    let kib: usize = total.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kib.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_of_the_machine_and_all_control_groups_counts() {
        let root = tempfile::tempdir().unwrap();
        let write = |path: &str, text: &str| {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        let memory = || memory_under(root.path());
        assert_eq!(memory(), None);
        write(
            "proc/meminfo",
            "MemTotal:       2048 kB\nMemFree:        1024 kB\n",
        );
        assert_eq!(memory(), Some(2048 * 1024));
        write("proc/self/cgroup", "0::/pods/one\n");
        write("sys/fs/cgroup/pods/one/memory.max", "max\n");
        assert_eq!(memory(), Some(2048 * 1024));
        write("sys/fs/cgroup/pods/memory.max", "700000\n");
        write("sys/fs/cgroup/other/memory.max", "1\n");
        assert_eq!(memory(), Some(700_000));
        write("sys/fs/cgroup/memory.max", "600000\n");
        assert_eq!(memory(), Some(600_000));
        // The group of a container is not visible under its own path.
        write("proc/self/cgroup", "5:cpu:/docker/1\n4:memory:/docker/1\n");
        write("sys/fs/cgroup/memory/memory.limit_in_bytes", "500000\n");
        assert_eq!(memory(), Some(500_000));
    }
}
