//! An agent that follows its prompt exactly, and knows nothing else.

use std::collections::BTreeSet;

use guide::workflow::compiled::{CompiledWorkflow, Step};
use guide::workflow::registry;
use serde_json::{Map, Value, json};

use super::plays::Play;

/// What an agent sends with a step.
#[derive(Default)]
pub(super) struct Output {
    pub(super) notes: String,
    pub(super) artifacts: Vec<Value>,
    pub(super) context: Map<String, Value>,
}

impl Output {
    /// The shortest answer that claims the work was done.
    pub(super) fn claim() -> Self {
        Self { notes: "Done.".to_owned(), ..Self::default() }
    }
}

/// The agent, with the choices of its play.
pub(super) struct Agent {
    choices: Vec<(&'static str, &'static str)>,
    /// How often it still answers `continue` at the end of a loop.
    further_passes: usize,
}

impl Agent {
    pub(super) fn of(play: &Play) -> Self {
        let further_passes = play.choice("passes").map_or(0, |passes| passes.parse::<usize>().unwrap() - 1);
        Self { choices: play.choices().collect(), further_passes }
    }

    pub(super) fn work(
        &mut self,
        workflow: &CompiledWorkflow,
        step: &Step,
        prompt: &str,
        known: &BTreeSet<String>,
    ) -> Output {
        let mut artifacts = Vec::new();
        artifacts.extend(step.output_contract.as_ref().map(|contract| self.artifact(&contract.contract_ref)));
        artifacts.extend(step.assessment_refs.iter().map(|id| assessment(workflow, id)));
        artifacts.extend(step.require_confirmation.as_ref().map(|_| {
            json!({"kind": "wr.user_answer", "dependencyId": "confirmation", "answeredBy": "user",
                "outcome": "given", "answer": "Agreed."})
        }));
        let asked = step.produces_context.keys().filter(|key| !known.contains(*key));
        let context = asked.map(|key| (key.clone(), self.choice(key).into())).collect();
        Output { notes: literal_notes(prompt), artifacts, context }
    }

    fn choice(&self, key: &str) -> &'static str {
        let chosen = self.choices.iter().find(|(name, _)| *name == key);
        chosen.unwrap_or_else(|| panic!("the play makes no choice for {key}")).1
    }

    /// The example of a contract, with the decision or verdict of the play.
    fn artifact(&mut self, contract: &str) -> Value {
        let mut artifact = registry::contract(contract).unwrap().example.clone();
        match contract {
            "wr.contracts.loop_control" => {
                let again = self.further_passes > 0;
                self.further_passes -= usize::from(again);
                artifact["decision"] = if again { "continue" } else { "stop" }.into();
            }
            "wr.contracts.review_verdict" => {
                let verdict = self.choices.iter().find(|(name, _)| *name == "verdict");
                let verdict = verdict.map_or("clean", |(_, verdict)| verdict);
                artifact["verdict"] = verdict.into();
                match verdict {
                    "clean" => artifact["findings"] = json!([]),
                    "minor" => artifact["findings"][0]["severity"] = "minor".into(),
                    _ => {}
                }
            }
            _ => {}
        }
        artifact
    }
}

/// The best level of every dimension. Levels are listed best first.
fn assessment(workflow: &CompiledWorkflow, id: &str) -> Value {
    let found = workflow.assessments.iter().find(|assessment| assessment.id == id).unwrap();
    let levels =
        found.dimensions.iter().map(|dimension| (dimension.id.clone(), dimension.levels[0].clone().into()));
    json!({"kind": "wr.assessment", "assessmentId": id, "dimensions": levels.collect::<Map<String, Value>>()})
}

/// What the section "Output Required" of a prompt requires, in its own words, with evidence if required.
fn literal_notes(prompt: &str) -> String {
    let asked = prompt.split_once("## Output Required").map_or("", |(_, asked)| asked);
    let mut notes = String::new();
    for line in asked.lines().skip(1).take_while(|line| !line.starts_with("##")) {
        let Some((heading, form)) = line.strip_prefix("**").and_then(|line| line.split_once("**: ")) else {
            continue;
        };
        notes.push_str(&format!("{heading}: {form}\n"));
        for quoted in form.split('`').skip(1).step_by(2) {
            for number in 1..=4 {
                notes.push_str(&format!("{}\n", quoted.replace(" N", &format!(" {number}"))));
            }
        }
    }
    notes.push_str("$ cargo test\n12 passed\nsrc/cache.rs:88 holds the lock\n");
    format!("{notes}{}", "The reason is in the place named above. ".repeat(14))
}
