//! Attacks by files, and by the timing of changes.

use std::fs;
use std::time::Duration;

use anyhow::{Result, ensure};
use flyball_cluster_tests::{replace, until};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::ListParams;

use crate::arena::{Arena, Case, Class, faulty_as, names_limit, policy_of, space};

/// A file without any grant, and the expected message about it.
const FILES: [(&str, Class, &str); 8] = [
    ("many-watches", Class::Memory, "more than 1048576"),
    ("few-watches", Class::Memory, "more than 20000 values"),
    ("long-name", Class::Name, "more than 8192"),
    ("deep", Class::Memory, "did not return a valid description"),
    ("forged-name", Class::Name, r"is not a DNS label"),
    (
        "path-name",
        Class::Name,
        "the name `../faulty` is not a DNS label",
    ),
    (
        "built-in",
        Class::Escalation,
        "a built-in controller has the name `deployment-controller`",
    ),
    ("spin", Class::Cpu, "did not describe itself"),
];

/// Writes until it is stopped.
const WRITES: Case = Case {
    name: "writes-of-a-removed-file",
    class: Class::Lifecycle,
    policy: r#"
        [[plugins.faulty.allow]]
        kinds = ["v1/ConfigMap"]
        verbs = ["create"]
        namespaces = ["demo", "other"]
        [plugins.faulty.limits]
        writes-per-second = 5
        writes-burst = 5
    "#,
    script: r#"[{"write": {"verb": "create", "kind": "v1/ConfigMap", "namespace": "other", "count": 1000,
        "body": "{\"metadata\": {\"generateName\": \"flood-\"}}"}}]"#,
    ..Case::NONE
};
/// The same writes, by a version that another one replaces before the file is removed.
const REPLACED: Case = Case {
    name: "writes-of-a-replaced-version",
    ..WRITES
};
/// The same writes, in a namespace that the policy no longer grants.
const NARROWED: Case = Case {
    name: "writes-beyond-a-narrowed-grant",
    policy: r#"
        [[plugins.faulty.allow]]
        kinds = ["v1/ConfigMap"]
        verbs = ["create"]
        namespaces = ["demo"]
        [plugins.faulty.limits]
        writes-per-second = 5
        writes-burst = 5
    "#,
    ..WRITES
};

pub(crate) async fn all(arena: &mut Arena) -> Result<()> {
    files(arena).await?;
    odd_files(arena).await?;
    narrowed(arena).await?;
    removed(arena).await?;
    replaced(arena).await
}

/// Tests files with a faulty `describe`, without any grant.
async fn files(arena: &mut Arena) -> Result<()> {
    let file = arena.plugins.join("ungranted.wasm");
    for (mode, class, expected) in FILES {
        arena.write_policy("")?;
        let from = arena.log()?.len();
        arena.reset_peak()?;
        replace(&file, &faulty_as(mode)?)?;
        // Once the plugin's name is known, messages use it instead of the file's.
        let about = match mode {
            "built-in" => "deployment-controller",
            _ => "ungranted.wasm",
        };
        let answer = arena.says_of(mode, from, about, expected).await?;
        names_limit(mode, class, &[answer])?;
        arena.passed(mode, class, from, expected).await?;
    }
    fs::remove_file(&file)?;
    Ok(())
}

/// Files and links in the folder that aren't plugins.
async fn odd_files(arena: &mut Arena) -> Result<()> {
    let path = |name: &str| arena.plugins.join(format!("{name}.wasm"));
    let (huge, folder, link, half) = (path("huge"), path("folder"), path("device"), path("half"));
    let from = arena.log()?.len();
    arena.reset_peak()?;
    fs::File::create(&huge)?.set_len(10 << 30)?;
    fs::create_dir(&folder)?;
    std::os::unix::fs::symlink("/dev/zero", &link)?;
    fs::write(&half, &faulty_as("few-watches")?[..100_000])?;
    for (name, file, expected) in [
        ("huge-file", "huge.wasm", "67108864"),
        ("device-file", "device.wasm", "must be a regular file"),
        ("half-a-file", "half.wasm", "unexpected end"),
    ] {
        arena.says_of(name, from, file, expected).await?;
    }
    for name in [
        "huge-file",
        "folder-as-a-file",
        "device-file",
        "half-a-file",
    ] {
        arena
            .passed(
                name,
                Class::Lifecycle,
                from,
                "the file is refused, and the others run",
            )
            .await?;
    }
    fs::remove_dir(&folder)?;
    for file in [huge, link, half] {
        fs::remove_file(file)?;
    }
    // If two files hold a plugin with the same name, the one that runs stays.
    let from = arena.log()?.len();
    let second = arena.plugins.join("second.wasm");
    fs::write(&second, faulty_otherwise()?)?;
    arena
        .says_of(
            "second-file",
            from,
            "second.wasm",
            "both hold a plugin with the name `faulty`",
        )
        .await?;
    arena
        .passed(
            "second-file",
            Class::Escalation,
            from,
            "both files are named, and the first one runs",
        )
        .await?;
    fs::remove_file(second)?;
    Ok(())
}

