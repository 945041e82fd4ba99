//! Generates values that match a schema, and values that match none.

use serde_json::{Map, Value, json};

/// A deterministic pseudorandom number generator.
pub(super) struct Chance(u64);

impl Chance {
    pub(super) const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// A number less than `end`.
    pub(super) fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        usize::try_from((mixed ^ (mixed >> 31)) % end.max(1) as u64).unwrap()
    }

    pub(super) fn one_of<'v, T>(&mut self, values: &'v [T]) -> &'v T {
        &values[self.below(values.len())]
    }

    pub(super) fn coin(&mut self) -> bool {
        self.below(2) == 0
    }
}

/// Strings of common attacks.
pub(super) const HOSTILE: &[&str] = &[
    "'; DROP TABLE runs; --",
    "\" OR \"1\"=\"1",
    "1); DELETE FROM answers WHERE (1=1",
    "%' UNION SELECT hash, document FROM api_keys --",
    "x' || (SELECT document FROM webhooks) || '",
    "\u{0}",
    "a\u{0}b",
    "\r\nset-cookie: a=b",
    "../../../../etc/passwd",
    "..\\..\\windows",
    "%2e%2e%2f",
    "{{7*7}}${jndi:ldap://x}<script>alert(1)</script>",
    "\u{202e}\u{feff}e\u{301}\u{1f422}\u{10ffff}",
    "[REDACTED]",
    "-0",
    "1e400",
    "NaN",
    " ",
    "__proto__",
    "sk-aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
];

/// One of them, or a very long string.
pub(super) fn hostile(chance: &mut Chance) -> String {
    match chance.below(12) {
        0 => "x".repeat(20_000),
        _ => (*chance.one_of(HOSTILE)).to_owned(),
    }
}

/// A value of any type.
pub(super) fn anything(chance: &mut Chance) -> Value {
    let deep = (0..40).fold(json!(1), |inner, _| json!([inner]));
    let text = hostile(chance);
    let choices = [
        json!(null),
        json!(true),
        json!(-1),
        json!(0),
        json!(u64::MAX >> 11),
        json!(0.5),
        json!(text),
        json!([]),
        json!([text]),
        json!({}),
        json!({text: 1}),
        deep,
    ];
    chance.one_of(&choices).clone()
}

/// A value that matches a schema.
pub(super) fn valid(schema: &Value, components: &Value, chance: &mut Chance) -> Value {
    if let Some(name) = schema["$ref"].as_str() {
        let schema = components.pointer(name.strip_prefix("#/components").unwrap()).unwrap();
        return valid(schema, components, chance);
    }
    if let Some(value) = schema.get("const") {
        return value.clone();
    }
    if let Some(choices) = schema["enum"].as_array().or(schema["oneOf"].as_array()) {
        let choice = chance.one_of(choices);
        return if schema["enum"].is_array() { choice.clone() } else { valid(choice, components, chance) };
    }
    let kind = match &schema["type"] {
        Value::Array(kinds) => chance.one_of(kinds).as_str().unwrap(),
        Value::String(kind) => kind,
        _ => return json!({"action": "accept"}),
    };
    match kind {
        "null" => Value::Null,
        "boolean" => chance.coin().into(),
        "integer" => integer(schema, chance).into(),
        "number" => json!(1.5),
        "string" => text(schema, chance).into(),
        "array" => {
            let least = usize::try_from(schema["minItems"].as_u64().unwrap_or(0)).unwrap();
            let items = schema["items"].as_object().filter(|items| !items.is_empty());
            let count = least + chance.below(2);
            (0..count)
                .map(|_| items.map_or(json!("x"), |_| valid(&schema["items"], components, chance)))
                .collect()
        }
        _ => {
            let required: Vec<&str> =
                schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
            let mut members = Map::new();
            for (name, member) in schema["properties"].as_object().into_iter().flatten() {
                if required.contains(&name.as_str()) || chance.coin() {
                    members.insert(name.clone(), valid(member, components, chance));
                }
            }
            members.into()
        }
    }
}

fn integer(schema: &Value, chance: &mut Chance) -> i64 {
    let least = schema["minimum"].as_i64().unwrap_or(0);
    let most = schema["maximum"].as_i64().unwrap_or(i64::MAX >> 11);
    *chance.one_of(&[least, least + 1, most.min(least + 5), most])
}

fn text(schema: &Value, chance: &mut Chance) -> String {
    if schema["format"] == "uri" {
        return "https://example.com/hook".to_owned();
    }
    if schema["pattern"].as_str().is_some_and(|pattern| pattern.contains("values")) {
        return (*chance.one_of(&["values", "updates", "debug", "messages,updates"])).to_owned();
    }
    let least = usize::try_from(schema["minLength"].as_u64().unwrap_or(0)).unwrap();
    format!("{:0>least$}", format!("t{}", chance.below(1000)))
}

/// The same document with one value replaced.
pub(super) fn spoilt(body: &Value, chance: &mut Chance) -> Value {
    let mut spoilt = body.clone();
    let Some(members) = spoilt.as_object_mut() else { return anything(chance) };
    let names: Vec<String> = members.keys().cloned().collect();
    match (chance.below(6), names.is_empty()) {
        (0, _) => return anything(chance),
        (1, _) => {
            members.insert("unknownMember".into(), anything(chance));
        }
        (2, _) => {
            members.insert(hostile(chance), anything(chance));
        }
        (3, false) => {
            members.remove(chance.one_of(&names));
        }
        (4, false) => {
            members.insert(chance.one_of(&names).clone(), hostile(chance).into());
        }
        _ => {
            let name = names.first().map_or("x".to_owned(), |_| chance.one_of(&names).clone());
            members.insert(name, anything(chance));
        }
    }
    spoilt
}
