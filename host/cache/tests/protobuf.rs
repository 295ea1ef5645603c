//! Transcoding protobuf with a mask equals pruning JSON with it, for Kubernetes' samples: an object of each kind with
//! all fields set, in protobuf and in JSON.

use std::path::{Path, PathBuf};
use std::process::Command;

use flyball_cache::fuzzing::transcode_protobuf;
use flyball_types::Mask;
use serde_json::Value;

/// The minimum number of samples whose kind is in the schema.
const MIN_KINDS: usize = 90;

/// The folder of the samples, from the release that the schema was generated from.
fn samples() -> PathBuf {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("schema");
    let download = Command::new("go")
        .args(["mod", "download", "-json", "k8s.io/api"])
        .current_dir(folder)
        .output();
    let download = download.expect("the test needs `go` to download Kubernetes' samples");
    let module: Value =
        serde_json::from_slice(&download.stdout).expect("`go mod download` prints JSON");
    Path::new(module["Dir"].as_str().expect("the module was downloaded")).join("testdata/HEAD")
}

fn pruned(mask: &Mask, json: &[u8]) -> String {
    let mut kept = Vec::new();
    mask.prune(json, &mut kept).expect("an object of the API");
    String::from_utf8(kept).expect("JSON is text")
}

#[test]
fn every_kind_is_the_same_as_in_json() {
    let masks = [
        Mask::whole(),
        Mask::default(),
        Mask::parse(["metadata.annotations", "spec.template", "status"]).unwrap(),
        Mask::parse([
            "spec.containers[*].name",
            "spec.containers[*].ports[name=nameValue].containerPort",
        ])
        .unwrap(),
        Mask::parse([
            "spec.nodeName",
            "status.conditions[type=typeValue].status",
            "data",
            "rules[*].verbs",
        ])
        .unwrap(),
    ];
    let mut kinds = 0;
    for entry in std::fs::read_dir(samples()).expect("the samples can be read") {
        let path = entry.expect("the samples can be read").path();
        if path.extension().is_none_or(|extension| extension != "pb") {
            continue;
        }
        let protobuf = std::fs::read(&path).expect("a sample can be read");
        // Kinds that can't be watched, or that no supported release serves, are not in the schema.
        if transcode_protobuf(&protobuf, &masks[0])
            .is_err_and(|error| error.to_string().contains("is not in the schema"))
        {
            continue;
        }
        kinds += 1;
        let json = std::fs::read(path.with_extension("json")).expect("a sample can be read");
        let json = compact(&json);
        for mask in &masks {
            let transcoded = transcode_protobuf(&protobuf, mask)
                .unwrap_or_else(|error| panic!("{}: {error}", path.display()));
            let transcoded = String::from_utf8(transcoded).expect("JSON is text");
            assert_eq!(
                transcoded,
                pruned(mask, &json),
                "{} by {mask}",
                path.display()
            );
        }
    }
    assert!(kinds > MIN_KINDS, "only {kinds} samples were compared");
}

/// The same JSON without whitespace between its tokens, in the same order.
fn compact(json: &[u8]) -> Vec<u8> {
    let (mut compact, mut in_string, mut escaped) = (Vec::new(), false, false);
    for &byte in json {
        if in_string || !byte.is_ascii_whitespace() {
            compact.push(byte);
        }
        (in_string, escaped) = match byte {
            _ if escaped => (in_string, false),
            b'\\' => (in_string, true),
            b'"' => (!in_string, false),
            _ => (in_string, false),
        };
    }
    compact
}
