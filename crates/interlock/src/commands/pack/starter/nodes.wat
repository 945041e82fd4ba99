;; The node of @PACK@ greets: `{"name": "Ada"}` gives `{"greeting": "Hello, Ada!"}`.
;;
;; This is the source of nodes.wasm. After a change, compile it again (`wat2wasm nodes.wat`, or `wasm-tools parse nodes.wat -o nodes.wasm`)
;; and check it with `interlock pack check`. You can use any language that compiles to WebAssembly: only the exports matter, which are
;; described in docs/concepts/sandbox.md. A pointer and a length are returned as two numbers.
(module
  (memory (export "memory") 1)
  (data (i32.const 16) "@PACK@")
  (data (i32.const 512) "@TYPE@")
  (data (i32.const 1024) "\"inputs\"")
  (data (i32.const 1040) "\"name\"")
  (data (i32.const 1056) "\"world\"")
  (data (i32.const 1072) "{\"outcome\":\"completed\",\"output\":{\"greeting\":\"Hello, ")
  (data (i32.const 1136) "!\"}}")
  (data (i32.const 1152) "{\"outcome\":\"failed\",\"error\":{\"code\":\"unknown_node\",\"message\":\"there is one node\"}}")

  ;; The ABI version, the pack name, and the node types, which must match pack.json.
  (func (export "openwop_abi_version") (result i32) (i32.const 1))
  (func (export "openwop_pack_name") (result i32 i32) (i32.const 16) (i32.const @PACK_BYTES@))
  (func (export "openwop_node_count") (result i32) (i32.const 1))
  (func (export "openwop_node_id_at") (param i32) (result i32 i32) (i32.const 512) (i32.const @TYPE_BYTES@))
  (func (export "openwop_free") (param i32 i32))

  ;; The request is JSON: `{"abiVersion": 1, "nodeContext": {…}, "inputs": {…}}`. So is the response.
  (func (export "openwop_node_invoke") (param $index i32) (param $request i32) (param $len i32) (result i32 i32)
    (local $name i32) (local $name_len i32) (local $answer i32)
    (if (local.get $index) (then (return (i32.const 1152) (i32.const 82))))
    (call $member (local.get $request) (i32.add (local.get $request) (local.get $len)) (i32.const 1024) (i32.const 8))
    (local.set $len)
    (local.set $request)
    (call $member (local.get $request) (i32.add (local.get $request) (local.get $len)) (i32.const 1040) (i32.const 6))
    (local.set $name_len)
    (local.set $name)
    ;; Without a name, or if it is not a string, greet the world.
    (if (i32.ne (call $byte (local.get $name) (i32.add (local.get $name) (local.get $name_len))) (i32.const 34))
      (then (local.set $name (i32.const 1056)) (local.set $name_len (i32.const 7))))
    (local.set $answer (call $alloc (i32.add (local.get $name_len) (i32.const 64))))
    (global.set $out (local.get $answer))
    (call $put (i32.const 1072) (i32.const 52))
    ;; The name is copied as JSON text without its quotes, so that it needs no escaping.
    (call $put (i32.add (local.get $name) (i32.const 1)) (i32.sub (local.get $name_len) (i32.const 2)))
    (call $put (i32.const 1136) (i32.const 4))
    (local.get $answer)
    (i32.sub (global.get $out) (local.get $answer)))

(; json.wat ;))
