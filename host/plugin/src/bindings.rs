//! The bindings that wasmtime generates from `wit/`: the types of the world, a trait for each imported interface, and
//! the guest's exports. [`cloud`] has those of `wit/cloud`.

wasmtime::component::bindgen!({
    path: "../../wit",
    world: "controller",
    imports: {
        "flyball:controller/discovery": async | trappable,
        "flyball:controller/reader.[method]batch.run": async | trappable,
        "flyball:controller/signer": async | trappable,
        "flyball:controller/writer.[method]batch.run": async | trappable,
        default: trappable,
    },
    exports: { default: async },
    with: {
        "flyball:controller/lister.cursor": crate::handles::OpenCursor,
        "flyball:controller/reader.batch": crate::handles::ReadBatch,
        "flyball:controller/writer.batch": crate::handles::WriteBatch,
    },
});

pub(crate) mod cloud {
    wasmtime::component::bindgen!({
        path: ["../../wit", "../../wit/cloud"],
        world: "flyball:cloud/sdk",
        imports: {
            "flyball:cloud/calls": async | trappable,
            default: trappable,
        },
        exports: { default: async },
    });
}
