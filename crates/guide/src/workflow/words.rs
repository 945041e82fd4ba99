//! Loops and delegations of a compiled workflow, in words.

use serde_json::{Value, json};

use super::compiled::{CompiledWorkflow, Condition, ConditionMode, Count, Loop, LoopControl, Step};
use super::condition;

impl CompiledWorkflow {
    /// When a loop continues: `while works is false`.
    pub fn loop_in_words(&self, found: &Loop) -> String {
        match &found.control {
            LoopControl::Decision { contract_ref } => format!("until {contract_ref} says stop"),
            LoopControl::Condition { mode: ConditionMode::While, .. } => {
                format!("while {}", self.loop_condition(found))
            }
            LoopControl::Condition { mode: ConditionMode::Until, .. } => {
                format!("until {}", self.loop_condition(found))
            }
            LoopControl::Count { count: Count::Number(number) } => format!("{number} times"),
            LoopControl::Count { count: Count::Key(key) } => format!("{key} times"),
            LoopControl::ForEach { items, item_var, .. } => format!("for each {item_var} of {items}"),
        }
    }

    /// How a caller ends a loop that has reached its limit.
    pub(crate) fn loop_exit(&self, found: &Loop) -> String {
        let what = match &found.control {
            LoopControl::Decision { .. } => "the decision \"stop\"".to_owned(),
            // The value of a condition is a fact: a caller must not invent it to get out.
            LoopControl::Condition { mode, .. } => {
                let (now, then) = match mode {
                    ConditionMode::While => ("holds", "no longer holds"),
                    ConditionMode::Until => ("does not hold", "holds"),
                };
                return format!(
                    "The loop repeats because this {now}: {}. Do not report what is not true: tell the user that the limit is \
                     reached, and what is left open. When it {then}, advance again with that in `context`.",
                    self.loop_condition(found)
                );
            }
            LoopControl::Count { count: Count::Key(key) } => {
                format!("`context.{key}` of at most {}", found.max_iterations)
            }
            LoopControl::ForEach { items, .. } => {
                format!("a list of at most {} items in `context.{items}`", found.max_iterations)
            }
            LoopControl::Count { count: Count::Number(number) } => {
                return format!(
                    "No output ends this loop: the workflow repeats it {number} times and limits it to {}. Tell the user. With \
                     `preferences: {{\"autonomy\": \"full_auto_never_stop\"}}` the run continues and records a critical gap.",
                    found.max_iterations
                );
            }
        };
        format!("Advance again with {what}; say in the notes what is left open.")
    }

    /// The condition of a loop. That of a jump also holds before the first pass, which is not worth a word.
    fn loop_condition(&self, found: &Loop) -> String {
        let LoopControl::Condition { condition_id, .. } = &found.control else { return String::new() };
        let Some(condition) = self.condition(condition_id) else { return condition_id.to_string() };
        let is_first = json!({"var": found.iteration_var, "equals": null});
        match condition.0.get("or").and_then(Value::as_array).map(Vec::as_slice) {
            Some([first, jump]) if *first == is_first => condition::words(&Condition(jump.clone())),
            Some(_) | None => condition::words(condition),
        }
    }
}

impl Step {
    /// What the step hands out; nothing for most steps.
    pub fn delegations_in_words(&self) -> Option<String> {
        match self.delegations.as_slice() {
            [] => None,
            [one] => Some(match &one.for_each {
                Some(list) => {
                    format!("delegates a run for each item of {}, at most {}", list.key, list.max_items)
                }
                None => "delegates a run".to_owned(),
            }),
            several => Some(format!("delegates {} runs", several.len())),
        }
    }
}
