//! The settings of wasmtime, which all guests share. Compiled code depends on them, so a change recompiles every
//! plugin.

use wasmtime::{Config, InstanceAllocationStrategy, PoolingAllocationConfig};

/// Address space reserved for one linear memory, in bytes: the maximum of a 32-bit memory, so that compiled code needs
/// no bounds checks.
const MEMORY_RESERVATION: u64 = 4 << 30;
/// Address space behind each memory whose access traps, in bytes. A load with a constant offset up to this size needs
/// no check.
const MEMORY_GUARD: u64 = 32 << 20;
/// Stack of a guest, in bytes. Interpreters recurse deeply.
const GUEST_STACK: usize = 1 << 20;
/// Stack of a call, in bytes: the guest's, and the same size for the host functions that it calls.
const CALL_STACK: usize = 2 << 20;
/// A Python guest has 50 core instances.
const CORE_INSTANCES_PER_COMPONENT: u32 = 64;
/// Tables in each instance slot.
pub(crate) const TABLES_PER_SLOT: u32 = 8;
/// Elements of a table. The largest table known, of a Python guest, has 9,000.
const TABLE_ELEMENTS: usize = 32_768;
/// Frames of a backtrace. More do not help to find a fault.
const BACKTRACE_FRAMES: usize = 20;

/// The settings that compiled code depends on.
fn common() -> Config {
    let mut config = Config::new();
    config
        .epoch_interruption(true)
        .parallel_compilation(true)
        .memory_init_cow(true)
        .memory_reservation(MEMORY_RESERVATION)
        .memory_guard_size(MEMORY_GUARD)
        .guard_before_linear_memory(false)
        // Floating point must be deterministic, so that a recorded call can be replayed on any machine.
        .cranelift_nan_canonicalization(true)
        .relaxed_simd_deterministic(true)
        .wasm_backtrace_max_frames(std::num::NonZeroUsize::new(BACKTRACE_FRAMES))
        .max_wasm_stack(GUEST_STACK)
        .async_stack_size(CALL_STACK);
    config
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
        .table_elements(TABLE_ELEMENTS);
    let mut config = common();
    config.allocation_strategy(InstanceAllocationStrategy::Pooling(pool));
    config
}

/// Settings to compile for any machine of this architecture and operating system. They assume no feature of this
/// processor.
pub(crate) fn portable() -> wasmtime::Result<Config> {
    let mut config = common();
    if cfg!(target_os = "linux") {
        config.target(&format!("{}-unknown-linux-gnu", std::env::consts::ARCH))?;
    }
    Ok(config)
}
