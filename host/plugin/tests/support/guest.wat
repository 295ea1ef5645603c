;; A guest whose `reconcile` does what the first letter of its key selects. It is written by hand against the canonical
;; ABI, so that the runtime's tests need no SDK. Addresses: 0 the outcome, 64 the results of imports, 256 strings, 1024
;; routed keys, 4096 the heap.
(module $guest
  (import "flyball:controller/lister@0.2.0" "get"
    (func $get (param i32 i32 i32 i32 i32 i32 i32 i32 i32)))
  (import "flyball:controller/lister@0.2.0" "list"
    (func $list (param i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32)))
  (import "flyball:controller/lister@0.2.0" "next" (func $next (param i32 i32 i32)))
  (import "flyball:controller/writer@0.2.0" "[constructor]batch" (func $batch (result i32)))
  (import "flyball:controller/writer@0.2.0" "[method]batch.create"
    (func $create (param i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32)))
  (import "flyball:controller/writer@0.2.0" "[method]batch.run" (func $run (param i32 i32)))
  (import "flyball:controller/writer@0.2.0" "[resource-drop]batch" (func $batch-drop (param i32)))
  (import "flyball:controller/reader@0.2.0" "[constructor]batch" (func $reads (result i32)))
  (import "flyball:controller/reader@0.2.0" "[method]batch.raw" (func $raw (param i32 i32 i32)))
  (import "flyball:controller/reader@0.2.0" "[method]batch.run" (func $run-reads (param i32 i32)))
  (import "flyball:controller/reader@0.2.0" "[resource-drop]batch" (func $reads-drop (param i32)))
  (import "flyball:controller/log@0.2.0" "write" (func $log (param i32 i32 i32 i32 i32)))
  (import "flyball:controller/clock@0.2.0" "now" (func $now (param i32)))

  (memory (export "memory") 2)
  (table $table 1 funcref)
  (global $heap (mut i32) (i32.const 4096))
  (global $calls (mut i32) (i32.const 0))
  (global $kept (mut i32) (i32.const 0))
  (global $started (mut i32) (i32.const 0))
  (data (i32.const 256) "v1/Pod")
  (data (i32.const 272) "default")
  (data (i32.const 288) "it went wrong")
  (data (i32.const 304) "{\"name\":\"a guest\"}")
  (data (i32.const 336) "/slow")

  ;; Allocates at the end of the heap, and grows the memory if necessary. Each call starts with an empty heap.
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
    (i32.store (i32.const 0) (i32.const 304))
    (i32.store (i32.const 4) (i32.const 18))
    (i32.const 0))

  ;; Returns the new object of each delta as a key with a delay of 7 ms. `!…` traps, and `?…` fails. A delta has 40
  ;; bytes: the watch at 0, the type at 8, the old object at 12, the new object at 24 (its bytes at 28 and 32), and
  ;; `initial` at 36. A key has 20 bytes.
  (func (export "flyball:controller/guest@0.2.0#route") (param $deltas i32) (param $length i32) (result i32)
    (local $at i32)
    (local $key i32)
    (local.set $key (i32.const 1024))
    (local.set $at (local.get $deltas))
    (block $end
      (loop $again
        (br_if $end (i32.eq (local.get $at) (i32.add (local.get $deltas) (i32.mul (local.get $length) (i32.const 40)))))
        (if (i32.eq (i32.load8_u (i32.load offset=28 (local.get $at))) (i32.const 33)) (then unreachable))
        (if (i32.eq (i32.load8_u (i32.load offset=28 (local.get $at))) (i32.const 63))
          (then
            (i32.store8 (i32.const 0) (i32.const 1))
            (i32.store (i32.const 4) (i32.const 288))
            (i32.store (i32.const 8) (i32.const 13))
            (return (i32.const 0))))
        (i32.store (local.get $key) (i32.const 272))
        (i32.store offset=4 (local.get $key) (i32.const 7))
        (i32.store offset=8 (local.get $key) (i32.load offset=28 (local.get $at)))
        (i32.store offset=12 (local.get $key) (i32.load offset=32 (local.get $at)))
        (i32.store offset=16 (local.get $key) (i32.const 7))
        (local.set $key (i32.add (local.get $key) (i32.const 20)))
        (local.set $at (i32.add (local.get $at) (i32.const 40)))
        (br $again)))
    (i32.store8 (i32.const 0) (i32.const 0))
    (i32.store (i32.const 4) (i32.const 1024))
    (i32.store (i32.const 8) (local.get $length))
    (i32.const 0))

  (func (export "cabi_post_flyball:controller/guest@0.2.0#reconcile") (param i32)
    (global.set $heap (i32.const 4096)))
  (func (export "cabi_post_flyball:controller/guest@0.2.0#route") (param i32)
    (global.set $heap (i32.const 4096)))

  (func $reconcile (export "flyball:controller/guest@0.2.0#reconcile")
    (param $queue i32) (param $queue-length i32) (param $key i32) (param $key-length i32) (param $attempt i32) (result i32)
    (local $do i32)
    (global.set $calls (i32.add (global.get $calls) (i32.const 1)))
    (i32.store8 (i32.const 0) (i32.const 0))
    (local.set $do (i32.load8_u (local.get $key)))
    ;; calls: requeue after the number of calls that this instance has served
    (if (i32.eq (local.get $do) (i32.const 99)) (then (call $requeue (global.get $calls))))
    ;; fail, terminal: return this outcome with a message
    (if (i32.eq (local.get $do) (i32.const 102)) (then (call $fail (i32.const 2))))
    (if (i32.eq (local.get $do) (i32.const 116)) (then (call $fail (i32.const 3))))
    ;; get: requeue after the length of the object, plus 1,000,000 for an error
    (if (i32.eq (local.get $do) (i32.const 103)) (then (call $read-one)))
    ;; page: requeue after the length of the page, plus 1,000,000 for an error
    (if (i32.eq (local.get $do) (i32.const 112)) (then (call $read-page)))
    ;; write: requeue after the number of results
    (if (i32.eq (local.get $do) (i32.const 119)) (then (call $write (i32.const 3) (i32.const 7))))
    ;; spin: loop forever
    (if (i32.eq (local.get $do) (i32.const 115)) (then (loop $again (br $again))))
    ;; memory: grow it until that fails, then trap
    (if (i32.eq (local.get $do) (i32.const 109)) (then (call $grow-memory)))
    ;; Grow: grow the memory by `attempt` MiB
    (if (i32.eq (local.get $do) (i32.const 71)) (then (drop (memory.grow (i32.mul (local.get $attempt) (i32.const 16))))))
    ;; Work: loop `attempt` million times
    (if (i32.eq (local.get $do) (i32.const 87)) (then (call $work (i32.mul (local.get $attempt) (i32.const 1000000)))))
    ;; Table: grow it until that fails, which is no error
    (if (i32.eq (local.get $do) (i32.const 84)) (then (call $grow-table)))
    ;; unreachable: log an error, then trap
    (if (i32.eq (local.get $do) (i32.const 117))
      (then (call $log (i32.const 4) (i32.const 288) (i32.const 13) (i32.const 0) (i32.const 0)) unreachable))
    ;; nest: recurse until the stack overflows
    (if (i32.eq (local.get $do) (i32.const 110)) (then (drop (call $nest (i32.const 0)))))
    ;; handles: create endlessly many
    (if (i32.eq (local.get $do) (i32.const 104))
      (then (loop $again (drop (call $batch)) (br $again))))
    ;; batch: add endlessly many writes
    (if (i32.eq (local.get $do) (i32.const 98)) (then (call $write (i32.const -1) (i32.const 65536))))
    ;; keep: keep a cursor after the call, and use it in the next call
    (if (i32.eq (local.get $do) (i32.const 107)) (then (call $keep)))
    ;; raw: `attempt` raw reads one after another, then requeue after their number
    (if (i32.eq (local.get $do) (i32.const 114)) (then (call $wait (local.get $attempt))))
    ;; all: `attempt` raw reads in one batch, then requeue after the number of successful reads
    (if (i32.eq (local.get $do) (i32.const 97)) (then (call $read-all (local.get $attempt))))
    ;; R: one raw read, then loop forever
    (if (i32.eq (local.get $do) (i32.const 82)) (then (call $wait (i32.const 1)) (loop $again (br $again))))
    ;; o: read the clock, whose import panics in some tests
    (if (i32.eq (local.get $do) (i32.const 111)) (then (call $now (i32.const 64))))
    ;; log: log endlessly
    (if (i32.eq (local.get $do) (i32.const 108))
      (then (loop $again (call $log (i32.const 2) (i32.const 288) (i32.const 13) (i32.const 0) (i32.const 0)) (br $again))))
    ;; x: pass a string that is longer than the memory
    (if (i32.eq (local.get $do) (i32.const 120))
      (then (call $log (i32.const 2) (i32.const 288) (i32.const 0x7fffffff) (i32.const 0) (i32.const 0))))
    (i32.const 0))

  (func $work (param $rounds i32)
    (loop $again
      (br_if $again (local.tee $rounds (i32.sub (local.get $rounds) (i32.const 1))))))

  (func $requeue (param $ms i32)
    (i32.store8 (i32.const 0) (i32.const 1))
    (i32.store (i32.const 4) (local.get $ms)))

  (func $fail (param $outcome i32)
    (i32.store8 (i32.const 0) (local.get $outcome))
    (i32.store (i32.const 4) (i32.const 288))
    (i32.store (i32.const 8) (i32.const 13)))

  (func $read-one
    (call $get (i32.const 256) (i32.const 6) (i32.const 272) (i32.const 7) (i32.const 272) (i32.const 7)
      (i32.const 0) (i32.const 0) (i32.const 64))
    (call $requeue
      (if (result i32) (i32.load8_u (i32.const 64))
        (then (i32.const 1000000))
        (else (i32.load (i32.const 76))))))

  ;; A page has 12 bytes after the result's tag: its bytes at 68 and 72, and the cursor at 76 and 80.
  (func $list-pods (param $limit i32)
    (call $list (i32.const 256) (i32.const 6) (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 0)
      (i32.const 0) (i32.const 0) (i32.const 0) (local.get $limit) (i32.const 64)))

  (func $read-page
    (call $list-pods (i32.const 1000))
    (call $requeue
      (if (result i32) (i32.load8_u (i32.const 64))
        (then (i32.const 1000000))
        (else (i32.load (i32.const 72))))))

  (func $write (param $count i32) (param $size i32)
    (local $handle i32)
    (local.set $handle (call $batch))
    (loop $again
      (call $create (local.get $handle)
        (i32.const 256) (i32.const 6) (i32.const 272) (i32.const 7) (i32.const 272) (i32.const 7) (i32.const 0) (i32.const 0)
        (i32.const 272) (local.get $size) (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 0))
      (br_if $again (local.tee $count (i32.sub (local.get $count) (i32.const 1)))))
    (call $run (local.get $handle) (i32.const 64))
    (call $batch-drop (local.get $handle))
    (call $requeue (i32.load (i32.const 68))))

  (func $grow-memory
    (loop $again
      (br_if $again (i32.ne (memory.grow (i32.const 16)) (i32.const -1))))
    unreachable)

  (func $grow-table
    (loop $again
      (br_if $again (i32.ne (table.grow $table (ref.null func) (i32.const 1000)) (i32.const -1)))))

  (func $nest (param $depth i32) (result i32)
    (i32.add (i32.const 1) (call $nest (i32.add (local.get $depth) (i32.const 1)))))

  (func $keep
    (if (global.get $kept)
      (then (call $next (i32.load (i32.const 80)) (i32.const 1) (i32.const 64)))
      (else
        (call $list-pods (i32.const 1))
        (if (i32.eqz (i32.load8_u (i32.const 76))) (then unreachable))
        (global.set $kept (i32.const 1)))))

  ;; A result of the batch has 36 bytes.
  (func $read-all (param $count i32)
    (local $handle i32)
    (local $at i32)
    (local $succeeded i32)
    (local.set $handle (call $reads))
    (loop $again
      (call $raw (local.get $handle) (i32.const 336) (i32.const 5))
      (br_if $again (local.tee $count (i32.sub (local.get $count) (i32.const 1)))))
    (call $run-reads (local.get $handle) (i32.const 64))
    (call $reads-drop (local.get $handle))
    (local.set $at (i32.load (i32.const 64)))
    (local.set $count (i32.load (i32.const 68)))
    (loop $again
      (local.set $succeeded (i32.add (local.get $succeeded) (i32.eqz (i32.load8_u (local.get $at)))))
      (local.set $at (i32.add (local.get $at) (i32.const 36)))
      (br_if $again (local.tee $count (i32.sub (local.get $count) (i32.const 1)))))
    (call $requeue (local.get $succeeded)))

  (func $wait (param $count i32)
    (local $done i32)
    (local $handle i32)
    (loop $again
      (local.set $handle (call $reads))
      (call $raw (local.get $handle) (i32.const 336) (i32.const 5))
      (call $run-reads (local.get $handle) (i32.const 64))
      (call $reads-drop (local.get $handle))
      (local.set $done (i32.add (local.get $done) (i32.const 1)))
      (br_if $again (i32.lt_u (local.get $done) (local.get $count))))
    (call $requeue (local.get $done))))
