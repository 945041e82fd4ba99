//! The plays: the choices, and the steps that are then shown.

use std::fmt;

use serde_json::{Map, Value};

pub(super) struct Play {
    pub(super) workflow: &'static str,
    /// `key=value`, separated by spaces. Besides context keys: `verdict` of a review, and `passes` through its first
    /// loop.
    choices: &'static str,
    /// The steps in the order in which they are shown, separated by spaces.
    pub(super) shown: &'static str,
}

/// Choices that are not context keys.
const NOT_CONTEXT: [&str; 2] = ["verdict", "passes"];

impl Play {
    pub(super) fn choices(&self) -> impl Iterator<Item = (&'static str, &'static str)> {
        self.choices.split_whitespace().map(|choice| choice.split_once('=').unwrap())
    }

    pub(super) fn choice(&self, key: &str) -> Option<&'static str> {
        self.choices().find(|(name, _)| *name == key).map(|(_, value)| value)
    }

    /// The chosen values of some context keys; of all keys, if none is named.
    pub(super) fn context(&self, keys: &[&str]) -> Map<String, Value> {
        let wanted =
            |name: &str| if keys.is_empty() { !NOT_CONTEXT.contains(&name) } else { keys.contains(&name) };
        let chosen = self.choices().filter(|(name, _)| wanted(name));
        chosen.map(|(name, value)| (name.to_owned(), value.into())).collect()
    }
}

impl fmt::Display for Play {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.workflow, self.choices)
    }
}

const fn play(workflow: &'static str, choices: &'static str, shown: &'static str) -> Play {
    Play { workflow, choices, shown }
}

