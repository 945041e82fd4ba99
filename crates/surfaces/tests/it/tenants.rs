//! Two tenants use every surface at once and see nothing of each other.
//!
//! Each has its own list of calls; both lists run interleaved, then each alone on a fresh host. Every result must be
//! the same as alone.

use proptest::prelude::*;
use serde_json::{Value, json};

use crate::helper::{Host, NOW};

/// One call with few names, so that the tenants collide everywhere.
fn step() -> impl Strategy<Value = (String, Value)> {
    let name = || prop::sample::select(vec!["a", "b"]);
    let number = || 0..4_i64;
    prop_oneof![
        (name(), number()).prop_map(|(k, n)| ("kv.set".into(), json!({"key": k, "value": n}))),
        name().prop_map(|k| ("kv.get".into(), json!({"key": k}))),
        name().prop_map(|k| ("kv.delete".into(), json!({"key": k}))),
        name().prop_map(|k| ("kv.atomicIncrement".into(), json!({"key": k}))),
        (name(), number()).prop_map(|(k, n)| ("kv.cas".into(), json!({"key": k, "expect": n, "set": n + 1}))),
        Just(("kv.list".into(), json!({}))),
        (name(), number()).prop_map(|(k, n)| ("cache.put".into(), json!({"key": k, "value": n}))),
        name().prop_map(|k| ("cache.get".into(), json!({"key": k}))),
        name().prop_map(|k| ("cache.evict".into(), json!({"key": k}))),
        (name(), number()).prop_map(|(t, n)| (
            "table.upsert".into(),
            json!({"table": t, "row": {"id": n.to_string(), "n": n}})
        )),
        (name(), number())
            .prop_map(|(t, n)| ("table.insert".into(), json!({"table": t, "row": {"id": "x", "s": n}}))),
        (name(), number())
            .prop_map(|(t, n)| ("table.delete".into(), json!({"table": t, "id": n.to_string()}))),
        name().prop_map(|t| ("table.query".into(), json!({"table": t, "limit": 2}))),
        name().prop_map(|t| ("table.count".into(), json!({"table": t}))),
        (name(), number())
            .prop_map(|(s, n)| ("queueBus.publish".into(), json!({"subject": s, "payload": n}))),
        name().prop_map(|s| ("queueBus.consume".into(), json!({"subject": s}))),
        Just(("queueBus.ack".into(), json!({"deliveryToken": "LAST"}))),
        Just(("queueBus.nack".into(), json!({"deliveryToken": "LAST"}))),
        Just(("queueBus.deadLetter".into(), json!({"deliveryToken": "LAST", "reason": "r"}))),
        (name(), number())
            .prop_map(|(s, n)| ("queueBus.streamPublish".into(), json!({"stream": s, "record": n}))),
        name().prop_map(|s| ("queueBus.streamSubscribe".into(), json!({"stream": s, "fromBeginning": true}))),
        (name(), prop::sample::select(vec!["", "YQ==", "YWE="]))
            .prop_map(|(k, content)| ("blob.put".into(), json!({"key": k, "contentBase64": content}))),
        name().prop_map(|k| ("blob.get".into(), json!({"key": k}))),
        name().prop_map(|k| ("blob.delete".into(), json!({"key": k}))),
        Just(("blob.list".into(), json!({}))),
        name().prop_map(|k| ("blob.presign".into(), json!({"key": k, "expiresInSeconds": 5}))),
        (name(), any::<bool>()).prop_map(|(p, new)| {
            ("fs.write".into(), json!({"path": format!("{p}/f"), "contentBase64": "YQ==", "createOnly": new}))
        }),
        name().prop_map(|p| ("fs.read".into(), json!({"path": format!("{p}/f")}))),
        name().prop_map(|p| ("fs.delete".into(), json!({"path": format!("{p}/f")}))),
        name().prop_map(|p| ("fs.stat".into(), json!({"path": format!("{p}/f")}))),
        Just(("fs.list".into(), json!({}))),
    ]
}

/// Whose turn it is, and the call.
fn interleaving() -> impl Strategy<Value = Vec<(bool, (String, Value))>> {
    prop::collection::vec((any::<bool>(), step()), 1..60)
}

/// A tenant and the delivery that it holds.
struct Player<'a> {
    host: &'a Host,
    tenant: &'static str,
    token: String,
    salts: Vec<String>,
}

