;; Runs for ever.
(module
  (func (export "invoke") (param i32) (result i32)
    (loop $again (br $again))
    (unreachable)))
