//! Validates the parameters of a chain.

use serde_json::{Map, Value};

use crate::error::{PackError, PackErrorCode};
use crate::manifest::Chain;

/// The validated parameters. A missing parameter gets the `default` of its property.
pub(super) fn checked(chain: &Chain, given: &Value) -> Result<Map<String, Value>, PackError> {
    let invalid = |path: &str, message: String| {
        PackError::new(PackErrorCode::ChainParameterInvalid, message)
            .detail("path", path)
            .detail("chainId", chain.chain_id.as_str())
    };
    if !canon::json::within_depth(given, crate::schema::MAX_SCHEMA_DEPTH) {
        let bound = crate::schema::MAX_SCHEMA_DEPTH;
        return Err(invalid("", format!("the parameters are nested deeper than {bound} levels")));
    }
    let mut values = match given {
        Value::Object(values) => values.clone(),
        Value::Null => Map::new(),
        _ => return Err(invalid("", "the parameters of a chain must be an object".to_owned())),
    };
    let properties = chain.parameters.get("properties").and_then(Value::as_object);
    for (name, property) in properties.into_iter().flatten() {
        if let Some(default) = property.get("default")
            && !values.contains_key(name)
        {
            values.insert(name.clone(), default.clone());
        }
    }
    let schema = Value::Object(chain.parameters.clone());
    let validator = crate::schema::compile(&schema)
        .map_err(|message| invalid("", format!("the parameter schema of `{}` {message}", chain.chain_id)))?;
    let values = Value::Object(values);
    if let Some((path, message)) = crate::schema::first_violation(&validator, &values) {
        let place =
            if path.is_empty() { "the parameters".to_owned() } else { format!("the parameter at {path}") };
        return Err(invalid(&path, format!("{place} of chain `{}` {message}", chain.chain_id)));
    }
    match values {
        Value::Object(values) => Ok(values),
        _ => Ok(Map::new()),
    }
}
