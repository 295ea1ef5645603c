//! The JSON schemas in `wit/` are generated from the types that parse the documents. Tests of these types compare the
//! files with the generated schemas.

use std::path::Path;

use schemars::generate::SchemaSettings;
use schemars::transform::RecursiveTransform;
use schemars::{JsonSchema, Schema};
use serde_json::Value;

/// Panics if a file in `wit/` is not the schema of `T`. Writes the file first if the variable `BLESS` is set.
pub(crate) fn assert_current<T: JsonSchema>(file: &str) {
    let schema = SchemaSettings::draft2020_12()
        .with_transform(RecursiveTransform(tidy))
        .into_generator()
        .into_root_schema_for::<T>();
    let schema = format!("{:#}\n", schema.to_value());
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../wit")
        .join(file);
    if std::env::var_os("BLESS").is_some() {
        std::fs::write(&path, &schema).expect("the schema is written");
    }
    let committed = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        committed == schema,
        "wit/{file} is out of date: write it with BLESS=1 cargo test -p flyball-types"
    );
}

/// Makes the schema portable: descriptions are on one line, and numbers have a maximum instead of a Rust-specific
/// format.
fn tidy(schema: &mut Schema) {
    if let Some(Value::String(text)) = schema.get("description") {
        let text = text.replace('\n', " ");
        schema.insert("description".into(), text.into());
    }
    if schema
        .get("format")
        .is_some_and(|format| format == "uint32")
    {
        schema.remove("format");
        let limit = schema.get("maximum").cloned();
        schema.insert("maximum".into(), limit.unwrap_or(u32::MAX.into()));
    }
}
