//! Choosing what is pending.

use std::borrow::Cow;

use canon::budget;
use serde_json::{Map, Value};

use super::scope::visible_context;
use super::{Circumstances, MAX_HOPS, Next, Obstacle, OnObstacle, control, path_of, running};
use crate::record::{
    CompletedSteps, DelimiterSafe, EngineState, LOOP_DID_NOT_RUN, LoopFrame, LoopPathEntry, Pending,
    PendingStep, SKIPPED, STILL_SKIPPED, StepInstanceKey, StepName, TraceEntry, TraceKind, TraceRef, budgets,
};
use crate::workflow::compiled::{Condition, Loop, SequenceItem};
use crate::workflow::condition;
use crate::workflow::context_keys::{self, ContextKeys};

/// The most entries that one choice leaves: ten events full. Only skipped steps can be that many.
const MAX_TRACE: usize = 10 * budgets::TRACE_ENTRIES;

/// One choice under way.
pub(super) struct Selection<'a> {
    circumstances: Circumstances<'a>,
    /// The loop that the decision of this call is about: the one whose step was just done.
    decided: Option<DelimiterSafe>,
    completed: CompletedSteps,
    stack: Vec<LoopFrame>,
    /// The item of the top level that the run was at before this choice.
    reached: usize,
    trace: Vec<TraceEntry>,
    passed_over: Vec<Obstacle>,
}

/// What looking at a sequence came to.
enum Found {
    /// This step is pending now.
    Step(StepName),
    /// A loop was entered: look into it.
    Entered,
    /// There is nothing left.
    Nothing,
}

impl<'a> Selection<'a> {
    pub(super) fn new(
        circumstances: Circumstances<'a>,
        completed: CompletedSteps,
        stack: Vec<LoopFrame>,
        reached: usize,
    ) -> Self {
        let decided = stack.last().map(|frame| frame.loop_id.clone());
        Self { circumstances, decided, completed, stack, reached, trace: Vec::new(), passed_over: Vec::new() }
    }

    pub(super) fn run(mut self) -> Result<Next, Obstacle> {
        for _ in 0..MAX_HOPS {
            let found = match self.stack.last() {
                Some(frame) => {
                    let definition = self.definition(&frame.loop_id)?;
                    let from = frame.body_index as usize;
                    self.look(&definition.body, from..definition.body.len())?
                }
                None => self.look_at_top()?,
            };
            match found {
                Found::Step(step_id) => return Ok(self.pending(step_id)),
                Found::Entered => {}
                Found::Nothing if self.stack.is_empty() => {
                    return Ok(Next {
                        state: EngineState::Complete,
                        trace: self.trace,
                        passed_over: self.passed_over,
                    });
                }
                Found::Nothing => self.go_round_or_leave()?,
            }
        }
        Err(Obstacle::Broken { reason: "its loops go round without ever reaching a step" })
    }

    fn pending(mut self, step_id: StepName) -> Next {
        let path = path_of(&self.stack);
        let mut refs = vec![TraceRef::StepId { step_id: step_id.clone() }];
        if let Some(innermost) = path.last() {
            refs.push(TraceRef::LoopId { loop_id: innermost.loop_id.clone() });
            refs.push(TraceRef::Iteration { value: innermost.iteration });
        }
        self.note(
            TraceKind::SelectedNextStep,
            &format!("{step_id} is the first step in order that can run"),
            refs,
        );
        let step = PendingStep { step_id, loop_path: path };
        Next {
            state: running(self.completed, self.stack, Pending::Some { step }),
            trace: self.trace,
            passed_over: self.passed_over,
        }
    }

    /// The first item of the top level that can run.
    ///
    /// Whatever stands before the item that the run was at is done, or was skipped because of its
    /// condition: without one it would have been chosen then. So only those with a condition are looked at
    /// again, and what a choice costs does not grow with the number of steps that are done.
    fn look_at_top(&mut self) -> Result<Found, Obstacle> {
        let workflow = self.circumstances.workflow;
        let rest = self.reached..workflow.sequence.len();
        self.look(&workflow.sequence, workflow.conditional_before(self.reached).chain(rest))
    }

