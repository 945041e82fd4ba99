;; Asks for a host call that nobody granted.
(module
  (import "openwop" "notInAllowedList" (func $denied (param i32) (result i32)))
  (func (export "invoke") (param i32) (result i32)
    (call $denied (local.get 0))))
