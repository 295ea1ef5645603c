//! The settings of wasmtime: what all guests share. Compiled code depends on them, so a change recompiles every plugin.

use wasmtime::{Config, InstanceAllocationStrategy, PoolingAllocationConfig};

/// Addresses reserved for one linear memory: all that a 32-bit memory can have, so that compiled code needs no bounds checks.
const MEMORY_RESERVATION: u64 = 4 << 30;
/// Addresses behind each memory that trap: what a load's constant offset can reach without a check.
const MEMORY_GUARD: u64 = 32 << 20;
/// Stack of a guest, in bytes: interpreters recurse deeply.
const GUEST_STACK: usize = 1 << 20;
/// Stack of a call, in bytes: the guest's, and as much for the host functions that it calls.
const CALL_STACK: usize = 2 << 20;
/// A guest in Python has 50 core instances.
const CORE_INSTANCES_PER_COMPONENT: u32 = 64;
/// Tables counted for each memory that a component has.
pub(crate) const TABLES_PER_SEAT: u32 = 8;
/// Elements of a table. Python's, the largest seen, has 9,000.
const TABLE_ELEMENTS: usize = 32_768;
/// Functions of a backtrace: more say nothing.
const BACKTRACE_FRAMES: usize = 20;

/// Settings that compiled code depends on.
fn common() -> Config {
    let mut config = Config::new();
    config
        .epoch_interruption(true)
        .parallel_compilation(true)
        .memory_init_cow(true)
        .memory_reservation(MEMORY_RESERVATION)
        .memory_guard_size(MEMORY_GUARD)
        .guard_before_linear_memory(false)
        // A recorded call must replay to the last bit, on any machine.
        .cranelift_nan_canonicalization(true)
        .relaxed_simd_deterministic(true)
        .wasm_backtrace_max_frames(std::num::NonZeroUsize::new(BACKTRACE_FRAMES))
        .max_wasm_stack(GUEST_STACK)
        .async_stack_size(CALL_STACK);
    config
}

/// Settings to run guests, with room for so many memories.
pub(crate) fn running(seats: u32) -> Config {
    let mut pool = PoolingAllocationConfig::new();
    pool.total_component_instances(seats)
        .total_memories(seats)
        .total_stacks(seats)
        .total_tables(seats.saturating_mul(TABLES_PER_SEAT))
        .total_core_instances(seats.saturating_mul(CORE_INSTANCES_PER_COMPONENT))
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

/// Settings to compile for any machine of this architecture and system: no feature of this processor is assumed.
pub(crate) fn portable() -> wasmtime::Result<Config> {
    let mut config = common();
    if cfg!(target_os = "linux") {
        config.target(&format!("{}-unknown-linux-gnu", std::env::consts::ARCH))?;
    }
    Ok(config)
}