/// A grant that is narrowed while a batch of writes runs.
async fn narrowed(arena: &mut Arena) -> Result<()> {
    let from = arena.log()?.len();
    writes(arena, &WRITES).await?;
    arena.write_policy(&policy_of(&NARROWED))?;
    let denied = "the policy does not let this plugin create v1/ConfigMap in the namespace other";
    arena.answers(NARROWED.name, from, denied).await?;
    stay_as_they_are(arena).await?;
    arena
        .passed(NARROWED.name, NARROWED.class, from, denied)
        .await
}

/// The expected effect of removing a file during its writes.
const DROPPED: &str = "writes that have not started are dropped";

/// A file that is removed while its batch of writes runs.
pub(crate) async fn removed(arena: &mut Arena) -> Result<()> {
    let file = arena.plugins.join("faulty.wasm");
    let from = arena.log()?.len();
    writes(arena, &WRITES).await?;
    fs::remove_file(&file)?;
    ends(arena).await?;
    stay_as_they_are(arena).await?;
    arena
        .passed(WRITES.name, WRITES.class, from, DROPPED)
        .await?;
    arena.write_policy("")?;
    replace(&file, &faulty_as("")?)
}

/// A file that is removed while the batch of writes of a version before it runs.
async fn replaced(arena: &mut Arena) -> Result<()> {
    let file = arena.plugins.join("faulty.wasm");
    writes(arena, &REPLACED).await?;
    let from = arena.log()?.len();
    replace(&file, &faulty_otherwise()?)?;
    arena
        .says_of(REPLACED.name, from, "faulty", "\"takes over\"")
        .await?;
    fs::remove_file(&file)?;
    ends(arena).await?;
    stay_as_they_are(arena).await?;
    arena
        .passed(REPLACED.name, REPLACED.class, from, DROPPED)
        .await
}

/// Waits until the plugin is gone from the status.
async fn ends(arena: &Arena) -> Result<()> {
    until("the plugin ends", async || {
        let status = arena.cluster().plugin("host", "faulty")?;
        Ok(status.map_or(Ok(()), |status| Err(status.to_string())))
    })
    .await
}

/// The attacker's file, with other bytes.
fn faulty_otherwise() -> Result<Vec<u8>> {
    let mut wasm = faulty_as("")?;
    // An empty custom section.
    wasm.extend([0, 2, 1, b'a']);
    Ok(wasm)
}

/// Puts the policy of a case in force, and waits until its batch of writes runs.
async fn writes(arena: &Arena, case: &Case) -> Result<()> {
    let before = written(arena).await?;
    arena.write_policy(&policy_of(case))?;
    until("the plugin writes", async || {
        let count = written(arena).await?;
        Ok(if count > before + 8 {
            Ok(())
        } else {
            Err(format!("{count} written, {before} before"))
        })
    })
    .await
}

/// Checks that no more objects are written.
async fn stay_as_they_are(arena: &Arena) -> Result<()> {
    // At five writes a second, some would be seen between the two checks.
    let before = written(arena).await?;
    tokio::time::sleep(Duration::from_secs(3)).await;
    let after = written(arena).await?;
    ensure!(
        after <= before + 1,
        "{before} were written when the writes had to end, and {after} three seconds later"
    );
    Ok(())
}

/// The number of objects that the attacker has written.
async fn written(arena: &Arena) -> Result<usize> {
    let maps = space(arena.cluster(), "other").api::<ConfigMap>();
    Ok(maps.list(&ListParams::default()).await?.items.len())
}