    /// The first of these items of a sequence that can run.
    fn look(
        &mut self,
        sequence: &'a [SequenceItem],
        places: impl Iterator<Item = usize>,
    ) -> Result<Found, Obstacle> {
        let path = path_of(&self.stack);
        let at_top = self.stack.is_empty();
        for (index, item) in places.filter_map(|index| Some((index, sequence.get(index)?))) {
            match item {
                SequenceItem::Step { step_id } => {
                    if self.is_done(step_id.as_str(), &path) {
                        continue;
                    }
                    let Some(step) = self.circumstances.workflow.step(step_id) else {
                        return Err(Obstacle::Broken { reason: "a sequence names a step that is not there" });
                    };
                    let about = TraceRef::StepId { step_id: step_id.clone() };
                    let again = at_top && index < self.reached;
                    if self.runs(step.run_condition.as_ref(), &step.requires_context, about, again)? {
                        self.move_to(index);
                        return Ok(Found::Step(step_id.clone()));
                    }
                }
                SequenceItem::Loop { loop_id } => {
                    if self.is_done(loop_id.as_str(), &path) {
                        continue;
                    }
                    let definition = self.definition(loop_id)?;
                    let about = TraceRef::LoopId { loop_id: loop_id.clone() };
                    let again = at_top && index < self.reached;
                    let (condition, requires) = (&definition.run_condition, &definition.requires_context);
                    if self.runs(condition.as_ref(), requires, about, again)? {
                        self.move_to(index);
                        if self.enter(definition)? {
                            return Ok(Found::Entered);
                        }
                    }
                }
            }
        }
        Ok(Found::Nothing)
    }

    /// Enters a loop, or notes that it does not run at all. Whether it was entered.
    fn enter(&mut self, definition: &'a Loop) -> Result<bool, Obstacle> {
        let verdict = match control::enters(definition, &self.circumstances, &self.visible()) {
            Ok(verdict) => verdict,
            Err(obstacle) => {
                self.pass_over(&obstacle)?;
                control::Verdict { goes_on: false, why: obstacle.to_string() }
            }
        };
        let refs = || {
            vec![TraceRef::LoopId { loop_id: definition.loop_id.clone() }, TraceRef::Iteration { value: 0 }]
        };
        if verdict.goes_on {
            self.note(
                TraceKind::EnteredLoop,
                &format!("entered {}: {}", definition.loop_id, verdict.why),
                refs(),
            );
            self.stack.push(LoopFrame { loop_id: definition.loop_id.clone(), iteration: 0, body_index: 0 });
        } else {
            self.note(TraceKind::EvaluatedCondition, &verdict.why, refs());
            self.note(TraceKind::ExitedLoop, &format!("{}{LOOP_DID_NOT_RUN}", definition.loop_id), refs());
            self.complete(definition.loop_id.as_str());
        }
        Ok(verdict.goes_on)
    }

    /// The body of the innermost loop is done: once more, or on.
    fn go_round_or_leave(&mut self) -> Result<(), Obstacle> {
        let Some(frame) = self.stack.last().cloned() else { return Ok(()) };
        let definition = self.definition(&frame.loop_id)?;
        let refs = vec![
            TraceRef::LoopId { loop_id: frame.loop_id.clone() },
            TraceRef::Iteration { value: frame.iteration },
        ];
        let next = frame.iteration + 1;
        // A decision counts once, and for its own loop: an inner `stop` does not end the outer one.
        let decision =
            self.circumstances.decision.filter(|_| self.decided.take_if(|id| *id == frame.loop_id).is_some());
        let circumstances = Circumstances { decision, ..self.circumstances };
        let verdict = control::wants(definition, &circumstances, &self.visible(), next).and_then(|verdict| {
            if verdict.goes_on && next >= definition.max_iterations {
                return Err(Obstacle::LoopLimit {
                    loop_id: frame.loop_id.clone(),
                    iteration: frame.iteration,
                    max_iterations: definition.max_iterations,
                    exit: self.circumstances.workflow.loop_exit(definition),
                });
            }
            Ok(verdict)
        });
        let verdict = match verdict {
            Ok(verdict) => verdict,
            Err(obstacle) => {
                self.pass_over(&obstacle)?;
                control::Verdict { goes_on: false, why: obstacle.to_string() }
            }
        };
        self.note(TraceKind::EvaluatedCondition, &verdict.why, refs.clone());
        if verdict.goes_on {
            if let Some(frame) = self.stack.last_mut() {
                frame.iteration = next;
                frame.body_index = 0;
            }
        } else {
            self.stack.pop();
            self.complete(frame.loop_id.as_str());
            self.note(TraceKind::ExitedLoop, &format!("left {} after {next} times", frame.loop_id), refs);
        }
        Ok(())
    }

