//! Binary formats: plugin files, and objects in protobuf.

use flyball_cache::fuzzing::transcode_protobuf;
use flyball_types::Mask;

use super::{Target, Verdict, equal};

/// The maximum size of a component in bytes.
const MAX_COMPONENT_SIZE: usize = 1 << 20;

pub(super) const COMPONENT: Target = Target {
    name: "component",
    tokens: || {
        vec![
            "\0asm\x0d\0\x01\0",
            "\0asm\x01\0\0\0",
            "flyball:controller/guest@0.2.0",
            "wasi:io/poll@0.2.0",
            "\x0a",
            "\x0b",
        ]
    },
    feed: component,
};

fn component(input: &[u8]) -> Verdict {
    match flyball_plugin::check(input, MAX_COMPONENT_SIZE) {
        Ok(()) if !input.starts_with(b"\0asm") => {
            Err("an input that is not WebAssembly passes the check".into())
        }
        Ok(()) => Ok("a component".into()),
        Err(error) => Ok(error.to_string()),
    }
}

pub(super) const PROTOBUF: Target = Target {
    name: "protobuf",
    tokens: || {
        vec![
            "k8s\0", "\x0a", "\x12", "\x1a", "\0", "\x7f", "v1", "Pod", "\"", "\\", "\u{2028}",
            "{", "null",
        ]
    },
    feed: protobuf,
};

/// An object in protobuf. Transcoding with a mask must equal pruning the whole object.
fn protobuf(input: &[u8]) -> Verdict {
    let mask = Mask::parse([
        "metadata.labels",
        "spec.metrics[*].type",
        "spec.template",
        "data.a",
        "type",
    ]);
    let mask = mask.map_err(|error| error.to_string())?;
    let prune = |json: &[u8]| {
        let mut pruned = Vec::new();
        mask.prune(json, &mut pruned).map(|()| pruned)
    };
    match (
        transcode_protobuf(input, &Mask::whole()),
        transcode_protobuf(input, &mask),
    ) {
        (Ok(whole), part) => {
            // Raw JSON in the message is copied without validation, so the result may be invalid.
            let Ok(whole) = prune(&whole) else {
                return Ok("an object with invalid raw JSON".into());
            };
            let part = part.map_err(|error| {
                format!("the whole object can be decoded, but not with the mask: {error}")
            })?;
            equal(
                "the object transcoded with the mask, and pruned",
                part,
                whole,
            )?;
            Ok("an object".into())
        }
        (Err(_), Ok(_)) => Ok("an object that can be decoded only with the mask".into()),
        (Err(error), Err(_)) => Ok(error.to_string()),
    }
}
