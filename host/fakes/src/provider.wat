;; A provider whose `call` does what the first letter of the method selects. Addresses: 0 results, 256 strings, 1024
;; the description, 4096 the heap. An error has 32 bytes with its discriminant: the kind at 4, the message at 12, `wrapped` at 20, and the time to wait
;; at 24.
(module $provider
  (import "flyball:cloud/credentials@0.1.0" "get" (func $credential (param i32 i32 i32)))

  (memory (export "memory") 2)
  (global $heap (mut i32) (i32.const 4096))
  (data (i32.const 256) "{\"bool\":true}")
  (data (i32.const 272) "{\"providerName\":\"p\"}")
  (data (i32.const 320) "Retry")
  (data (i32.const 336) "the cloud is busy")
  (data (i32.const 1024) "{{DESCRIPTION}}")

  (func $realloc (export "cabi_realloc") (param $old i32) (param $old-size i32) (param $align i32) (param $size i32) (result i32)
    (local $at i32)
    (local.set $at (i32.and (i32.add (global.get $heap) (i32.const 15)) (i32.const -16)))
    (global.set $heap (i32.add (local.get $at) (local.get $size)))
    (if (i32.gt_u (global.get $heap) (i32.mul (memory.size) (i32.const 65536)))
      (then
        (if (i32.eq (i32.const -1)
              (memory.grow (i32.add (i32.const 1) (i32.shr_u (i32.sub (global.get $heap) (i32.mul (memory.size) (i32.const 65536))) (i32.const 16)))))
          (then unreachable))))
    (local.get $at))

  (func (export "flyball:controller/guest@0.2.0#describe") (result i32)
    (i32.store (i32.const 0) (i32.const 1024))
    (i32.store (i32.const 4) (i32.const {{LENGTH}}))
    (i32.const 0))
  (func (export "flyball:controller/guest@0.2.0#route") (param i32 i32) (result i32)
    unreachable)
  (func (export "flyball:controller/guest@0.2.0#reconcile") (param i32 i32 i32 i32 i32) (result i32)
    (i32.store (i32.const 0) (i32.const 0))
    (i32.const 0))

  (func $ok (param $at i32) (param $length i32) (result i32)
    (i32.store (i32.const 0) (i32.const 0))
    (i32.store (i32.const 4) (local.get $at))
    (i32.store (i32.const 8) (local.get $length))
    (i32.const 0))

  (func (export "flyball:cloud/provider@0.1.0#capabilities") (result i32)
    (call $ok (i32.const 272) (i32.const 20)))

  (func (export "flyball:cloud/provider@0.1.0#call")
    (param $method i32) (param $method-length i32) (param $arguments i32) (param $arguments-length i32)
    (param $nodes i32) (param $nodes-length i32) (result i32)
    (local $letter i32)
    (global.set $heap (i32.const 4096))
    (local.set $letter (i32.load8_u (local.get $method)))
    ;; `arguments` returns the arguments, and `nodes` the nodes.
    (if (i32.eq (local.get $letter) (i32.const 97))
      (then (return (call $ok (local.get $arguments) (local.get $arguments-length)))))
    (if (i32.eq (local.get $letter) (i32.const 110))
      (then (return (call $ok (local.get $nodes) (local.get $nodes-length)))))
    ;; `unreachable` traps.
    (if (i32.eq (local.get $letter) (i32.const 117)) (then unreachable))
    ;; `loop` computes without end.
    (if (i32.eq (local.get $letter) (i32.const 108)) (then (loop $again (br $again))))
    ;; `outside` returns bytes beyond its memory.
    (if (i32.eq (local.get $letter) (i32.const 111))
      (then (return (call $ok (i32.const 65536) (i32.const 0x7fffffff)))))
    ;; `memory` takes more memory than there is.
    (if (i32.eq (local.get $letter) (i32.const 109))
      (then (drop (call $realloc (i32.const 0) (i32.const 0) (i32.const 1) (i32.const 0x7ffffff0)))))
    ;; `error` returns a wrapped error with a time to wait.
    (if (i32.eq (local.get $letter) (i32.const 101))
      (then
        (i32.store (i32.const 0) (i32.const 1))
        (i32.store (i32.const 4) (i32.const 320))
        (i32.store (i32.const 8) (i32.const 5))
        (i32.store (i32.const 12) (i32.const 336))
        (i32.store (i32.const 16) (i32.const 17))
        (i32.store8 (i32.const 20) (i32.const 1))
        (i32.store8 (i32.const 24) (i32.const 1))
        (i32.store (i32.const 28) (i32.const 5000))
        (return (i32.const 0))))
    ;; `credential` returns the credential of that name.
    (if (i32.eq (local.get $letter) (i32.const 99))
      (then
        (call $credential (local.get $method) (local.get $method-length) (i32.const 64))
        (if (i32.load8_u (i32.const 64))
          (then (return (call $ok (i32.load (i32.const 68)) (i32.load (i32.const 72))))))))
    (call $ok (i32.const 256) (i32.const 13)))
)
