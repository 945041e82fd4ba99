;; A pack of one node that counts words: `{"text": "one two"}` gives `{"words": 2}`.
;;
;; This is the source of nodes.wasm. The module imports nothing: it gets a request, and gives an answer. Pointer and length are two numbers.
(module
  (memory (export "memory") 1)
  (data (i32.const 16) "vendor.acme.word-count")
  (data (i32.const 64) "vendor.acme.word-count.count")
  (data (i32.const 128) "\"inputs\"")
  (data (i32.const 144) "\"text\"")
  (data (i32.const 160) "{\"outcome\":\"completed\",\"output\":{\"words\":")
  (data (i32.const 224) "}}")
  (data (i32.const 256) "{\"outcome\":\"failed\",\"error\":{\"code\":\"validation_error\",\"message\":\"`text` is required, and a text\"}}")
  (data (i32.const 384) "{\"outcome\":\"failed\",\"error\":{\"code\":\"unknown_node\",\"message\":\"there is one node\"}}")

  ;; What the module is.
  (func (export "openwop_abi_version") (result i32) (i32.const 1))
  (func (export "openwop_pack_name") (result i32 i32) (i32.const 16) (i32.const 22))
  (func (export "openwop_node_count") (result i32) (i32.const 1))
  (func (export "openwop_node_id_at") (param i32) (result i32 i32) (i32.const 64) (i32.const 28))
  (func (export "openwop_free") (param i32 i32))

  (func (export "openwop_node_invoke") (param $index i32) (param $request i32) (param $len i32) (result i32 i32)
    (local $text i32) (local $text_len i32) (local $answer i32)
    (if (local.get $index) (then (return (i32.const 384) (i32.const 82))))
    (call $member (local.get $request) (i32.add (local.get $request) (local.get $len)) (i32.const 128) (i32.const 8))
    (local.set $len)
    (local.set $request)
    (call $member (local.get $request) (i32.add (local.get $request) (local.get $len)) (i32.const 144) (i32.const 6))
    (local.set $text_len)
    (local.set $text)
    ;; No text, or something else: it says so, and the run tells why it failed.
    (if (i32.ne (call $byte (local.get $text) (i32.add (local.get $text) (local.get $text_len))) (i32.const 34))
      (then (return (i32.const 256) (i32.const 99))))
    (local.set $answer (call $alloc (i32.const 64)))
    (global.set $out (local.get $answer))
    (call $put (i32.const 160) (i32.const 41))
    ;; Without the quotes.
    (call $put_number (call $words
      (i32.add (local.get $text) (i32.const 1))
      (i32.sub (i32.add (local.get $text) (local.get $text_len)) (i32.const 1))))
    (call $put (i32.const 224) (i32.const 2))
    (local.get $answer)
    (i32.sub (global.get $out) (local.get $answer)))

  ;; How many words the JSON text [at, end) has. Spaces stand between words, and so do \n, \t and \r, which JSON writes with a backslash.
  (func $words (param $at i32) (param $end i32) (result i32)
    (local $c i32) (local $space i32) (local $inside i32) (local $words i32)
    (block $done
      (loop $next
        (br_if $done (i32.ge_u (local.get $at) (local.get $end)))
        (local.set $c (i32.load8_u (local.get $at)))
        (local.set $space (i32.eq (local.get $c) (i32.const 32)))
        (if (i32.eq (local.get $c) (i32.const 92))
          (then
            (local.set $at (i32.add (local.get $at) (i32.const 1)))
            (local.set $c (call $byte (local.get $at) (local.get $end)))
            (local.set $space (i32.or
              (i32.eq (local.get $c) (i32.const 110))
              (i32.or (i32.eq (local.get $c) (i32.const 116)) (i32.eq (local.get $c) (i32.const 114)))))))
        (if (i32.and (i32.eqz (local.get $space)) (i32.eqz (local.get $inside)))
          (then (local.set $words (i32.add (local.get $words) (i32.const 1)))))
        (local.set $inside (i32.eqz (local.get $space)))
        (local.set $at (i32.add (local.get $at) (i32.const 1)))
        (br $next)))
    (local.get $words))

  ;; Writes a number, from its last digit to its first.
  (func $put_number (param $number i32)
    (local $at i32)
    (local.set $at (i32.const 544))
    (loop $next
      (local.set $at (i32.sub (local.get $at) (i32.const 1)))
      (i32.store8 (local.get $at) (i32.add (i32.const 48) (i32.rem_u (local.get $number) (i32.const 10))))
      (local.set $number (i32.div_u (local.get $number) (i32.const 10)))
      (br_if $next (local.get $number)))
    (call $put (local.get $at) (i32.sub (i32.const 544) (local.get $at))))

  ;; --- json.wat: finds a member of an object in JSON text, which is [start, end) in memory -------------------------
  (func $byte (param $at i32) (param $end i32) (result i32)
    (if (result i32) (i32.lt_u (local.get $at) (local.get $end))
      (then (i32.load8_u (local.get $at)))
      (else (i32.const 0))))

  (func $skip_space (param $at i32) (param $end i32) (result i32)
    (local $c i32)
    (loop $next
      (local.set $c (call $byte (local.get $at) (local.get $end)))
      (if (i32.or
            (i32.or (i32.eq (local.get $c) (i32.const 32)) (i32.eq (local.get $c) (i32.const 9)))
            (i32.or (i32.eq (local.get $c) (i32.const 10)) (i32.eq (local.get $c) (i32.const 13))))
        (then (local.set $at (i32.add (local.get $at) (i32.const 1))) (br $next))))
    (local.get $at))

  ;; From the opening quote to behind the closing one.
  (func $skip_string (param $at i32) (param $end i32) (result i32)
    (local $c i32)
    (loop $next
      (local.set $at (i32.add (local.get $at) (i32.const 1)))
      (local.set $c (call $byte (local.get $at) (local.get $end)))
      (if (i32.eq (local.get $c) (i32.const 92)) ;; a backslash: what follows does not close
        (then (local.set $at (i32.add (local.get $at) (i32.const 1))) (br $next)))
      (br_if $next (i32.and
        (i32.ne (local.get $c) (i32.const 34))
        (i32.lt_u (local.get $at) (local.get $end)))))
    (i32.add (local.get $at) (i32.const 1)))

  ;; From the first byte of a value to behind its last one.
  (func $skip_value (param $at i32) (param $end i32) (result i32)
    (local $c i32) (local $depth i32)
    (loop $next
      (if (i32.ge_u (local.get $at) (local.get $end)) (then (return (local.get $end))))
      (local.set $c (i32.load8_u (local.get $at)))
      (if (i32.eq (local.get $c) (i32.const 34))
        (then
          (local.set $at (call $skip_string (local.get $at) (local.get $end)))
          (if (i32.eqz (local.get $depth)) (then (return (local.get $at))))
          (br $next)))
      ;; { is 123, [ is 91; } is 125, ] is 93: they differ in one bit from each other.
      (if (i32.eq (i32.and (local.get $c) (i32.const 0xdf)) (i32.const 91))
        (then
          (local.set $depth (i32.add (local.get $depth) (i32.const 1)))
          (local.set $at (i32.add (local.get $at) (i32.const 1)))
          (br $next)))
      (if (i32.eq (i32.and (local.get $c) (i32.const 0xdf)) (i32.const 93))
        (then
          (if (i32.le_u (local.get $depth) (i32.const 1))
            (then (return (i32.add (local.get $at) (local.get $depth)))))
          (local.set $depth (i32.sub (local.get $depth) (i32.const 1)))
          (local.set $at (i32.add (local.get $at) (i32.const 1)))
          (br $next)))
      (if (i32.and (i32.eqz (local.get $depth))
            (i32.or (i32.eq (local.get $c) (i32.const 44)) (i32.le_u (local.get $c) (i32.const 32))))
        (then (return (local.get $at))))
      (local.set $at (i32.add (local.get $at) (i32.const 1)))
      (br $next))
    (unreachable))

  (func $same (param $a i32) (param $b i32) (param $len i32) (result i32)
    (loop $next
      (if (i32.eqz (local.get $len)) (then (return (i32.const 1))))
      (if (i32.ne (i32.load8_u (local.get $a)) (i32.load8_u (local.get $b))) (then (return (i32.const 0))))
      (local.set $a (i32.add (local.get $a) (i32.const 1)))
      (local.set $b (i32.add (local.get $b) (i32.const 1)))
      (local.set $len (i32.sub (local.get $len) (i32.const 1)))
      (br $next))
    (unreachable))

  ;; The value of the member whose key, with its quotes, is [key, key + key_len): where it starts and how long it is, or
  ;; twice nothing.
  (func $member (param $at i32) (param $end i32) (param $key i32) (param $key_len i32) (result i32 i32)
    (local $key_at i32) (local $key_end i32) (local $value i32)
    (local.set $at (call $skip_space (local.get $at) (local.get $end)))
    (if (i32.ne (call $byte (local.get $at) (local.get $end)) (i32.const 123))
      (then (return (i32.const 0) (i32.const 0))))
    (loop $next
      (local.set $key_at (call $skip_space (i32.add (local.get $at) (i32.const 1)) (local.get $end)))
      (if (i32.ne (call $byte (local.get $key_at) (local.get $end)) (i32.const 34))
        (then (return (i32.const 0) (i32.const 0))))
      (local.set $key_end (call $skip_string (local.get $key_at) (local.get $end)))
      (local.set $at (call $skip_space (local.get $key_end) (local.get $end)))
      (local.set $value (call $skip_space (i32.add (local.get $at) (i32.const 1)) (local.get $end)))
      (local.set $at (call $skip_value (local.get $value) (local.get $end)))
      (if (i32.eq (i32.sub (local.get $key_end) (local.get $key_at)) (local.get $key_len))
        (then (if (call $same (local.get $key_at) (local.get $key) (local.get $key_len))
          (then (return (local.get $value) (i32.sub (local.get $at) (local.get $value)))))))
      (local.set $at (call $skip_space (local.get $at) (local.get $end)))
      (br_if $next (i32.eq (call $byte (local.get $at) (local.get $end)) (i32.const 44))))
    (i32.const 0) (i32.const 0))

  ;; --- memory that is never given back: the instance lives for one call ---------------------------------------------
  (global $top (mut i32) (i32.const 4096))

  (func $alloc (export "openwop_alloc") (param $size i32) (result i32)
    (local $at i32) (local $missing i32)
    (local.set $at (global.get $top))
    (global.set $top (i32.and
      (i32.add (i32.add (local.get $at) (local.get $size)) (i32.const 15)) (i32.const -16)))
    (local.set $missing (i32.sub
      (i32.shr_u (i32.add (global.get $top) (i32.const 65535)) (i32.const 16)) (memory.size)))
    (if (i32.gt_s (local.get $missing) (i32.const 0))
      (then (if (i32.eq (memory.grow (local.get $missing)) (i32.const -1)) (then (return (i32.const 0))))))
    (local.get $at))

  ;; --- an answer, written piece by piece -----------------------------------------------------------------------------
  (global $out (mut i32) (i32.const 0))

  (func $put (param $from i32) (param $len i32)
    (memory.copy (global.get $out) (local.get $from) (local.get $len))
    (global.set $out (i32.add (global.get $out) (local.get $len)))))
