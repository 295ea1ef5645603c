;; A controller that returns at once, or traps.
(module $probe
  (memory (export "memory") 32)
  (data (i32.const 1024) "{{DESCRIPTION}}")
  (func (export "cabi_realloc") (param i32 i32 i32 i32) (result i32) (i32.const 1048576))
  (func (export "flyball:controller/guest@0.2.0#describe") (result i32)
    (i32.store (i32.const 0) (i32.const 1024))
    (i32.store (i32.const 4) (i32.const {{LENGTH}}))
    (i32.const 0))
  (func (export "flyball:controller/guest@0.2.0#route") (param i32 i32) (result i32)
    unreachable)
  (func (export "flyball:controller/guest@0.2.0#reconcile") (param i32 i32 i32 i32 i32) (result i32)
    {{END}}
    (i64.store (i32.const 0) (i64.const 0))
    (i32.const 0))
)
