//! What wasmtime generates from `wit/`: the types of the world, a trait for each of its interfaces, and the guest's exports.

wasmtime::component::bindgen!({
    path: "../../wit",
    world: "controller",
    imports: {
        "flyball:controller/reader": async | trappable,
        "flyball:controller/discovery": async | trappable,
        "flyball:controller/writer.[method]batch.run": async | trappable,
        default: trappable,
    },
    exports: { default: async },
    with: {
        "flyball:controller/lister.query": crate::world::lister::OpenQuery,
        "flyball:controller/writer.batch": crate::world::writer::OpenBatch,
    },
});
