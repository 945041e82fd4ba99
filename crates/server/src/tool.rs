//! The definitions of the tools.
//!
//! A [`Definition`] contains everything about a tool. An agent that has never seen this program decides by it
//! alone. The schema, the documentation and the validation of the arguments are derived from it, so that they
//! always agree.

mod definitions;
mod output;
pub mod parameter;

use std::fmt::Write as _;

use serde_json::{Map, Value, json};

pub use definitions::definition;
pub use output::{ERROR, Member, Shape, error_schema};
use parameter::Parameter;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Tool {
    ListWorkflows,
    InspectWorkflow,
    /// Starts a run.
    StartWorkflow,
    /// Continues a run.
    ContinueWorkflow,
    /// Creates a checkpoint.
    CheckpointWorkflow,
    /// Finds earlier runs.
    ResumeSession,
    /// Adds or removes folders of workflows.
    ManageWorkflowSource,
}

impl Tool {
    /// All tools, in the order of typical use.
    pub const ALL: [Self; 7] = [
        Self::ListWorkflows,
        Self::InspectWorkflow,
        Self::StartWorkflow,
        Self::ContinueWorkflow,
        Self::CheckpointWorkflow,
        Self::ResumeSession,
        Self::ManageWorkflowSource,
    ];

    pub const fn name(self) -> &'static str {
        match self {
            Self::ListWorkflows => "list_workflows",
            Self::InspectWorkflow => "inspect_workflow",
            Self::StartWorkflow => "start_workflow",
            Self::ContinueWorkflow => "continue_workflow",
            Self::CheckpointWorkflow => "checkpoint_workflow",
            Self::ResumeSession => "resume_session",
            Self::ManageWorkflowSource => "manage_workflow_source",
        }
    }

    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|tool| tool.name() == name)
    }
}

#[derive(Clone, Copy, Debug)]
pub struct Definition {
    pub tool: Tool,
    /// The title for people.
    pub title: &'static str,
    /// What it does.
    pub purpose: &'static str,
    /// When to call it.
    pub when: &'static [&'static str],
    pub parameters: &'static [Parameter],
    /// Alternative names of parameters, which are accepted but not in the schema.
    pub aliases: &'static [Alias],
    /// Rules for calling it correctly.
    pub rules: &'static [&'static str],
    /// The arguments of an example call, as JSON.
    pub example: &'static str,
    /// A description of the result.
    pub returns: &'static str,
    /// The fields of a successful result.
    pub output: &'static [Member],
    /// Whether it only reads.
    pub read_only: bool,
    /// Whether repeating a call has no further effect.
    pub idempotent: bool,
}

/// An alternative name of a parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Alias {
    /// The alternative name.
    pub name: &'static str,
    /// The path of the parameter: its name, after that of its group if any.
    pub path: &'static [&'static str],
}

impl Definition {
    /// The description for an agent. Descriptions of parameters are only in the schema.
    pub fn description(&self) -> String {
        let mut text = self.purpose.to_owned();
        for (title, lines) in [("When to use", self.when), ("Rules", self.rules)] {
            if !lines.is_empty() {
                let _ = write!(text, "\n\n{title}:\n- {}", lines.join("\n- "));
            }
        }
        let _ = write!(text, "\n\nReturns: {}", self.returns);
        text
    }

    /// The schema of its arguments.
    pub fn input_schema(&self) -> Map<String, Value> {
        parameter::schema(self.parameters)
    }

    /// The schema of a successful result.
    pub fn success_schema(&self) -> Value {
        output::schema(self.output)
    }

    /// The schema of all results.
    ///
    /// Some clients validate failed calls against the schema too, so it contains both forms. Editions of the
    /// protocol before the newest require an object at the root, so the forms are below one.
    pub fn output_schema(&self) -> Map<String, Value> {
        let mut schema = Map::new();
        schema.insert("type".into(), "object".into());
        schema.insert("anyOf".into(), json!([self.success_schema(), error_schema()]));
        schema
    }

    /// The arguments of its example.
    ///
    /// # Panics
    /// Never: a test parses every example.
    pub fn example_arguments(&self) -> Map<String, Value> {
        serde_json::from_str(self.example).expect("the example of a definition is a JSON object")
    }
}
