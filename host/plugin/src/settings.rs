//! The settings of wasmtime, which all guests share. Compiled code depends on them, so a change recompiles every
//! plugin.

use wasmtime::{Config, InstanceAllocationStrategy, PoolingAllocationConfig, WasmFeatures};

/// Address space reserved for one linear memory, in bytes: the maximum of a 32-bit memory, so that compiled code needs
/// no bounds checks.
const MEMORY_RESERVATION: u64 = 4 << 30;
/// Address space behind each memory whose access traps, in bytes. A load with a constant offset up to this size needs
/// no check.
const MEMORY_GUARD: u64 = 32 << 20;
/// Stack of a guest, in bytes. Interpreters recurse deeply.
pub(crate) const GUEST_STACK: usize = 1 << 20;
/// Stack of a call, in bytes: the guest's, and the same size for the host functions that it calls.
const CALL_STACK: usize = 2 << 20;
/// The part of a call's stack whose pages stay with its slot once the instance is dropped, in bytes. Most calls use less.
/// The pages of the rest are given back, or else guests that recurse deeply would leave up to 2 MiB in each slot.
const STACK_KEPT: usize = 16 << 10;
/// A Python guest has 50 core instances.
const CORE_INSTANCES_PER_COMPONENT: u32 = 64;
/// Tables in each instance slot.
pub(crate) const TABLES_PER_SLOT: u32 = 8;
/// Elements of a table. The largest table known, of a Python guest, has 9,000.
const TABLE_ELEMENTS: usize = 32_768;
/// Frames of a backtrace. More do not help to find a fault.
const BACKTRACE_FRAMES: usize = 20;

/// The parts of WebAssembly that guests may use: the output of the toolchains for Rust, Go, C, Python (componentize-py)
/// and JavaScript (componentize-js and componentize-qjs). Everything else is off, because it is code in the engine that
/// no toolchain needs and that a malicious component could reach.
const ENABLED: WasmFeatures = WasmFeatures::COMPONENT_MODEL
    .union(WasmFeatures::FLOATS)
    // On by default in LLVM, which all but Go's own compiler use.
    .union(WasmFeatures::MUTABLE_GLOBAL)
    .union(WasmFeatures::SATURATING_FLOAT_TO_INT)
    .union(WasmFeatures::SIGN_EXTENSION)
    .union(WasmFeatures::MULTI_VALUE)
    .union(WasmFeatures::REFERENCE_TYPES)
    .union(WasmFeatures::CALL_INDIRECT_OVERLONG)
    .union(WasmFeatures::BULK_MEMORY)
    .union(WasmFeatures::BULK_MEMORY_OPT)
    // For libraries that are linked when the component is built, such as Python's.
    .union(WasmFeatures::EXTENDED_CONST)
    // For an option of the compilers for Rust and C that is common for parsers of text.
    .union(WasmFeatures::SIMD)
    // The engine itself uses it between the parts of a composed component.
    .union(WasmFeatures::MULTI_MEMORY);

/// The settings that compiled code depends on.
fn common() -> Config {
    let mut config = Config::new();
    config
        .wasm_features(WasmFeatures::all().difference(ENABLED), false)
        .wasm_features(ENABLED, true)
        .epoch_interruption(true)
        .parallel_compilation(true)
        .memory_init_cow(true)
        .memory_reservation(MEMORY_RESERVATION)
        .memory_guard_size(MEMORY_GUARD)
        .guard_before_linear_memory(false)
        // Floating point must be deterministic, so that a recorded call can be replayed on any machine.
        .cranelift_nan_canonicalization(true)
        // Backtraces show the names of functions, and no positions in the code: their map is an eighth of the compiled
        // code.
        .generate_address_map(false)
        // Only tools that read files of compiled code use the symbols. They are a twentieth of the code.
        .debug_symbols(false)
        .wasm_backtrace_max_frames(std::num::NonZeroUsize::new(BACKTRACE_FRAMES))
        .max_wasm_stack(GUEST_STACK)
        .async_stack_size(CALL_STACK);
    config
}

/// Settings of an engine that only compiles, for this machine.
pub(crate) fn compiling() -> Config {
    common()
}

/// Settings of an engine that runs guests, with this number of instance slots.
pub(crate) fn running(slots: u32) -> Config {
    let mut pool = PoolingAllocationConfig::new();
    pool.total_component_instances(slots)
        .total_memories(slots)
        .total_stacks(slots)
        .total_tables(slots.saturating_mul(TABLES_PER_SLOT))
        .total_core_instances(slots.saturating_mul(CORE_INSTANCES_PER_COMPONENT))
        .max_core_instances_per_component(CORE_INSTANCES_PER_COMPONENT)
        .max_component_instance_size(8 << 20)
        .max_core_instance_size(8 << 20)
        .max_memories_per_module(4)
        .max_tables_per_module(16)
        .max_memory_size(MEMORY_RESERVATION as usize)
        .table_elements(TABLE_ELEMENTS)
        .async_stack_keep_resident(STACK_KEPT);
    let mut config = common();
    // Gives the pages of a stack back.
    config.async_stack_zeroing(true);
    config.allocation_strategy(InstanceAllocationStrategy::Pooling(pool));
    config
}

