//! A module that executes a script, written by a test.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use executors::modules::{ModuleType, Modules};
use executors::{Executors, Options};
use sandbox::{Grants, Limits, Sandbox};

/// The actions of a module, in order. It reports results by setting variables.
#[derive(Default)]
pub(super) struct Script {
    texts: Vec<String>,
    code: String,
}

/// The address of the first text in the memory of the module. The memory below is for numbers.
const FIRST_TEXT: usize = 1024;
/// The space for a text.
const TEXT: usize = 256;

impl Script {
    /// A text in the memory of the module, as a pointer and a length.
    fn text(&mut self, text: &str) -> String {
        assert!(text.len() <= TEXT);
        self.texts.push(text.to_owned());
        format!("(i32.const {}) (i32.const {})", FIRST_TEXT + (self.texts.len() - 1) * TEXT, text.len())
    }

    fn add(mut self, code: &str) -> Self {
        writeln!(self.code, "{code}").unwrap();
        self
    }

    /// Reads a channel, and sets a variable to its value, or to null.
    pub(super) fn read(mut self, channel: &str, variable: &str) -> Self {
        let (channel, variable) = (self.text(channel), self.text(variable));
        self.add(&format!("(call $keep {variable} (call $read {channel}))"))
    }

    /// Writes to a channel, and sets a variable to the status.
    pub(super) fn write(mut self, channel: &str, value: &str, variable: &str) -> Self {
        let (channel, value, variable) = (self.text(channel), self.text(value), self.text(variable));
        self.add(&format!("(call $tell {variable} (i64.extend_i32_u (call $write {channel} {value})))"))
    }

    /// Writes to a channel repeatedly.
    pub(super) fn write_often(mut self, channel: &str, value: &str, times: u32) -> Self {
        let (channel, value) = (self.text(channel), self.text(value));
        self.add(&format!(
            "(local.set $i (i32.const {times}))
             (loop $again
                (drop (call $write {channel} {value}))
                (br_if $again (local.tee $i (i32.sub (local.get $i) (i32.const 1)))))"
        ))
    }

    /// Sets a variable, and another variable to the status.
    pub(super) fn set(mut self, name: &str, value: &str, variable: &str) -> Self {
        let (name, value, variable) = (self.text(name), self.text(value), self.text(variable));
        self.add(&format!("(call $tell {variable} (i64.extend_i32_u (call $set {name} {value})))"))
    }

    /// Reads a variable, and sets another variable to its value, or to null.
    pub(super) fn get(mut self, name: &str, variable: &str) -> Self {
        let (name, variable) = (self.text(name), self.text(variable));
        self.add(&format!("(call $keep {variable} (call $get {name}))"))
    }

    /// Reads the clock and draws a number, without reporting them.
    pub(super) fn look(self) -> Self {
        self.add("(local.set $time (call $now)) (call $random (i32.const 0) (i32.const 8))")
            .add("(local.set $drawn (i64.shr_u (i64.load (i32.const 0)) (i64.const 12)))")
    }

    /// Reports the last read time and number.
    pub(super) fn tell(mut self, time: &str, drawn: &str) -> Self {
        let (time, drawn) = (self.text(time), self.text(drawn));
        self.add(&format!("(call $tell {time} (local.get $time)) (call $tell {drawn} (local.get $drawn))"))
    }