pub(super) const PLAYS: &[Play] = &[
    play(
        "wr.architecture_audit",
        "rigor=small outcome=sound verdict=clean",
        "concerns as-built scenarios verdict",
    ),
    play(
        "wr.architecture_audit",
        "rigor=standard outcome=needs_work verdict=blocking",
        "concerns as-built rules scenarios refute verdict roadmap",
    ),
    play(
        "wr.architecture_audit",
        "rigor=thorough outcome=inconclusive verdict=minor",
        "concerns as-built rules scenarios history refute verdict open-question",
    ),
    play(
        "wr.architecture_audit",
        "rigor=thorough outcome=needs_work verdict=minor",
        "concerns as-built rules scenarios history refute verdict roadmap",
    ),
    play(
        "wr.bug_investigation",
        "rigor=small reproduced=yes outcome=cause_found fixDecision=fix",
        "frame reproduce trace-change conclude diagnose fix report",
    ),
    play(
        "wr.bug_investigation",
        "rigor=small reproduced=yes outcome=cause_found fixDecision=report",
        "frame reproduce trace-change conclude diagnose report",
    ),
    play(
        "wr.bug_investigation",
        "rigor=small reproduced=no outcome=inconclusive",
        "frame reproduce observe trace-change conclude undecided report",
    ),
    play(
        "wr.bug_investigation",
        "rigor=standard reproduced=yes outcome=working_as_designed",
        "frame reproduce trace-change hypothesise test-hypothesis hunt-on challenge.challenge conclude \
         by-design report",
    ),
    play(
        "wr.bug_investigation",
        "rigor=standard reproduced=yes outcome=cause_found fixDecision=fix passes=2",
        "frame reproduce trace-change hypothesise test-hypothesis hunt-on hypothesise test-hypothesis \
         hunt-on challenge.challenge conclude diagnose fix report",
    ),
    play(
        "wr.bug_investigation",
        "rigor=thorough reproduced=yes outcome=inconclusive",
        "frame reproduce trace-change hypothesise test-hypothesis hunt-on challenge.challenge fresh-look \
         conclude undecided report",
    ),
    play(
        "wr.bug_investigation",
        "rigor=thorough reproduced=yes outcome=cause_found fixDecision=fix",
        "frame reproduce trace-change hypothesise test-hypothesis hunt-on challenge.challenge fresh-look \
         conclude diagnose fix prevent report",
    ),
    play("wr.change_review", "rigor=small verdict=clean", "scope intent callers read-once verdict"),
    play(
        "wr.change_review",
        "rigor=standard verdict=minor",
        "scope intent callers pass pass-again refute verdict",
    ),
    play(
        "wr.change_review",
        "rigor=thorough verdict=blocking passes=2",
        "scope intent callers lenses lenses__synthesis pass pass-again pass pass-again test-strength \
         refute verdict",
    ),
    play("wr.codebase_tour", "rigor=small", "questions map answers"),
    play("wr.codebase_tour", "rigor=standard", "questions map follow rules answers guide"),
    play("wr.codebase_tour", "rigor=thorough", "questions map follow rules predict answers guide"),
    play(
        "wr.design_first",
        "rigor=small",
        "problem candidates choose write-design review.read-design review.judge-design",
    ),
    play(
        "wr.design_first",
        "rigor=standard",
        "problem gather.locate gather.understand ideas.widen ideas.narrow candidates attack attack-again \
         choose write-design review.read-design review.judge-design",
    ),
    play(
        "wr.design_first",
        "rigor=thorough passes=2",
        "problem gather.locate gather.understand ideas.widen ideas.narrow candidates attack attack-again \
         attack attack-again simulate.simulate choose write-design review.read-design \
         review.judge-design",
    ),
    play("wr.documentation", "rigor=small", "readers outline draft check-claims check-again handoff"),
    play(
        "wr.documentation",
        "rigor=standard passes=2",
        "readers sources outline draft check-claims check-again check-claims check-again reader-test handoff",
    ),
    play(
        "wr.documentation",
        "rigor=thorough",
        "readers sources outline draft check-claims check-again reader-test consistency handoff",
    ),
    play(
        "wr.feature_implementation",
        "rigor=small verdict=minor",
        "understand agree-plan build-slice next-slice self-review verify.prove verify.conclude handoff",
    ),
    play(
        "wr.feature_implementation",
        "rigor=standard passes=3",
        "understand gather.locate gather.understand plan.draft-plan agree-plan build-slice next-slice \
         build-slice next-slice build-slice next-slice self-review verify.prove verify.conclude handoff",
    ),
    play(
        "wr.feature_implementation",
        "rigor=thorough",
        "understand gather.locate gather.understand plan.draft-plan analyse.analyse-plan \
         analyse.judge-plan agree-plan build-slice next-slice failure-tests self-review verify.prove \
         verify.conclude handoff",
    ),
    play("wr.incident_response", "rigor=small ongoing=no outcome=false_alarm", "assess cause actions report"),
    play(
        "wr.incident_response",
        "rigor=small ongoing=yes outcome=cause_found passes=2",
        "assess mitigate check-relief relief-again mitigate check-relief relief-again cause actions report",
    ),
    play(
        "wr.incident_response",
        "rigor=standard ongoing=yes outcome=inconclusive",
        "assess mitigate check-relief relief-again timeline cause actions report",
    ),
    play(
        "wr.incident_response",
        "rigor=thorough ongoing=no outcome=false_alarm",
        "assess timeline cause actions report",
    ),
    play(
        "wr.incident_response",
        "rigor=thorough ongoing=yes outcome=cause_found",
        "assess mitigate check-relief relief-again timeline cause contributing actions report",
    ),
    play(
        "wr.migration_plan",
        "rigor=small",
        "inventory invariants strategy phases analyse.analyse-plan analyse.judge-plan handoff",
    ),
    play(
        "wr.migration_plan",
        "rigor=standard passes=2",
        "inventory invariants strategy phases simulate.simulate risk-pass risk-again risk-pass \
         risk-again analyse.analyse-plan analyse.judge-plan handoff",
    ),
    play(
        "wr.migration_plan",
        "rigor=thorough",
        "inventory invariants strategy phases simulate.simulate risk-pass risk-again rehearse \
         analyse.analyse-plan analyse.judge-plan handoff",
    ),
    play(
        "wr.refactoring",
        "rigor=small decision=refactor",
        "aim net agree move next-move verify.prove verify.conclude handoff",
    ),
    play("wr.refactoring", "rigor=standard decision=leave", "aim callers net agree leave"),
    play(
        "wr.refactoring",
        "rigor=standard decision=refactor passes=2",
        "aim callers net agree move next-move move next-move verify.prove verify.conclude handoff",
    ),
    play("wr.refactoring", "rigor=thorough decision=leave", "aim callers net agree leave"),
    play(
        "wr.refactoring",
        "rigor=thorough decision=refactor",
        "aim callers net agree move next-move compare verify.prove verify.conclude handoff",
    ),
    play("wr.research", "rigor=small outcome=answered", "question collect collect-more answer brief"),
    play(
        "wr.research",
        "rigor=standard outcome=inconclusive passes=2",
        "question sources collect collect-more collect collect-more against answer brief",
    ),
    play(
        "wr.research",
        "rigor=thorough outcome=answered",
        "question sources collect collect-more against try answer brief",
    ),
    play(
        "wr.test_design",
        "rigor=small defects=none",
        "subject cases select write-tests more-tests faults handoff",
    ),
    play(
        "wr.test_design",
        "rigor=standard defects=found passes=2",
        "subject existing cases select write-tests more-tests write-tests more-tests faults \
         report-defects handoff",
    ),
    play(
        "wr.test_design",
        "rigor=thorough defects=found",
        "subject existing cases select write-tests more-tests faults stability report-defects handoff",
    ),
    play("wr.ticket_shaping", "rigor=small", "request appetite shape tickets"),
    play(
        "wr.ticket_shaping",
        "rigor=standard",
        "request gather.locate gather.understand appetite shape tickets",
    ),
    play(
        "wr.ticket_shaping",
        "rigor=thorough",
        "request gather.locate gather.understand appetite shape analyse.analyse-plan analyse.judge-plan \
         tickets",
    ),
    play("wr.ui_review", "rigor=small verdict=clean", "users walk access verdict"),
    play("wr.ui_review", "rigor=standard verdict=minor", "users walk states access refute verdict"),
    play("wr.ui_review", "rigor=thorough verdict=blocking", "users walk states access range refute verdict"),
    play("wr.workflow_authoring", "rigor=small", "job write-file validate validate-again trial handoff"),
    play(
        "wr.workflow_authoring",
        "rigor=standard passes=2",
        "job evidence sketch write-file validate validate-again validate validate-again trial handoff",
    ),
    play(
        "wr.workflow_authoring",
        "rigor=thorough",
        "job evidence sketch write-file validate validate-again trial careless-trial handoff",
    ),
    play("wr.routine-context-gathering", "", "locate understand"),
    play("wr.routine-design-review", "", "read-design judge-design"),
    play("wr.routine-execution-simulation", "", "simulate"),
    play("wr.routine-feature-implementation", "", "slice-work build-slices hand-over"),
    play("wr.routine-feedback-resolution", "", "sort-feedback resolve-feedback"),
    play("wr.routine-final-verification", "", "prove conclude"),
    play("wr.routine-hypothesis-challenge", "", "challenge"),
    play("wr.routine-ideation", "", "widen narrow"),
    play("wr.routine-parallel-work-partitioning", "", "partition"),
    play("wr.routine-philosophy-alignment", "", "find-principles compare"),
    play("wr.routine-plan-analysis", "", "analyse-plan judge-plan"),
    play("wr.routine-plan-generation", "", "draft-plan"),
    play("wr.routine-reviewer-family", "", "lenses join"),
    play("wr.routine-tension-driven-design", "", "tensions stances choose"),
];