    /// Stops at an obstacle, or remembers that it was passed over.
    fn pass_over(&mut self, obstacle: &Obstacle) -> Result<(), Obstacle> {
        match self.circumstances.on_obstacle {
            OnObstacle::Stop => Err(obstacle.clone()),
            OnObstacle::PassOver => {
                self.passed_over.push(obstacle.clone());
                Ok(())
            }
        }
    }

    /// Whether a step or a loop runs; one whose condition does not hold is in the trace.
    ///
    /// A required key without a value that is allowed decides nothing: what it guards is never skipped for it.
    /// `again` says that an earlier choice looked at it already.
    fn runs(
        &mut self,
        condition: Option<&Condition>,
        requires: &ContextKeys,
        about: TraceRef,
        again: bool,
    ) -> Result<bool, Obstacle> {
        let skipped = if again { STILL_SKIPPED } else { SKIPPED };
        if condition.is_none() && requires.is_empty() {
            return Ok(true);
        }
        let visible = self.visible();
        let faults = context_keys::faults(requires, &visible);
        let holds = condition.map_or(Ok(Some(true)), |condition| {
            condition::evaluate_knowing(condition, &visible, &|key| {
                faults.iter().any(|fault| fault.key == key)
            })
        });
        let summary = match holds {
            Ok(Some(false)) => match condition.map(condition::keys).filter(|keys| !keys.is_empty()) {
                Some(keys) => format!("{skipped}its run condition on {} does not hold", keys.join(", ")),
                None => format!("{skipped}its run condition does not hold"),
            },
            Err(error) => format!("{skipped}its run condition cannot be evaluated ({error})"),
            Ok(Some(true) | None) if faults.is_empty() => return Ok(true),
            Ok(Some(true) | None) => {
                let item = match &about {
                    TraceRef::StepId { step_id } => step_id.to_string(),
                    TraceRef::LoopId { loop_id } => loop_id.to_string(),
                    TraceRef::ConditionId { .. } | TraceRef::Iteration { .. } => String::new(),
                };
                let obstacle = Obstacle::MissingContext { item, faults };
                self.pass_over(&obstacle)?;
                self.note(TraceKind::EvaluatedCondition, &format!("not skipped: {obstacle}"), vec![about]);
                return Ok(true);
            }
        };
        self.note(TraceKind::EvaluatedCondition, &summary, vec![about]);
        Ok(false)
    }

    fn visible(&self) -> Cow<'a, Map<String, Value>> {
        visible_context(self.circumstances.workflow, self.circumstances.context, &self.stack)
    }

    fn definition(&self, loop_id: &DelimiterSafe) -> Result<&'a Loop, Obstacle> {
        let missing = Obstacle::Broken { reason: "a loop is not in the workflow" };
        self.circumstances.workflow.loop_of(loop_id).ok_or(missing)
    }

    fn is_done(&self, id: &str, path: &[LoopPathEntry]) -> bool {
        if path.is_empty() {
            // Outside of loops the id is the key: nothing has to be put together to look it up.
            return self.completed.values.contains(id);
        }
        self.completed.values.contains(StepInstanceKey::new(id, path).as_str())
    }

    /// Marks something of the current path as done.
    fn complete(&mut self, id: &str) {
        self.completed.values.insert(StepInstanceKey::new(id, &path_of(&self.stack)));
    }

    fn move_to(&mut self, index: usize) {
        if let Some(frame) = self.stack.last_mut() {
            frame.body_index = u32::try_from(index).unwrap_or(u32::MAX);
        }
    }

    /// Adds to the trace, while there is room: it explains, and nothing depends on it.
    fn note(&mut self, kind: TraceKind, summary: &str, refs: Vec<TraceRef>) {
        if self.trace.len() < MAX_TRACE {
            let summary = budget::truncate(summary, budgets::TRACE_SUMMARY_BYTES).into_owned();
            self.trace.push(TraceEntry { kind, summary, refs });
        }
    }
}
