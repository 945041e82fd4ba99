;; Counts its calls in a global and in memory, and gives the larger count: `{"shared":1}` unless something stayed from an
;; earlier call.
(module
  (memory (export "memory") 1)
  (data (i32.const 16) "{\"shared\":0}")
  (global $count (mut i32) (i32.const 0))
  (func (export "openwop_alloc") (param i32) (result i32) (i32.const 4096))
  (func (export "invoke") (param i32 i32) (result i32 i32)
    (local $count i32)
    (global.set $count (i32.add (global.get $count) (i32.const 1)))
    (i32.store (i32.const 64) (i32.add (i32.load (i32.const 64)) (i32.const 1)))
    (local.set $count (select
      (global.get $count) (i32.load (i32.const 64))
      (i32.gt_u (global.get $count) (i32.load (i32.const 64)))))
    ;; One digit is enough to see more than one.
    (i32.store8 (i32.const 26) (i32.add (i32.const 48) (i32.and (local.get $count) (i32.const 7))))
    (i32.const 16) (i32.const 12)))
