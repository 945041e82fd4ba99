//! The picture as Mermaid text, for documents that render it.

use std::fmt::Write as _;

use super::{Drawn, Row, rows};
use crate::project::graph::escape_mermaid as escape;
use crate::workflow::compiled::CompiledWorkflow;

const CLASSES: [&str; 3] = [
    "step fill:#e8f0fe,stroke:#3b6fb6,color:#1f2933",
    "person fill:#fff4e5,stroke:#b26a00,color:#1f2933",
    "done fill:#e6f4ea,stroke:#2e7d32,color:#1f2933",
];

/// A node that leads to whatever is drawn next.
struct Open {
    from: String,
    label: Option<&'static str>,
}

/// A loop that is being drawn.
struct Repeated {
    first: Option<String>,
    /// The edge that skips it, if it has a condition.
    past: Option<Open>,
}

/// The workflow as a Mermaid flowchart.
pub fn to_mermaid(workflow: &CompiledWorkflow) -> String {
    let mut chart =
        Chart { text: String::from("flowchart TD\n"), open: Vec::new(), loops: Vec::new(), nodes: 0 };
    chart.node("start([\"start\"]):::done", "start");
    for row in rows(workflow) {
        match row {
            Row::Step(step) => chart.step(&step),
            Row::LoopBegins(found) => chart.begin_loop(&found),
            Row::LoopEnds => chart.end_loop(),
        }
    }
    chart.node("done([\"complete\"]):::done", "done");
    for class in CLASSES {
        let _ = writeln!(chart.text, "    classDef {class}");
    }
    chart.text
}

struct Chart {
    text: String,
    open: Vec<Open>,
    loops: Vec<Repeated>,
    nodes: usize,
}

impl Chart {
    /// Writes a node, and edges from all open nodes to it.
    fn node(&mut self, written: &str, name: &str) {
        let _ = writeln!(self.text, "    {written}");
        for open in std::mem::take(&mut self.open) {
            let label = open.label.map(|label| format!("|{label}|")).unwrap_or_default();
            let _ = writeln!(self.text, "    {} -->{label} {name}", open.from);
        }
        for found in &mut self.loops {
            found.first.get_or_insert_with(|| name.to_owned());
        }
        self.open.push(Open { from: name.to_owned(), label: None });
    }

    fn name(&mut self) -> String {
        self.nodes += 1;
        format!("n{}", self.nodes)
    }

    /// Draws the decision before a conditional item, and returns the edge that skips it.
    fn condition(&mut self, drawn: &Drawn) -> Option<Open> {
        let condition = drawn.condition.as_ref()?;
        let name = self.name();
        self.node(&format!("{name}{{\"{}\"}}", escape(condition)), &name);
        self.open = vec![Open { from: name.clone(), label: Some("yes") }];
        Some(Open { from: name, label: Some("no") })
    }

    fn step(&mut self, step: &Drawn) {
        let past = self.condition(step);
        let name = self.name();
        let class = if step.asks_person { "person" } else { "step" };
        let mut label = format!("{}<br/>{}", escape(&step.id), escape(&step.title));
        for mark in &step.marks {
            let _ = write!(label, "<br/>{}", escape(mark));
        }
        self.node(&format!("{name}[\"{label}\"]:::{class}"), &name);
        self.open.extend(past);
    }

    fn begin_loop(&mut self, found: &Drawn) {
        let past = self.condition(found);
        let number = self.nodes;
        let _ = writeln!(
            self.text,
            "    subgraph l{number}_{}[\"{} · {}\"]",
            self.loops.len(),
            escape(&found.title),
            escape(&found.marks.join(", "))
        );
        self.loops.push(Repeated { first: None, past });
    }

    fn end_loop(&mut self) {
        let Some(Repeated { first, past }) = self.loops.pop() else { return };
        let _ = writeln!(self.text, "    end");
        if let (Some(first), Some(last)) = (first, self.open.first()) {
            let _ = writeln!(self.text, "    {} -. again .-> {first}", last.from);
        }
        self.open.extend(past);
    }
}
