;; Takes memory, 16 MiB at a time, until somebody ends it.
(module
  (memory (export "memory") 1)
  (func (export "invoke") (param i32) (result i32)
    (loop $more
      (br_if $more (i32.ne (memory.grow (i32.const 256)) (i32.const -1))))
    (memory.size)))