/// Settings to compile for any machine of an architecture that runs this operating system. They assume no feature of a
/// processor that not all of them have.
pub(crate) fn portable(architecture: &str) -> wasmtime::Result<Config> {
    let mut config = common();
    if cfg!(target_os = "linux") {
        config.target(&format!("{architecture}-unknown-linux-gnu"))?;
    }
    Ok(config)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_proposal_is_decided() {
        let decisions = [
            (WasmFeatures::BULK_MEMORY, true),
            (WasmFeatures::BULK_MEMORY_OPT, true),
            (WasmFeatures::CALL_INDIRECT_OVERLONG, true),
            (WasmFeatures::COMPONENT_MODEL, true),
            (WasmFeatures::EXTENDED_CONST, true),
            (WasmFeatures::FLOATS, true),
            (WasmFeatures::MULTI_MEMORY, true),
            (WasmFeatures::MULTI_VALUE, true),
            (WasmFeatures::MUTABLE_GLOBAL, true),
            (WasmFeatures::REFERENCE_TYPES, true),
            (WasmFeatures::SATURATING_FLOAT_TO_INT, true),
            (WasmFeatures::SIGN_EXTENSION, true),
            (WasmFeatures::SIMD, true),
            (WasmFeatures::CM64, false),
            (WasmFeatures::CM_ASYNC, false),
            (WasmFeatures::CM_ASYNC_STACKFUL, false),
            (WasmFeatures::CM_CANON_NAMES, false),
            (WasmFeatures::CM_ERROR_CONTEXT, false),
            (WasmFeatures::CM_FIXED_LENGTH_LISTS, false),
            (WasmFeatures::CM_GC, false),
            (WasmFeatures::CM_IMPLEMENTS, false),
            (WasmFeatures::CM_MAP, false),
            (WasmFeatures::CM_MORE_ASYNC_BUILTINS, false),
            (WasmFeatures::CM_NESTED_NAMES, false),
            (WasmFeatures::CM_THREADING, false),
            (WasmFeatures::CM_VALUES, false),
            (WasmFeatures::COMPACT_IMPORTS, false),
            (WasmFeatures::CUSTOM_DESCRIPTORS, false),
            (WasmFeatures::CUSTOM_PAGE_SIZES, false),
            (WasmFeatures::EXCEPTIONS, false),
            (WasmFeatures::FUNCTION_REFERENCES, false),
            (WasmFeatures::GC, false),
            (WasmFeatures::GC_TYPES, false),
            (WasmFeatures::LEGACY_EXCEPTIONS, false),
            (WasmFeatures::MEMORY64, false),
            (WasmFeatures::MEMORY_CONTROL, false),
            (WasmFeatures::RELAXED_SIMD, false),
            (WasmFeatures::SHARED_EVERYTHING_THREADS, false),
            (WasmFeatures::STACK_SWITCHING, false),
            (WasmFeatures::TAIL_CALL, false),
            (WasmFeatures::THREADS, false),
            (WasmFeatures::WIDE_ARITHMETIC, false),
        ];
        let mut decided = WasmFeatures::empty();
        for (feature, is_enabled) in decisions {
            assert_eq!(ENABLED.contains(feature), is_enabled, "{feature:?}");
            decided |= feature;
        }
        let forgotten = WasmFeatures::all().difference(decided);
        assert!(forgotten.is_empty(), "{forgotten:?}");
    }

    /// Counts the bits that are set. Processors have an instruction for this that the first ones of the architecture
    /// lack.
    #[cfg(target_arch = "x86_64")]
    #[test]
    fn portable_code_has_no_instruction_that_only_some_processors_have() {
        let module = "(func (export \"f\") (param i32) (result i32) (i32.popcnt (local.get 0)))";
        let component = wat::parse_str(format!("(component (core module {module}))")).unwrap();
        let has_popcnt = |config: &Config| {
            let engine = wasmtime::Engine::new(config).unwrap();
            let code = engine.precompile_component(&component).unwrap();
            // With and without a prefix for the upper registers.
            code.windows(4).any(|bytes| {
                matches!(
                    bytes,
                    [0xf3, 0x0f, 0xb8, _] | [0xf3, 0x40..=0x4f, 0x0f, 0xb8]
                )
            })
        };
        assert!(!has_popcnt(&portable("x86_64").unwrap()));
        // On the machines that run these tests, code for this machine has it.
        assert_eq!(
            has_popcnt(&compiling()),
            std::arch::is_x86_feature_detected!("popcnt")
        );
    }

    #[test]
    fn a_component_that_uses_an_unused_proposal_is_refused() {
        let engine = wasmtime::Engine::new(&compiling()).unwrap();
        let compile = |module: &str| {
            let component = format!("(component (core module {module}))");
            engine.precompile_component(&wat::parse_str(component).unwrap())
        };
        for module in [
            "(memory 1) (data \"a\") (func (memory.init 0 (i32.const 0) (i32.const 0) (i32.const 1)))",
            "(func (result i32 i32) (i32.const 1) (i32.const 2))",
            "(func (param v128) (result v128) (i8x16.neg (local.get 0)))",
            "(memory 1) (memory 1)",
            "(table 1 funcref) (table 1 funcref)",
            "(global i32 (i32.add (i32.const 1) (i32.const 2)))",
        ] {
            compile(module).unwrap_or_else(|error| panic!("{module}: {error:#}"));
        }
        for module in [
            "(memory 1 1 shared)",
            "(memory 1) (func (drop (i32.atomic.load (i32.const 0))))",
            "(memory i64 1)",
            "(memory 1 (pagesize 1))",
            "(func $f (return_call $f))",
            "(tag (param i32))",
            "(type (struct (field i32)))",
            "(type $f (func)) (func (param (ref $f)) (call_ref $f (local.get 0)))",
            "(type $f (func)) (type (cont $f))",
            "(func (param v128) (result v128) (i8x16.relaxed_swizzle (local.get 0) (local.get 0)))",
            "(func (param i64) (result i64 i64) (i64.mul_wide_s (local.get 0) (local.get 0)))",
        ] {
            assert!(compile(module).is_err(), "{module}");
        }
    }
}
