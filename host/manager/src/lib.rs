//! The manager: wires reflectors, router, workqueues, guests and the writer together.

mod client;
mod events;
mod identity;
mod memo;
pub mod policy;
mod rate;

/// A mutex's value. A panic under one of our locks leaves whole values behind, so poisoning says nothing.
fn lock<T>(mutex: &std::sync::Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}
