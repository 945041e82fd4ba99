//! One definition for each tool.
//!
//! A [`Definition`] is all there is to know about a tool: who reads it, an agent that never saw
//! this program, decides by it alone. Its schema, its documentation and the checks of its
//! arguments are functions of it, so that they cannot disagree.

mod definitions;
mod output;
pub mod parameter;

use std::fmt::Write as _;

use serde_json::{Map, Value, json};

pub use definitions::definition;
pub use output::{ERROR, Member, Shape, error_schema};
use parameter::Parameter;

/// The tools.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Tool {
    /// Finding a workflow.
    ListWorkflows,
    /// Reading one.
    InspectWorkflow,
    /// Beginning a run.
    StartWorkflow,
    /// Going on with a run.
    ContinueWorkflow,
    /// Bookmarking a place.
    CheckpointWorkflow,
    /// Finding a run again.
    ResumeSession,
    /// Adding and removing folders of workflows.
    ManageWorkflowSource,
}

impl Tool {
    /// Every tool, in the order in which a caller meets them.
    pub const ALL: [Self; 7] = [
        Self::ListWorkflows,
        Self::InspectWorkflow,
        Self::StartWorkflow,
        Self::ContinueWorkflow,
        Self::CheckpointWorkflow,
        Self::ResumeSession,
        Self::ManageWorkflowSource,
    ];

    /// Its name, as it is called.
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

    /// The tool of a name.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|tool| tool.name() == name)
    }
}

/// All there is to know about a tool.
#[derive(Clone, Copy, Debug)]
pub struct Definition {
    pub tool: Tool,
    /// What to call it before people.
    pub title: &'static str,
    /// What it does.
    pub purpose: &'static str,
    /// Situations in which to call it.
    pub when: &'static [&'static str],
    /// What it takes.
    pub parameters: &'static [Parameter],
    /// Other names for parameters, that are understood and not advertised in the schema.
    pub aliases: &'static [Alias],
    /// What has to be known to call it rightly.
    pub rules: &'static [&'static str],
    /// The arguments of a whole call, as JSON.
    pub example: &'static str,
    /// What comes back.
    pub returns: &'static str,
    /// The members of what comes back when nothing is wrong.
    pub output: &'static [Member],
    /// Whether it changes nothing.
    pub read_only: bool,
    /// Whether the same call made twice has the effect of one.
    pub idempotent: bool,
}

/// Another name for a parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Alias {
    /// The other name.
    pub name: &'static str,
    /// The path of the parameter: its name, after that of its group if it is in one.
    pub path: &'static [&'static str],
}

impl Definition {
    /// The description that an agent reads. What each parameter is for is in the schema, and said once.
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

    /// The schema of what comes back when nothing is wrong.
    pub fn success_schema(&self) -> Value {
        output::schema(self.output)
    }

    /// The schema of everything that comes back.
    ///
    /// Some clients hold a failed call to the schema too, so it has both forms; and editions of the
    /// protocol before the newest want an object at its root, so they stand below one.
    pub fn output_schema(&self) -> Map<String, Value> {
        let mut schema = Map::new();
        schema.insert("type".into(), "object".into());
        schema.insert("anyOf".into(), json!([self.success_schema(), error_schema()]));
        schema
    }

    /// The arguments of its example.
    ///
    /// # Panics
    /// Never: a test reads every example.
    pub fn example_arguments(&self) -> Map<String, Value> {
        serde_json::from_str(self.example).expect("the example of a definition is a JSON object")
    }
}
