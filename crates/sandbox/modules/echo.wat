;; Gives back what it got: `{"input": x}` gives `{"echoed": x}`, whatever x is; null if there is none.
(module
  (memory (export "memory") 1)
  (data (i32.const 16) "\"input\"")
  (data (i32.const 32) "{\"echoed\":")
  (data (i32.const 48) "null}")

  (; json.wat ;)

  (func (export "invoke") (param $args i32) (param $len i32) (result i32 i32)
    (local $value i32) (local $value_len i32) (local $answer i32)
    (call $member (local.get $args) (i32.add (local.get $args) (local.get $len)) (i32.const 16) (i32.const 7))
    (local.set $value_len)
    (local.set $value)
    (if (i32.eqz (local.get $value_len))
      (then (local.set $value (i32.const 48)) (local.set $value_len (i32.const 4))))
    (local.set $answer (call $alloc (i32.add (local.get $value_len) (i32.const 16))))
    (global.set $out (local.get $answer))
    (call $put (i32.const 32) (i32.const 10))
    (call $put (local.get $value) (local.get $value_len))
    (call $put (i32.const 52) (i32.const 1))
    (local.get $answer)
    (i32.sub (global.get $out) (local.get $answer))))
