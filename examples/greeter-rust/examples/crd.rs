//! Prints the CustomResourceDefinition, for `flyball crd`.

fn main() {
    println!("{}", greeter_rust::api::definition());
}
