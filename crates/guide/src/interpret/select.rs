//! The search for the next pending step.

use std::borrow::Cow;

use canon::budget;
use serde_json::{Map, Value};

use super::scope::visible_context;
use super::{MAX_HOPS, Next, Obstacle, OnObstacle, SelectionInput, control, path_of, running};
use crate::record::{
    CompletedSteps, DelimiterSafe, EngineState, LOOP_DID_NOT_RUN, LoopFrame, LoopPathEntry, Pending,
    PendingStep, SKIPPED, STILL_SKIPPED, StepInstanceKey, StepName, TraceEntry, TraceKind, TraceRef, budgets,
};
use crate::workflow::compiled::{Condition, Loop, SequenceItem};
use crate::workflow::condition;
use crate::workflow::context_keys::{self, ContextKeys};

/// The maximum number of trace entries of one selection: ten full events. Only skipped steps can be that
/// many.
const MAX_TRACE: usize = 10 * budgets::TRACE_ENTRIES;

/// One selection in progress.
pub(super) struct Selection<'a> {
    input: SelectionInput<'a>,
    /// The loop that the decision of this call applies to: the innermost loop of the step that was just
    /// completed.
    decided: Option<DelimiterSafe>,
    completed: CompletedSteps,
    stack: Vec<LoopFrame>,
    /// The index of the current top-level item before this selection.
    reached: usize,
    trace: Vec<TraceEntry>,
    passed_over: Vec<Obstacle>,
}

/// The result of searching a sequence.
enum SearchResult {
    /// This step becomes pending.
    Step(StepName),
    /// A loop was entered. Search its body next.
    EnteredLoop,
    /// No item is left that can run.
    Exhausted,
}

impl<'a> Selection<'a> {
    pub(super) fn new(
        input: SelectionInput<'a>,
        completed: CompletedSteps,
        stack: Vec<LoopFrame>,
        reached: usize,
    ) -> Self {
        let decided = stack.last().map(|frame| frame.loop_id.clone());
        Self { input, decided, completed, stack, reached, trace: Vec::new(), passed_over: Vec::new() }
    }

    pub(super) fn run(mut self) -> Result<Next, Obstacle> {
        for _ in 0..MAX_HOPS {
            let result = match self.stack.last() {
                Some(frame) => {
                    let definition = self.definition(&frame.loop_id)?;
                    let from = frame.body_index as usize;
                    self.search(&definition.body, from..definition.body.len())?
                }
                None => self.search_top_level()?,
            };
            match result {
                SearchResult::Step(step_id) => return Ok(self.pending(step_id)),
                SearchResult::EnteredLoop => {}
                SearchResult::Exhausted if self.stack.is_empty() => {
                    return Ok(Next {
                        state: EngineState::Complete,
                        trace: self.trace,
                        passed_over: self.passed_over,
                    });
                }
                SearchResult::Exhausted => self.next_iteration_or_leave()?,
            }
        }
        Err(Obstacle::Broken { reason: "its loops iterate without reaching a step" })
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

    /// The first top-level item that can run.
    ///
    /// Every item before the current one is done, or was skipped because of its condition: an item without a
    /// condition would have been selected. So only items with a condition are evaluated again, and the cost
    /// of a selection does not grow with the number of completed steps.
    fn search_top_level(&mut self) -> Result<SearchResult, Obstacle> {
        let workflow = self.input.workflow;
        let rest = self.reached..workflow.sequence.len();
        self.search(&workflow.sequence, workflow.conditional_before(self.reached).chain(rest))
    }

    /// The first of the given items of a sequence that can run.
    fn search(
        &mut self,
        sequence: &'a [SequenceItem],
        indexes: impl Iterator<Item = usize>,
    ) -> Result<SearchResult, Obstacle> {
        let path = path_of(&self.stack);
        let at_top = self.stack.is_empty();
        for (index, item) in indexes.filter_map(|index| Some((index, sequence.get(index)?))) {
            match item {
                SequenceItem::Step { step_id } => {
                    if self.is_done(step_id.as_str(), &path) {
                        continue;
                    }
                    let Some(step) = self.input.workflow.step(step_id) else {
                        return Err(Obstacle::Broken { reason: "a sequence refers to an unknown step" });
                    };
                    let about = TraceRef::StepId { step_id: step_id.clone() };
                    let again = at_top && index < self.reached;
                    if self.runs(step.run_condition.as_ref(), &step.requires_context, about, again)? {
                        self.move_to(index);
                        return Ok(SearchResult::Step(step_id.clone()));
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
                            return Ok(SearchResult::EnteredLoop);
                        }
                    }
                }
            }
        }
        Ok(SearchResult::Exhausted)
    }

