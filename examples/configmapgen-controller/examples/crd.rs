//! Prints the CustomResourceDefinition, for `flyball crd`.

use configmapgen_controller::ConfigMapGenerator;
use kube::CustomResourceExt;

fn main() {
    let definition = serde_json::to_string(&ConfigMapGenerator::crd());
    println!("{}", definition.expect("a definition is valid JSON"));
}
