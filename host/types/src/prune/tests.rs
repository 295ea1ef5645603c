//! The fields that pruning keeps, and the metadata that it finds in the same pass.

use super::*;

fn prune(paths: &[&str], json: &str) -> String {
    let mut out = Vec::new();
    Mask::parse(paths)
        .unwrap()
        .prune(json.as_bytes(), &mut out)
        .unwrap();
    String::from_utf8(out).unwrap()
}

const POD: &str = r#"{"kind":"Pod","apiVersion":"v1","metadata":{"name":"a","managedFields":[{"x":1}],"labels":{"l":"1","m":"2"},"uid":"u"},"spec":{"containers":[{"name":"c","image":"i"},{"image":"j"}],"nodeName":"n","x":[[{"y":1,"z":2}]]},"status":{"phase":"Running"}}"#;

#[test]
fn only_what_is_masked_is_kept() {
    assert_eq!(prune(&[], POD), r#"{"metadata":{"name":"a","uid":"u"}}"#);
    assert_eq!(
        prune(
            &[
                "metadata.labels.l",
                "spec.containers[*].name",
                "spec.x[*][*].y",
                "status"
            ],
            POD
        ),
        r#"{"metadata":{"name":"a","labels":{"l":"1"},"uid":"u"},"spec":{"containers":[{"name":"c"},{}],"x":[[{"y":1}]]},"status":{"phase":"Running"}}"#
    );
    assert_eq!(
        prune(
            &["spec.nodeName.below", "spec.containers.name", "status"],
            POD
        ),
        r#"{"metadata":{"name":"a","uid":"u"},"spec":{},"status":{"phase":"Running"}}"#
    );
}

#[test]
fn the_whole_is_all_but_managed_fields_and_the_kind() {
    let whole = prune(&["."], POD);
    let expected = POD
        .replace(r#""kind":"Pod","apiVersion":"v1","#, "")
        .replace(r#""managedFields":[{"x":1}],"#, "");
    assert_eq!(whole, expected);
    assert_eq!(
        prune(&["metadata"], POD),
        r#"{"metadata":{"name":"a","labels":{"l":"1","m":"2"},"uid":"u"}}"#
    );
}

#[test]
fn keys_that_need_escapes_keep_them() {
    assert_eq!(
        prune(&["data"], r#"{"da\u0074a":{"a\"b":1}}"#),
        r#"{"data":{"a\"b":1}}"#
    );
    assert_eq!(
        prune(&["data[*].x"], r#"{"data":{"a\"b":{"x":1,"y":2}}}"#),
        r#"{"data":{"a\"b":{"x":1}}}"#
    );
}

#[test]
fn input_other_than_an_object_is_an_error() {
    for json in ["", "[]", "1", "{", "{}{}", r#"{"metadata":[]}"#] {
        assert!(
            Mask::default()
                .prune(json.as_bytes(), &mut Vec::new())
                .is_err(),
            "{json}"
        );
    }
}

#[test]
fn a_list_keeps_its_own_metadata_and_prunes_each_item() {
    let mut out = Vec::new();
    let list = format!(
        r#"{{"kind":"PodList","metadata":{{"resourceVersion":"7"}},"items":[{POD},{POD}]}}"#
    );
    Mask::default()
        .prune_list(list.as_bytes(), &mut out, &mut || Ok(()))
        .unwrap();
    let item = r#"{"metadata":{"name":"a","uid":"u"}}"#;
    let expected = format!(
        r#"{{"kind":"PodList","metadata":{{"resourceVersion":"7"}},"items":[{item},{item}]}}"#
    );
    assert_eq!(String::from_utf8(out).unwrap(), expected);
}

#[test]
fn of_a_list_only_the_elements_that_are_meant_are_kept() {
    let pod = r#"{"status":{"conditions":[{"status":"True","reason":"r","type":"Ready"},{"type":"Other","status":"x"},3]}}"#;
    assert_eq!(
        prune(&["status.conditions[type=Ready].status"], pod),
        r#"{"status":{"conditions":[{"status":"True","type":"Ready"}]}}"#
    );
    assert_eq!(
        prune(
            &["status.conditions[type=Ready]", "status.conditions[*].type"],
            pod
        ),
        r#"{"status":{"conditions":[{"status":"True","reason":"r","type":"Ready"},{"type":"Other"}]}}"#
    );
    let both = [
        "status.conditions[type=Ready].status",
        "status.conditions[reason=r].reason",
    ];
    assert_eq!(
        prune(&both, pod),
        r#"{"status":{"conditions":[{"status":"True","reason":"r","type":"Ready"}]}}"#
    );
}