    /// Enters a loop, or records that it does not run. Returns whether it was entered.
    fn enter(&mut self, definition: &'a Loop) -> Result<bool, Obstacle> {
        let evaluation = match control::evaluate_entry(definition, &self.input, &self.visible()) {
            Ok(evaluation) => evaluation,
            Err(obstacle) => {
                self.pass_over(&obstacle)?;
                control::LoopEvaluation { continues: false, reason: obstacle.to_string() }
            }
        };
        let refs = || {
            vec![TraceRef::LoopId { loop_id: definition.loop_id.clone() }, TraceRef::Iteration { value: 0 }]
        };
        if evaluation.continues {
            self.note(
                TraceKind::EnteredLoop,
                &format!("entered {}: {}", definition.loop_id, evaluation.reason),
                refs(),
            );
            self.stack.push(LoopFrame { loop_id: definition.loop_id.clone(), iteration: 0, body_index: 0 });
        } else {
            self.note(TraceKind::EvaluatedCondition, &evaluation.reason, refs());
            let summary = format!("{}{LOOP_DID_NOT_RUN}", definition.loop_id);
            self.note(TraceKind::ExitedLoop, &summary, self.within(refs()));
            self.complete(definition.loop_id.as_str());
        }
        Ok(evaluation.continues)
    }

    /// The body of the innermost loop is done: starts the next iteration or leaves the loop.
    fn next_iteration_or_leave(&mut self) -> Result<(), Obstacle> {
        let Some(frame) = self.stack.last().cloned() else { return Ok(()) };
        let definition = self.definition(&frame.loop_id)?;
        let refs = vec![
            TraceRef::LoopId { loop_id: frame.loop_id.clone() },
            TraceRef::Iteration { value: frame.iteration },
        ];
        let next = frame.iteration + 1;
        // A decision is used once, and only for its own loop: an inner `stop` does not end the outer loop.
        let decision =
            self.input.decision.filter(|_| self.decided.take_if(|id| *id == frame.loop_id).is_some());
        let input = SelectionInput { decision, ..self.input };
        let evaluation =
            control::evaluate_iteration(definition, &input, &self.visible(), next).and_then(|evaluation| {
                if evaluation.continues && next >= definition.max_iterations {
                    return Err(Obstacle::LoopLimit {
                        loop_id: frame.loop_id.clone(),
                        title: definition.title.clone(),
                        iteration: frame.iteration,
                        max_iterations: definition.max_iterations,
                        exit: self.input.workflow.loop_exit(definition),
                    });
                }
                Ok(evaluation)
            });
        let evaluation = match evaluation {
            Ok(evaluation) => evaluation,
            Err(obstacle) => {
                self.pass_over(&obstacle)?;
                control::LoopEvaluation { continues: false, reason: obstacle.to_string() }
            }
        };
        self.note(TraceKind::EvaluatedCondition, &evaluation.reason, refs.clone());
        if evaluation.continues {
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

    /// Stops at an obstacle, or records that it was passed over.
    fn pass_over(&mut self, obstacle: &Obstacle) -> Result<(), Obstacle> {
        match self.input.on_obstacle {
            OnObstacle::Stop => Err(obstacle.clone()),
            OnObstacle::PassOver => {
                self.passed_over.push(obstacle.clone());
                Ok(())
            }
        }
    }

    /// Whether a step or a loop runs. If its condition does not hold, adds the reason to the trace.
    ///
    /// A step is never skipped because a required key is missing or invalid. `again` means that an earlier
    /// selection already evaluated the item.
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
        self.note(TraceKind::EvaluatedCondition, &summary, self.within(vec![about]));
        Ok(false)
    }

    /// References with the loops around, outermost first: a step of a loop may run in one iteration and be
    /// skipped in the next.
    fn within(&self, mut refs: Vec<TraceRef>) -> Vec<TraceRef> {
        let room = budgets::TRACE_REFS.saturating_sub(refs.len()) / 2;
        for frame in &self.stack[self.stack.len().saturating_sub(room)..] {
            refs.push(TraceRef::LoopId { loop_id: frame.loop_id.clone() });
            refs.push(TraceRef::Iteration { value: frame.iteration });
        }
        refs
    }

    fn visible(&self) -> Cow<'a, Map<String, Value>> {
        visible_context(self.input.workflow, self.input.context, &self.stack)
    }

    fn definition(&self, loop_id: &DelimiterSafe) -> Result<&'a Loop, Obstacle> {
        let missing = Obstacle::Broken { reason: "a sequence refers to an unknown loop" };
        self.input.workflow.loop_of(loop_id).ok_or(missing)
    }

    fn is_done(&self, id: &str, path: &[LoopPathEntry]) -> bool {
        if path.is_empty() {
            // Outside of loops the id is the key, so the lookup needs no allocation.
            return self.completed.values.contains(id);
        }
        self.completed.values.contains(StepInstanceKey::new(id, path).as_str())
    }

    /// Marks an item of the current path as completed.
    fn complete(&mut self, id: &str) {
        self.completed.values.insert(StepInstanceKey::new(id, &path_of(&self.stack)));
    }

    fn move_to(&mut self, index: usize) {
        if let Some(frame) = self.stack.last_mut() {
            frame.body_index = u32::try_from(index).unwrap_or(u32::MAX);
        }
    }

    /// Adds a trace entry if there is room. The trace explains; nothing depends on it.
    fn note(&mut self, kind: TraceKind, summary: &str, refs: Vec<TraceRef>) {
        if self.trace.len() < MAX_TRACE {
            let summary = budget::truncate(summary, budgets::TRACE_SUMMARY_BYTES).into_owned();
            self.trace.push(TraceEntry { kind, summary, refs });
        }
    }
}
