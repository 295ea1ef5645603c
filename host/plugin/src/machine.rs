//! The memory and the CPU time that this process can get: the machine's or, as in a container, the limits of its
//! control groups.

use std::fs;
use std::path::{Path, PathBuf};

/// The memory in bytes; none if it is unknown.
pub(crate) fn memory() -> Option<usize> {
    memory_under(Path::new("/"))
}

/// The CPU quota in thousandths of a core; none if the whole machine may be used.
pub(crate) fn cpu_quota() -> Option<u32> {
    cpu_quota_under(Path::new("/"))
}

/// The folder of a control group that this process is in.
enum Group {
    /// Version 1 of control groups.
    V1(PathBuf),
    V2(PathBuf),
}

/// The memory according to the files under `root`.
fn memory_under(root: &Path) -> Option<usize> {
    let machine = fs::read_to_string(root.join("proc/meminfo")).ok();
    let machine = machine.and_then(|text| machine_memory(&text));
    let limit = |group| {
        let file = match group {
            Group::V1(folder) => folder.join("memory.limit_in_bytes"),
            Group::V2(folder) => folder.join("memory.max"),
        };
        // A text that is not a number means no limit.
        fs::read_to_string(file).ok()?.trim().parse().ok()
    };
    let limits = groups(root, "memory").into_iter().filter_map(limit);
    machine.into_iter().chain(limits).min()
}

/// The CPU quota according to the files under `root`.
fn cpu_quota_under(root: &Path) -> Option<u32> {
    let read = |file: PathBuf| fs::read_to_string(file).ok();
    let limit = |group| {
        // Microseconds of CPU time in a period. No number, or a negative one, stands for no limit.
        let (quota, period) = match group {
            Group::V1(folder) => (
                read(folder.join("cpu.cfs_quota_us"))?,
                read(folder.join("cpu.cfs_period_us"))?,
            ),
            Group::V2(folder) => {
                let text = read(folder.join("cpu.max"))?;
                let (quota, period) = text.split_once(' ')?;
                (quota.to_owned(), period.to_owned())
            }
        };
        let (quota, period): (u64, u64) = (quota.trim().parse().ok()?, period.trim().parse().ok()?);
        u32::try_from((quota * 1000).checked_div(period)?).ok()
    };
    groups(root, "cpu").into_iter().filter_map(limit).min()
}

/// The control groups of this process that may limit a resource. In version 1 of control groups, `controller` is the
/// resource's controller. The limits of all groups around a group apply, too. In a container, only the topmost may be
/// visible.
fn groups(root: &Path, controller: &str) -> Vec<Group> {
    let mut all = Vec::new();
    let text = fs::read_to_string(root.join("proc/self/cgroup")).unwrap_or_default();
    for line in text.lines() {
        // A line such as `0::/kubepods/pod1` or, for version 1, `4:cpu,cpuacct:/kubepods/pod1`.
        let mut parts = line.splitn(3, ':').skip(1);
        let controllers = parts.next().unwrap_or_default();
        let (top, group): (_, fn(PathBuf) -> Group) = if controllers.is_empty() {
            (root.join("sys/fs/cgroup"), Group::V2)
        } else if controllers.split(',').any(|known| known == controller) {
            (root.join("sys/fs/cgroup").join(controller), Group::V1)
        } else {
            continue;
        };
        let path = top.join(parts.next().unwrap_or_default().trim_start_matches('/'));
        let folders = path
            .ancestors()
            .take_while(|folder| folder.starts_with(&top));
        all.extend(folders.map(|folder| group(folder.to_owned())));
    }
    all
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
    fn the_least_quota_of_all_control_groups_counts() {
        let root = tempfile::tempdir().unwrap();
        let write = |path: &str, text: &str| {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        let quota = || cpu_quota_under(root.path());
        assert_eq!(quota(), None);
        write("proc/self/cgroup", "0::/pods/one\n");
        write("sys/fs/cgroup/pods/one/cpu.max", "max 100000\n");
        assert_eq!(quota(), None);
        write("sys/fs/cgroup/pods/cpu.max", "50000 100000\n");
        assert_eq!(quota(), Some(500));
        write("proc/self/cgroup", "5:cpu,cpuacct:/docker/1\n");
        write("sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n");
        write("sys/fs/cgroup/cpu/cpu.cfs_quota_us", "-1\n");
        assert_eq!(quota(), None);
        write("sys/fs/cgroup/cpu/cpu.cfs_quota_us", "150000\n");
        assert_eq!(quota(), Some(1500));
    }

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
