//! Any bytes, given as a mount plan and as a request to compose one.
//!
//! * Neither panics.
//! * A valid plan has only safe paths, in slots that it grants, with no more rights than granted; written down, it is
//!   valid again and has the same digest.
//! * What is composed once is composed again the same.
#![no_main]

use canon::json::{self, Limits};
use libfuzzer_sys::fuzz_target;
use serde_json::{Value, json};
use workspace::compose::{Request, compose, tree};
use workspace::plan::ValidPlan;
use workspace::plan::validate::path;
use workspace::slot::Mode;

fuzz_target!(|bytes: &[u8]| {
    if let Ok(value) = json::read(bytes, &Limits::DEFAULT) {
        check_plan(&value);
    }
    if let Ok(request) = Request::read(bytes) {
        match compose(&request, None) {
            Ok(plan) => {
                assert_eq!(compose(&request, None).expect("composed before"), plan);
                let _ = tree::tree(&plan);
                check_plan(&plan.to_value());
            }
            Err(refusal) => assert!(!refusal.envelope().suggestion().is_empty()),
        }
    }
});

fn check_plan(value: &Value) {
    for fold_case in [false, true] {
        match ValidPlan::check(value, None, fold_case) {
            Ok(plan) => {
                for entry in plan.entries() {
                    let grant = plan.grants().iter().find(|grant| grant.slot == entry.slot);
                    assert!(grant.is_some_and(|grant| grant.mode >= entry.mode), "granted");
                    assert!(entry.rel_path.is_empty() || path::check(&entry.rel_path).is_ok(), "safe");
                }
                let entries: Vec<Value> = plan
                    .entries()
                    .iter()
                    .map(|entry| {
                        json!({
                            "mountKey": entry.mount_key, "slot": entry.slot.path(), "relPath": entry.rel_path,
                            "mode": entry.mode, "source": entry.source,
                        })
                    })
                    .collect();
                let written = json!({"applyId": plan.apply_id(), "entries": entries});
                let grants: Vec<(String, Mode)> =
                    plan.grants().iter().map(|grant| (grant.slot.path(), grant.mode)).collect();
                let again = ValidPlan::check(&written, Some(&grants), fold_case).expect("valid again");
                assert_eq!(again.digest(), plan.digest());
            }
            Err(refusal) => assert!(!refusal.envelope().suggestion().is_empty()),
        }
    }
}
