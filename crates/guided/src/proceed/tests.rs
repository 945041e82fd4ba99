use std::sync::Arc;

use catalogue::{Catalogue, CatalogueOptions};
use guide::derive;
use guide::engine::Checkpoint;
use guide::record::{EventData, SessionId};
use guide::state::SessionState;
use ports::wait;
use storage::disk::{Fault, FaultyDisk};
use storage::files::FileSessions;
use system::{ManualClock, SeededEntropy};

use super::*;
use crate::api::{Handle, StartRequest};
use crate::{GuidedOptions, Verifier};

fn guided(disk: &FaultyDisk) -> Guided {
    Guided::new(GuidedOptions {
        store: Arc::new(FileSessions::open(Arc::new(disk.clone())).unwrap()),
        catalogue: Catalogue::new(CatalogueOptions::default()),
        clock: Arc::new(ManualClock::at(1_700_000_000_000)),
        entropy: Arc::new(SeededEntropy::new(1)),
        verifier: Verifier::none(),
        advanced: Arc::default(),
    })
}

fn start(service: &Guided) -> (SessionId, Reply) {
    let request = StartRequest {
        workflow_id: "wr.change_review".to_owned(),
        goal: "fold first".to_owned(),
        ..StartRequest::default()
    };
    let reply = wait(service.start(request)).unwrap();
    (SessionId::parse(&reply.run.session_id).unwrap(), reply)
}

fn advance(service: &Guided, reply: &Reply) -> Result<Reply, Refusal> {
    wait(service.proceed(ContinueRequest {
        handle: Handle::Single(reply.continue_token.clone().unwrap()),
        intent: Intent::Advance,
        notes_markdown: Some("too little".to_owned()),
        artifacts: Vec::new(),
        context: None,
        preferences: None,
    }))
}

/// The session as folded in memory, and as folded from its log.
fn in_memory_and_in_the_log(service: &Guided, id: &SessionId) -> (SessionState, SessionState) {
    let session = wait(service.sessions.current(service.store(), id)).unwrap();
    let session = wait(session.lock());
    let logged = wait(service.store().load(id.clone())).unwrap();
    assert_eq!(session.cursor, logged.cursor);
    (session.state.clone(), SessionState::fold(id.clone(), &logged.events).unwrap())
}

#[test]
fn an_event_that_decodes_and_cannot_follow_is_refused_before_anything_is_written() {
    let disk = FaultyDisk::default();
    let service = guided(&disk);
    let (id, started) = start(&service);
    let session = wait(service.sessions.current(service.store(), &id)).unwrap();
    {
        let mut session = wait(session.lock());
        let root = session.state.root_of(&session.state.runs()[0]).unwrap().id.clone();
        let mut additions = engine::checkpoint(Checkpoint {
            state: &session.state,
            node_id: &root,
            attempt_id: &derive::checkpoint_attempt_id(&id, &root, 0),
            notes: None,
            now_ms: 2,
        })
        .unwrap();
        let forged = additions.events.iter_mut().find_map(|event| match &mut event.data {
            EventData::EdgeCreated { to_node_id, .. } => Some(to_node_id),
            _ => None,
        });
        // By then the preceding node is folded; an edge from the root to the root is not.
        forged.unwrap().clone_from(&root);
        let writer = wait(service.lock(&mut session)).unwrap();
        let files = disk.files();
        let failure = wait(service.append(&mut session, writer, additions, &[root])).unwrap_err();
        let refusal = Refusal::from(failure);
        assert_eq!(refusal.envelope().code(), "PLAN_REFUSED");
        let cause = refusal.envelope().details()["cause"].as_str().unwrap().to_owned();
        assert!(cause.contains("invalid edge"), "{cause}");
        assert!(disk.files() == files, "nothing was written, not even in part");
    }
    let (memory, log) = in_memory_and_in_the_log(&service, &id);
    assert_eq!(memory, log, "and nothing of it is believed");
    assert!(advance(&service, &started).unwrap().blocked.is_some(), "the session continues");
}

#[test]
fn after_a_write_that_failed_memory_says_what_the_log_says() {
    let steps = {
        let disk = FaultyDisk::default();
        let service = guided(&disk);
        let (_, started) = start(&service);
        let before = disk.writes();
        advance(&service, &started).unwrap();
        disk.writes() - before
    };
    for step in 0..steps {
        let disk = FaultyDisk::default();
        let service = guided(&disk);
        let (id, started) = start(&service);
        disk.set_fault(Fault::ErrorAt(step));
        let advanced = advance(&service, &started);
        let (memory, log) = in_memory_and_in_the_log(&service, &id);
        assert_eq!(memory, log, "error at write {step}");
        let again = advance(&service, &started).unwrap();
        assert_eq!(advance(&guided(&disk), &started).unwrap(), again, "error at write {step}");
        if let Ok(advanced) = advanced {
            assert_eq!(advanced, again, "error at write {step}");
        }
        assert_eq!(
            wait(service.store().load(id.clone())).unwrap().manifest.len(),
            4,
            "once, for all the calls: {step}"
        );
    }
}
