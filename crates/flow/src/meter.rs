//! Limits the computation of a decision, counted in steps.
//!
//! A step is one byte or value that is read, or one state of a pattern that is tried at a byte. The number of steps depends only on the
//! definition and the values, so it is the same on every machine and under any load.

use serde_json::{Map, Value};

/// The maximum number of steps of one decision, and of applying one event: about one second of one thread in the worst case.
pub const MAX_STEPS: u64 = 200_000_000;

/// Counts steps, up to a limit.
#[derive(Clone, Debug)]
pub struct Meter {
    limit: u64,
    spent: u64,
}

/// A computation needed more steps than its limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{observed} steps were needed; the limit is {limit}")]
pub struct OverBudget {
    /// The maximum number of steps.
    pub limit: u64,
    /// The number of steps when counting stopped.
    pub observed: u64,
}

impl Meter {
    pub const fn new(limit: u64) -> Self {
        Self { limit, spent: 0 }
    }

    /// Counts steps, before they are executed.
    ///
    /// # Errors
    /// The limit is exceeded. Every later call then fails too.
    pub fn charge(&mut self, steps: u64) -> Result<(), OverBudget> {
        self.spent = self.spent.saturating_add(steps);
        self.over().map_or(Ok(()), Err)
    }

    /// The number of counted steps.
    pub const fn spent(&self) -> u64 {
        self.spent
    }

    /// The error, if the limit is exceeded.
    pub fn over(&self) -> Option<OverBudget> {
        (self.spent > self.limit).then_some(OverBudget { limit: self.limit, observed: self.spent })
    }

    /// Counts the steps of reading a value once: its parts and bytes.
    pub(crate) fn charge_value(&mut self, value: &Value) -> Result<(), OverBudget> {
        match value {
            Value::Null | Value::Bool(_) | Value::Number(_) => self.charge(VALUE_STEPS),
            Value::String(text) => self.charge(VALUE_STEPS + steps(text.len())),
            Value::Array(items) => {
                self.charge(VALUE_STEPS)?;
                items.iter().try_for_each(|item| self.charge_value(item))
            }
            Value::Object(members) => self.charge_members(members),
        }
    }

    pub(crate) fn charge_members(&mut self, members: &Map<String, Value>) -> Result<(), OverBudget> {
        self.charge(VALUE_STEPS)?;
        members.iter().try_for_each(|(name, value)| {
            self.charge(steps(name.len()))?;
            self.charge_value(value)
        })
    }

    /// Whether two values are equal, like `==`, while counting steps.
    pub(crate) fn equal(&mut self, left: &Value, right: &Value) -> Result<bool, OverBudget> {
        self.charge(VALUE_STEPS)?;
        match (left, right) {
            (Value::String(left), Value::String(right)) => {
                if left.len() != right.len() {
                    return Ok(false);
                }
                self.charge(steps(left.len()))?;
                Ok(left == right)
            }
            (Value::Array(left), Value::Array(right)) => {
                if left.len() != right.len() {
                    return Ok(false);
                }
                for (left, right) in left.iter().zip(right) {
                    if !self.equal(left, right)? {
                        return Ok(false);
                    }
                }
                Ok(true)
            }
            (Value::Object(left), Value::Object(right)) => {
                if left.len() != right.len() {
                    return Ok(false);
                }
                for (name, left) in left {
                    self.charge(steps(name.len()))?;
                    let Some(right) = right.get(name) else { return Ok(false) };
                    if !self.equal(left, right)? {
                        return Ok(false);
                    }
                }
                Ok(true)
            }
            _ => Ok(left == right),
        }
    }
}

/// The steps of reading one value, excluding its contents.
const VALUE_STEPS: u64 = 8;

/// A length as a number of steps.
pub(crate) fn steps(length: usize) -> u64 {
    u64::try_from(length).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn metered_equality_agrees_with_the_operator() {
        let values = [
            json!(null),
            json!(1),
            json!(1.0),
            json!("a"),
            json!("b"),
            json!("ab"),
            json!([1, "a", {"b": null}]),
            json!([1, "a", {"b": 0}]),
            json!([1, "a"]),
            json!({"a": 1, "b": [true]}),
            json!({"b": [true], "a": 1}),
            json!({"a": 1, "c": [true]}),
            json!({}),
        ];
        for left in &values {
            for right in &values {
                let mut meter = Meter::new(1000);
                assert_eq!(meter.equal(left, right), Ok(left == right), "{left} and {right}");
            }
        }
    }

    #[test]
    fn an_exceeded_limit_stays_exceeded() {
        let mut meter = Meter::new(20);
        assert_eq!(meter.charge_value(&json!("0123456789")), Ok(()));
        let over = OverBudget { limit: 20, observed: 26 };
        assert_eq!((meter.spent(), meter.equal(&json!(1), &json!(1))), (18, Err(over)));
        assert_eq!((meter.over(), meter.charge(0)), (Some(over), Err(over)));
    }
}
