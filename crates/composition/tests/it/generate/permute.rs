//! Permutations of everything whose order has no effect (D-2).

use serde_json::Value;

/// The same input with every order-free array shuffled: sources, contributions, operations, activation hints
/// and version lists, but not what is copied through verbatim.
pub(crate) fn permuted(input: &Value, seed: u64) -> Value {
    let mut input = input.clone();
    let mut random = SplitMix(seed);
    for collection in ["builtins", "modules"] {
        for source in shuffled(input.get_mut(collection), &mut random) {
            let Some(Value::Object(contributions)) = source.get_mut("contributions") else { continue };
            for entries in contributions.values_mut() {
                for entry in shuffled(Some(entries), &mut random) {
                    shuffled(entry.get_mut("activeWhen"), &mut random);
                }
            }
        }
    }
    shuffled(input.get_mut("policy").and_then(|policy| policy.get_mut("operations")), &mut random);
    if let Some(Value::Object(versions)) = input.get_mut("supportedVersions") {
        for list in versions.values_mut() {
            shuffled(Some(list), &mut random);
        }
    }
    input
}

/// Fisher and Yates, if there is an array. The seed 0 reverses instead.
fn shuffled<'a>(value: Option<&'a mut Value>, random: &mut SplitMix) -> &'a mut [Value] {
    let Some(elements) = value.and_then(Value::as_array_mut) else { return &mut [] };
    if random.0 == 0 {
        elements.reverse();
        return elements;
    }
    for last in (1..elements.len()).rev() {
        elements.swap(last, random.below(last + 1));
    }
    elements
}

/// A generator that is deterministic.
struct SplitMix(u64);

impl SplitMix {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^= mixed >> 31;
        usize::try_from(mixed % u64::try_from(bound).expect("a length fits")).expect("below a length")
    }
}
