use syn::DeriveInput;

use crate::view::View;

/// The error of a struct that must not compile.
fn error(source: &str) -> String {
    let input: DeriveInput = syn::parse_str(source).expect("the source is a struct");
    match View::parse(&input) {
        Err(error) => error.to_string(),
        Ok(_) => panic!("it compiles: {source}"),
    }
}

/// A view with these fields.
fn view(fields: &str) -> String {
    format!(r#"#[view(kind = "v1/Pod")] struct Pod {{ {fields} }}"#)
}

#[test]
fn a_misspelt_attribute_is_rejected() {
    for (source, message) in [
        ("struct Pod { a: i32 }".into(), "the view has no kind"),
        (
            r#"#[view(kind = "Pod")] struct Pod {}"#.into(),
            "`Pod` is not a kind",
        ),
        (
            r#"#[view(kinds = "v1/Pod")] struct Pod {}"#.into(),
            "unknown attribute of a view",
        ),
        (
            r#"#[view(kind = "v1/Pod", kind = "v1/Pod")] struct Pod {}"#.into(),
            "given twice",
        ),
        (
            r#"#[view(kind = "x.io/v1/Pod", until(36, "Pod"))] struct Pod {}"#.into(),
            "`Pod` is not a kind",
        ),
        (
            r#"#[view(kind = "x.io/v1/Pod", until("1.36", "x.io/v1/Pod"))] struct Pod {}"#.into(),
            "expected integer literal",
        ),
        (
            r#"#[view(kind = "v1/Pod")] struct Pod<T> { a: T }"#.into(),
            "a view can't be generic",
        ),
        (
            r#"#[view(kind = "v1/Pod")] struct Pod(i32);"#.into(),
            "a struct with named fields",
        ),
        (
            r#"#[view(kind = "v1/Pod")] enum Pod { A }"#.into(),
            "a struct with named fields",
        ),
        (view("a: i32"), "the field has no path"),
        (
            view(r#"#[view(path = "a", only("b"))] a: i32"#),
            "unknown attribute of a field",
        ),
        (
            view(r#"#[view(path = "a", path = "b")] a: i32"#),
            "given twice",
        ),
        (
            view(r#"#[view(path = "a", fields("b", "c", "b"))] a: i32"#),
            "`b` is named twice",
        ),
        (
            view(r#"#[view(path = "spec", fields())] a: i32"#),
            "`fields()` reads nothing here",
        ),
    ] {
        let error = error(&source);
        assert!(error.contains(message), "{source}: {error}");
    }
}

#[test]
fn a_misspelt_path_is_rejected() {
    for (path, message) in [
        ("spec..replicas", "`spec..replicas` is not a field path"),
        ("spec.containers[0]", "is not a field path"),
        (".", "no field for the whole object"),
    ] {
        let error = error(&view(&format!(r#"#[view(path = "{path}")] a: i32"#)));
        assert!(error.contains(message), "{path}: {error}");
    }
    let narrowed = error(&view(r#"#[view(path = "spec", fields("a..b"))] a: i32"#));
    assert!(
        narrowed.contains("`a..b` is not a field path"),
        "{narrowed}"
    );
}

#[test]
fn two_fields_that_read_the_same_part_of_an_object_are_rejected() {
    for (one, other, message) in [
        ("a.b", "a.b", "another field reads `a.b` already"),
        ("a.b", "a['b']", "another field reads `a.b` already"),
        ("a", "a.b", "this path lies below `a`"),
        (
            "a.b['c']",
            "a",
            "`a.b['c']`, which another field reads, lies below",
        ),
        (
            "a.c",
            "a[x=y].b",
            "`a.c` reads an object where this path reads a list",
        ),
        (
            "a[x=y].b",
            "a.c",
            "`a[x=y].b` reads a list where this path reads an object",
        ),
        (
            "a[*].b",
            "a[x=y].c",
            "`a[*].b` reads each element where this path reads one",
        ),
        (
            "a.b",
            "a[*]",
            "`a.b` reads one element where this path reads each",
        ),
        ("a[*]", "a[*].b", "this path lies below `a[*]`"),
    ] {
        let error = error(&view(&format!(
            r#"#[view(path = "{one}")] a: i32, #[view(path = "{other}")] b: i32"#
        )));
        assert!(error.contains(message), "{one} and {other}: {error}");
    }
}

#[test]
fn disjoint_paths_are_accepted() {
    let source = view(
        r#"#[view(path = "metadata", fields())] a: i32,
           #[view(path = "spec.replicas")] b: i32,
           #[view(path = "spec.replicasMax")] c: i32,
           #[view(path = "spec.a['b']")] d: i32,
           #[view(path = "spec.a['c']")] e: i32,
           #[view(path = "list[x=y].a")] f: i32,
           #[view(path = "list[x=y].b")] g: i32,
           #[view(path = "list[x=z]")] h: i32,
           #[view(path = "all[*].a")] i: Vec<i32>,
           #[view(path = "all[*].b[*]")] j: Vec<i32>"#,
    );
    let input: DeriveInput = syn::parse_str(&source).expect("the source is a struct");
    let view = View::parse(&input).expect("the paths are disjoint");
    assert_eq!(view.fields.len(), 10);
    assert!(view.tree.has_filters() && view.tree.has_many());
    let many = view.fields.iter().filter(|field| field.is_many);
    assert_eq!(many.count(), 2);
}
