;; A pack of two nodes that wait for somebody, each in one of the two ways, and give the answer: `{"answer": …}`.
;; The first ends and says what it waits for; it is called again with the answer. The second asks in the middle of its work: it is run
;; again from its beginning, and finds the same up to there. It sets a variable, reads another, and gives that one too.
(module
  (import "openwop" "openwop_variable_set" (func $set (param i32 i32 i32 i32) (result i32)))
  (import "openwop" "openwop_variable_get" (func $get (param i32 i32) (result i64)))
  (import "openwop" "openwop_interrupt" (func $interrupt (param i32 i32) (result i64)))
  (memory (export "memory") 1)
  (data (i32.const 16) "vendor.openwop.asking")
  (data (i32.const 64) "vendor.openwop.asking.by-ending")
  (data (i32.const 128) "vendor.openwop.asking.by-call")
  (data (i32.const 176) "\"resume\"")
  (data (i32.const 192) "asked")
  (data (i32.const 208) "true")
  (data (i32.const 224) "n")
  (data (i32.const 240) "null")
  (data (i32.const 256) "{\"outcome\":\"suspended\",\"interrupt\":")
  (data (i32.const 320) "{\"kind\":\"custom\",\"data\":{\"customKind\":\"pick\"}}")
  (data (i32.const 384) "{\"outcome\":\"completed\",\"output\":{\"answer\":")
  (data (i32.const 448) ",\"n\":")
  (data (i32.const 464) "}}")

  (; json.wat ;)

  (func $pair (param $ptr i32) (param $len i32) (result i64)
    (i64.or (i64.shl (i64.extend_i32_u (local.get $len)) (i64.const 32)) (i64.extend_i32_u (local.get $ptr))))
  (func $ptr (param i64) (result i32) (i32.wrap_i64 (local.get 0)))
  (func $len (param i64) (result i32) (i32.wrap_i64 (i64.shr_u (local.get 0) (i64.const 32))))

  (func (export "openwop_abi_version") (result i32) (i32.const 1))
  (func (export "openwop_pack_name") (result i64) (call $pair (i32.const 16) (i32.const 21)))
  (func (export "openwop_node_count") (result i32) (i32.const 2))
  (func (export "openwop_node_id_at") (param $index i32) (result i64)
    (if (result i64) (local.get $index)
      (then (call $pair (i32.const 128) (i32.const 29)))
      (else (call $pair (i32.const 64) (i32.const 31)))))
  (func (export "openwop_free") (param i32 i32))

  ;; A text, or `null` where there is none.
  (func $put_or_null (param $text i64)
    (if (i64.eqz (local.get $text))
      (then (call $put (i32.const 240) (i32.const 4)))
      (else (call $put (call $ptr (local.get $text)) (call $len (local.get $text))))))

  (func (export "openwop_node_invoke") (param $index i32) (param $request i32) (param $len i32) (result i64)
    (local $answer i64) (local $n i64) (local $text i32) (local $at i32) (local $at_len i32)
    (if (local.get $index)
      (then
        (drop (call $set (i32.const 192) (i32.const 5) (i32.const 208) (i32.const 4)))
        (local.set $n (call $get (i32.const 224) (i32.const 1)))
        (local.set $answer (call $interrupt (i32.const 320) (i32.const 46))))
      (else
        (call $member (local.get $request) (i32.add (local.get $request) (local.get $len)) (i32.const 176) (i32.const 8))
        (local.set $at_len)
        (local.set $at)
        (if (local.get $at_len) (then (local.set $answer (call $pair (local.get $at) (local.get $at_len)))))))
    (local.set $text
      (call $alloc (i32.add (i32.add (call $len (local.get $answer)) (call $len (local.get $n))) (i32.const 128))))
    (global.set $out (local.get $text))
    (if (i32.or (local.get $index) (i64.ne (local.get $answer) (i64.const 0)))
      (then
        (call $put (i32.const 384) (i32.const 42))
        (call $put_or_null (local.get $answer))
        (if (local.get $index)
          (then (call $put (i32.const 448) (i32.const 5)) (call $put_or_null (local.get $n))))
        (call $put (i32.const 464) (i32.const 2)))
      (else
        (call $put (i32.const 256) (i32.const 35))
        (call $put (i32.const 320) (i32.const 46))
        (call $put (i32.const 464) (i32.const 1))))
    (call $pair (local.get $text) (i32.sub (global.get $out) (local.get $text)))))
