;; Asks the host for a page and gives back what the host says. The one authority it has is the call that it is granted.
(module
  (import "openwop" "fetch" (func $fetch (param i32 i32) (result i32 i32)))
  (memory (export "memory") 1)
  (data (i32.const 16) "{\"url\":\"https://example.com/\"}")
  (global $top (mut i32) (i32.const 4096))
  (func (export "openwop_alloc") (param $size i32) (result i32)
    (local $at i32)
    (local.set $at (global.get $top))
    (global.set $top (i32.add (local.get $at) (local.get $size)))
    (local.get $at))
  (func (export "invoke") (param i32 i32) (result i32 i32)
    (call $fetch (i32.const 16) (i32.const 30))))