impl<'a> Player<'a> {
    fn new(host: &'a Host, tenant: &'static str) -> Self {
        Self { host, tenant, token: "none".into(), salts: Vec::new() }
    }

    /// The result without random parts: id salts and signatures.
    async fn play(&mut self, op: &str, mut args: Value) -> Value {
        if args.get("deliveryToken").is_some() {
            args["deliveryToken"] = self.token.clone().into();
        }
        let result = match self.host.try_at(NOW, self.tenant, op, args).await {
            Ok(result) => result,
            Err(refused) => json!({ "refused": refused.code.as_str() }),
        };
        if let Some(token) = result.get("deliveryToken").and_then(Value::as_str) {
            self.token = token.to_owned();
        }
        self.without_salts(result)
    }

    fn without_salts(&mut self, value: Value) -> Value {
        match value {
            Value::Object(members) => members
                .into_iter()
                .map(|(key, value)| match (key.as_str(), value) {
                    ("id" | "deliveryToken", Value::String(id)) => {
                        let (salt, rest) = id.split_once('-').unwrap_or(("", &id));
                        let place = self.salts.iter().position(|known| known == salt).unwrap_or_else(|| {
                            self.salts.push(salt.to_owned());
                            self.salts.len() - 1
                        });
                        (key, format!("salt{place}-{rest}").into())
                    }
                    ("url" | "token", _) => (key, "signed".into()),
                    (_, value) => (key, self.without_salts(value)),
                })
                .collect(),
            Value::Array(items) => items.into_iter().map(|item| self.without_salts(item)).collect(),
            plain => plain,
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 12, ..ProptestConfig::default() })]
    #[test]
    fn results_do_not_depend_on_other_tenants(steps in interleaving()) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let together = Host::open();
            // One name is a prefix of the other, and they differ in case.
            let mut players = [Player::new(&together, "ten"), Player::new(&together, "tenAnt")];
            let mut seen = [Vec::new(), Vec::new()];
            for (who, (op, args)) in &steps {
                let who = usize::from(*who);
                let answer = players[who].play(op, args.clone()).await;
                seen[who].push(answer);
            }
            for (who, tenant) in ["ten", "tenAnt"].into_iter().enumerate() {
                let alone = Host::open();
                let mut player = Player::new(&alone, tenant);
                let mut expected = Vec::new();
                for (_, (op, args)) in steps.iter().filter(|(of, _)| usize::from(*of) == who) {
                    expected.push(player.play(op, args.clone()).await);
                }
                assert_eq!(seen[who], expected, "{tenant}");
            }
        });
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn tenants_are_counted_separately() {
    let host = std::sync::Arc::new(Host::open());
    let work = ["ten", "tenAnt"].map(|tenant| {
        let host = std::sync::Arc::clone(&host);
        tokio::spawn(async move {
            for n in 0..40 {
                let own = json!({"of": tenant, "n": n});
                host.call(tenant, "kv.atomicIncrement", json!({"key": "k"})).await;
                host.call(
                    tenant,
                    "table.upsert",
                    json!({"table": "t", "row": {"id": n.to_string(), "v": own}}),
                )
                .await;
                host.call(tenant, "queueBus.publish", json!({"subject": "s", "payload": own})).await;
                host.call(tenant, "queueBus.streamPublish", json!({"stream": "s", "record": own})).await;
                host.call(tenant, "cache.put", json!({"key": "k", "value": own})).await;
            }
            let value = &host.call(tenant, "kv.get", json!({"key": "k"})).await["value"];
            assert_eq!(value, &json!(40));
            assert_eq!(host.call(tenant, "table.count", json!({"table": "t"})).await["count"], 40);
            let records = host
                .call(tenant, "queueBus.streamSubscribe", json!({"stream": "s", "fromBeginning": true}))
                .await;
            for (n, record) in records["records"].as_array().unwrap().iter().enumerate() {
                assert_eq!(record["payload"], json!({"of": tenant, "n": n}));
            }
            for n in 0..40 {
                let message = host.call(tenant, "queueBus.consume", json!({"subject": "s"})).await;
                assert_eq!(message["payload"], json!({"of": tenant, "n": n}));
            }
            assert_eq!(host.call(tenant, "queueBus.consume", json!({"subject": "s"})).await["found"], false);
            assert_eq!(host.call(tenant, "cache.get", json!({"key": "k"})).await["value"]["of"], tenant);
        })
    });
    for done in work {
        done.await.unwrap();
    }
}
