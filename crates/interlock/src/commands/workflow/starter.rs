//! Templates for new workflows.

use guide::workflow::source::Format;

/// A complete workflow with this id that shows the features of the format.
pub(super) fn text(id: &str, format: Format) -> String {
    let template = match format {
        Format::Yaml => include_str!("starter.yaml"),
        Format::Json => include_str!("starter.json"),
    };
    template.replace("__ID__", id)
}

#[cfg(test)]
mod tests {
    use guide::workflow::compile::{self, Bindings};
    use guide::workflow::ids::SourceOrigin;

    use super::*;

    #[test]
    fn both_starters_compile_to_the_same_workflow_without_warnings() {
        let hashes = [Format::Yaml, Format::Json].map(|format| {
            let text = text("project.release", format);
            let validation =
                compile::validate(text.as_bytes(), format, SourceOrigin::Project, &Bindings::default());
            assert_eq!(validation.problems, [], "{format:?}");
            let workflow = validation.compiled.unwrap().workflow;
            assert_eq!(workflow.workflow_id, "project.release");
            assert_eq!(workflow.compiled_warnings, [], "{format:?}");
            workflow.hash()
        });
        assert_eq!(hashes[0], hashes[1]);
    }
}