    /// Waits for an interrupt.
    pub(super) fn ask(mut self) -> Self {
        let asked = self.text(r#"{"kind":"custom","data":{"customKind":"pick"}}"#);
        self.add(&format!("(call $ask {asked}) (drop) (drop)"))
    }

    /// Sets a variable to the request of its call.
    pub(super) fn request(mut self, variable: &str) -> Self {
        let variable = self.text(variable);
        self.add(&format!("(call $keep {variable} (local.get 1) (local.get 2))"))
    }

    /// Never ends.
    pub(super) fn forever(self) -> Self {
        self.add("(loop $forever (br $forever))")
    }

    /// Ends with a failure.
    pub(super) fn fail(mut self) -> Self {
        let answer = self.text(r#"{"outcome":"failed","error":{"code":"meant","message":"meant"}}"#);
        self.add(&format!("(return {answer})"))
    }

    /// Traps.
    pub(super) fn trap(self) -> Self {
        self.add("(unreachable)")
    }

    /// The module: a pack with one node of that type.
    pub(super) fn bytes(mut self, type_id: &str) -> Vec<u8> {
        let (name, answer) = (self.text(type_id), self.text(r#"{"outcome":"completed","output":{}}"#));
        let text = self.module(&name, &answer);
        wat::parse_str(&text).unwrap_or_else(|error| panic!("{error}\n{text}"))
    }

    /// The node type for a host.
    pub(super) fn executors(self, type_id: &str, limits: Limits) -> Executors {
        let bytes = self.bytes(type_id);
        let sandbox = Sandbox::new().unwrap();
        let kind = ModuleType {
            pack: "vendor.acme.scripted@1.0.0".to_owned(),
            module: sandbox.compile(&bytes).unwrap(),
            grants: Grants::abi(),
            limits,
        };
        let modules = Modules::new(sandbox, BTreeMap::from([(type_id.to_owned(), kind)]));
        Executors::new(Options { modules: Some(modules), ..Options::default() })
    }

    fn module(&self, name: &str, answer: &str) -> String {
        let escaped = |text: &String| text.replace('"', "\\\"");
        let texts = self.texts.iter().enumerate();
        let data: String = texts
            .map(|(place, text)| {
                format!("(data (i32.const {}) \"{}\")\n", FIRST_TEXT + place * TEXT, escaped(text))
            })
            .collect();
        let (code, top) = (&self.code, FIRST_TEXT + self.texts.len() * TEXT);
        format!(
            r#"(module
            (import "openwop" "openwop_channel_read" (func $read (param i32 i32) (result i32 i32)))
            (import "openwop" "openwop_channel_write" (func $write (param i32 i32 i32 i32) (result i32)))
            (import "openwop" "openwop_variable_get" (func $get (param i32 i32) (result i32 i32)))
            (import "openwop" "openwop_variable_set" (func $set (param i32 i32 i32 i32) (result i32)))
            (import "openwop" "openwop_interrupt" (func $ask (param i32 i32) (result i32 i32)))
            (import "openwop" "openwop_now_ms" (func $now (result i64)))
            (import "openwop" "openwop_random" (func $random (param i32 i32)))
            (memory (export "memory") 4)
            (data (i32.const 512) "null")
            {data}
            (global $top (mut i32) (i32.const {top}))
            (func (export "openwop_abi_version") (result i32) (i32.const 1))
            (func (export "openwop_pack_name") (result i32 i32) {name})
            (func (export "openwop_node_count") (result i32) (i32.const 1))
            (func (export "openwop_node_id_at") (param i32) (result i32 i32) {name})
            (func (export "openwop_alloc") (param i32) (result i32)
                (global.get $top) (global.set $top (i32.add (global.get $top) (local.get 0))))
            (func (export "openwop_free") (param i32 i32))
            ;; Sets a variable to a text that was read.
            (func $keep (param $name i32) (param $name_len i32) (param $ptr i32) (param $len i32)
                (if (i32.eqz (local.get $len))
                    (then (local.set $ptr (i32.const 512)) (local.set $len (i32.const 4))))
                (drop (call $set (local.get $name) (local.get $name_len) (local.get $ptr) (local.get $len))))
            ;; Sets a variable to a number, which is written from its last digit on.
            (func $tell (param $name i32) (param $name_len i32) (param $number i64) (local $at i32)
                (local.set $at (i32.const 500))
                (loop $digits
                    (local.set $at (i32.sub (local.get $at) (i32.const 1)))
                    (i32.store8 (local.get $at)
                        (i32.add (i32.const 48) (i32.wrap_i64 (i64.rem_u (local.get $number) (i64.const 10)))))
                    (local.set $number (i64.div_u (local.get $number) (i64.const 10)))
                    (br_if $digits (i64.ne (local.get $number) (i64.const 0))))
                (drop (call $set (local.get $name) (local.get $name_len) (local.get $at)
                    (i32.sub (i32.const 500) (local.get $at)))))
            (func (export "openwop_node_invoke") (param i32 i32 i32) (result i32 i32)
                (local $i i32) (local $time i64) (local $drawn i64)
                {code}
                {answer}))"#
        )
    }
}
