;; A controller that makes `attempt` calls of the cloud in one batch, but at least one, each of the method that its key names. It is requeued
;; after the number of answers, plus 10,000 if the first one is an error, and 20,000 if the last one is. A call has 24 bytes,
;; and an answer 36.
(module $caller
  (import "flyball:cloud/calls@0.1.0" "run" (func $run (param i32 i32 i32 i32)))

  (memory (export "memory") 32)
  (global $heap (mut i32) (i32.const 4096))
  (data (i32.const 1024) "{{DESCRIPTION}}")

  (func (export "cabi_realloc") (param $old i32) (param $old-size i32) (param $align i32) (param $size i32) (result i32)
    (local $at i32)
    (local.set $at (i32.and (i32.add (global.get $heap) (i32.const 15)) (i32.const -16)))
    (global.set $heap (i32.add (local.get $at) (local.get $size)))
    (if (i32.gt_u (global.get $heap) (i32.const 1048576)) (then unreachable))
    (local.get $at))

  (func (export "flyball:controller/guest@0.2.0#describe") (result i32)
    (i32.store (i32.const 0) (i32.const 1024))
    (i32.store (i32.const 4) (i32.const {{LENGTH}}))
    (i32.const 0))
  (func (export "flyball:controller/guest@0.2.0#route") (param i32 i32) (result i32)
    unreachable)

  (func (export "flyball:controller/guest@0.2.0#reconcile")
    (param $queue i32) (param $queue-length i32) (param $key i32) (param $key-length i32) (param $attempt i32) (result i32)
    (local $at i32) (local $left i32) (local $answers i32) (local $count i32) (local $after i32)
    (if (i32.eqz (local.get $attempt)) (then (local.set $attempt (i32.const 1))))
    (local.set $at (i32.const 1048576))
    (local.set $left (local.get $attempt))
    (loop $again
      (i32.store (local.get $at) (local.get $key))
      (i32.store offset=4 (local.get $at) (local.get $key-length))
      (local.set $at (i32.add (local.get $at) (i32.const 24)))
      (local.set $left (i32.sub (local.get $left) (i32.const 1)))
      (br_if $again (i32.gt_s (local.get $left) (i32.const 0))))
    (call $run (i32.const 1048576) (local.get $attempt) (i32.const 0) (i32.const 64))
    (local.set $answers (i32.load (i32.const 64)))
    (local.set $count (i32.load (i32.const 68)))
    (local.set $after (local.get $count))
    (if (i32.load8_u (local.get $answers))
      (then (local.set $after (i32.add (local.get $after) (i32.const 10000)))))
    (local.set $answers
      (i32.add (local.get $answers) (i32.mul (i32.const 36) (i32.sub (local.get $count) (i32.const 1)))))
    (if (i32.load8_u (local.get $answers))
      (then (local.set $after (i32.add (local.get $after) (i32.const 20000)))))
    (global.set $heap (i32.const 4096))
    (i32.store (i32.const 0) (i32.const 1))
    (i32.store (i32.const 4) (local.get $after))
    (i32.const 0))
)
