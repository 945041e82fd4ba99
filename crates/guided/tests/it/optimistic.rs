//! A store without locks, as a database is: the expected event index alone decides between two writers. The loser answers from
//! the log if its call is recorded there, and otherwise asks its caller to repeat it.

use std::sync::{Arc, Mutex};

use catalogue::{Catalogue, CatalogueOptions};
use guide::bundle::Salvaged;
use guide::project::resume::ResumeQuery;
use guide::record::{EventIndex, SessionId};
use guide::token::Keyring;
use guided::api::{ContinueRequest, Handle, Intent, Reply, StartRequest};
use guided::{Guided, GuidedOptions, Verifier};
use ports::sessions::{
    Append, Appended, Creation, Cursor, Ended, GcReport, IndexPage, IsAwaited, Loaded, Object, ObjectRef,
    OpenRunRef, PositionKey, Retention, Revision, SearchResult, SessionIndex, SessionKeys, SessionLog,
    SessionMaintenance, SessionMarks, SessionObjects, SessionWriter, StoreError, StoreFuture,
    ValidatedPrefix, Verification,
};
use ports::{PortFuture, wait};
use storage::disk::MemoryDisk;
use storage::files::FileSessions;
use system::{ManualClock, SeededEntropy};

type Hook = Box<dyn FnOnce() + Send>;

/// Files, whose lock is only taken for the append itself.
#[derive(Clone)]
struct Optimistic {
    files: FileSessions,
    /// Runs once, between the decision and the append.
    before_append: Arc<Mutex<Option<Hook>>>,
}

impl std::fmt::Debug for Optimistic {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.files.fmt(formatter)
    }
}

#[derive(Debug)]
struct Tip {
    store: Optimistic,
    news: Loaded,
    ended: Option<Ended>,
}

impl SessionWriter for Tip {
    fn news(&self) -> &Loaded {
        &self.news
    }

    fn ended(&self) -> Option<&Ended> {
        self.ended.as_ref()
    }

    fn append(self: Box<Self>, append: Append) -> StoreFuture<'static, Appended> {
        PortFuture::boxed(async move {
            let hook = self.store.before_append.lock().unwrap().take();
            if let Some(hook) = hook {
                hook();
            }
            let session = append.plan.session_id().clone();
            self.store.files.lock(session, None).await?.append(append).await
        })
    }

    fn end(self: Box<Self>, ended: Ended) -> StoreFuture<'static, ()> {
        PortFuture::boxed(async move {
            let session = self.news.cursor.session_id().clone();
            self.store.files.lock(session, None).await?.end(ended).await
        })
    }
}

impl SessionLog for Optimistic {
    fn sessions(&self) -> StoreFuture<'_, Vec<SessionId>> {
        self.files.sessions()
    }

    fn revisions(&self, sessions: Vec<SessionId>) -> StoreFuture<'_, Vec<Option<Revision>>> {
        self.files.revisions(sessions)
    }

    fn create(&self, creation: Creation) -> StoreFuture<'_, Appended> {
        self.files.create(creation)
    }

    fn load_since(&self, cursor: Cursor) -> StoreFuture<'_, Loaded> {
        self.files.load_since(cursor)
    }

    fn load_validated_prefix(&self, session: SessionId) -> StoreFuture<'_, ValidatedPrefix> {
        self.files.load_validated_prefix(session)
    }

    fn lock(&self, session: SessionId, known: Option<Cursor>) -> StoreFuture<'_, Box<dyn SessionWriter>> {
        PortFuture::boxed(async move {
            let ended = self.files.ended(session.clone()).await?;
            let news = self.files.load_since(known.unwrap_or_else(|| Cursor::start(session))).await?;
            Ok(Box::new(Tip { store: self.clone(), news, ended }) as Box<dyn SessionWriter>)
        })
    }
}

impl SessionObjects for Optimistic {
    fn objects(&self, wanted: Vec<ObjectRef>) -> PortFuture<'_, Vec<Result<Object, StoreError>>> {
        self.files.objects(wanted)
    }
}

impl SessionIndex for Optimistic {
    fn position(&self, key: PositionKey) -> StoreFuture<'_, Option<(SessionId, EventIndex)>> {
        self.files.position(key)
    }

    fn search(&self, query: ResumeQuery, limit: usize) -> StoreFuture<'_, SearchResult> {
        self.files.search(query, limit)
    }

    fn page(&self, first: usize, limit: usize) -> StoreFuture<'_, IndexPage> {
        self.files.page(first, limit)
    }

    fn newest_open_run(&self, repo_root_hash: String) -> StoreFuture<'_, Option<OpenRunRef>> {
        self.files.newest_open_run(repo_root_hash)
    }
}

impl SessionMarks for Optimistic {
    fn are_kept(&self, sessions: Vec<SessionId>) -> StoreFuture<'_, Vec<bool>> {
        self.files.are_kept(sessions)
    }

    fn set_kept(&self, session: SessionId, kept: bool) -> StoreFuture<'_, ()> {
        self.files.set_kept(session, kept)
    }

    fn ended(&self, session: SessionId) -> StoreFuture<'_, Option<Ended>> {
        self.files.ended(session)
    }

    fn salvaged(&self, session: SessionId) -> StoreFuture<'_, Option<Salvaged>> {
        self.files.salvaged(session)
    }
}

impl SessionKeys for Optimistic {
    fn keyring(&self) -> StoreFuture<'_, Option<Keyring>> {
        self.files.keyring()
    }

    fn keyring_or_create(&self, entropy: [u8; 32]) -> StoreFuture<'_, Keyring> {
        self.files.keyring_or_create(entropy)
    }

    fn rotate_keys(&self, entropy: [u8; 32]) -> StoreFuture<'_, Keyring> {
        self.files.rotate_keys(entropy)
    }
}

impl SessionMaintenance for Optimistic {
    fn verify(&self, session: SessionId) -> StoreFuture<'_, Verification> {
        self.files.verify(session)
    }

    fn gc(&self, retention: Retention, is_awaited: IsAwaited) -> StoreFuture<'_, GcReport> {
        self.files.gc(retention, is_awaited)
    }
}

fn open(disk: &MemoryDisk) -> Optimistic {
    Optimistic { files: FileSessions::open(Arc::new(disk.clone())).unwrap(), before_append: Arc::default() }
}

fn guided(store: &Optimistic) -> Guided {
    Guided::new(GuidedOptions {
        store: Arc::new(store.clone()),
        catalogue: Catalogue::new(CatalogueOptions::default()),
        clock: Arc::new(ManualClock::at(1_700_000_000_000)),
        entropy: Arc::new(SeededEntropy::new(1)),
        verifier: Verifier::none(),
        advanced: Arc::default(),
    })
}

fn start(guided: &Guided) -> Reply {
    let request = StartRequest {
        workflow_id: "wr.bug_investigation".into(),
        goal: "two hosts".into(),
        ..StartRequest::default()
    };
    wait(guided.start(request)).unwrap()
}

fn advance(reply: &Reply) -> ContinueRequest {
    ContinueRequest {
        handle: Handle::Single(reply.continue_token.clone().unwrap()),
        intent: Intent::Advance,
        notes_markdown: Some("What was found.".into()),
        artifacts: Vec::new(),
        context: None,
        preferences: None,
    }
}

#[test]
fn a_store_without_locks_keeps_the_contract() {
    let disk = MemoryDisk::default();
    wait(ports::contract::sessions::contract(&open(&disk), &open(&disk)));
}

#[test]
fn a_call_that_another_host_recorded_meanwhile_gets_the_recorded_answer() {
    let disk = MemoryDisk::default();
    let (here, there) = (open(&disk), open(&disk));
    let (slow, quick) = (guided(&here), guided(&there));
    let first = start(&slow);
    let (answered, call) = (Arc::new(Mutex::new(None)), advance(&first));
    *here.before_append.lock().unwrap() = Some(Box::new({
        let (answered, call) = (Arc::clone(&answered), call.clone());
        move || *answered.lock().unwrap() = Some(wait(quick.proceed(call)).unwrap())
    }));
    let reply = wait(slow.proceed(call)).unwrap();
    assert_eq!(Some(reply), answered.lock().unwrap().take(), "one step, one answer");
}

#[test]
fn a_call_that_loses_to_another_one_is_repeated() {
    let disk = MemoryDisk::default();
    let (here, there) = (open(&disk), open(&disk));
    let (slow, quick) = (guided(&here), guided(&there));
    let first = start(&slow);
    let id = SessionId::parse(&first.run.session_id).unwrap();
    let bookmark = first.checkpoint_token.clone().unwrap();
    *here.before_append.lock().unwrap() =
        Some(Box::new(move || drop(wait(quick.checkpoint(&bookmark, None)).unwrap())));
    let before = wait(here.load(id.clone())).unwrap().events.len();
    let refusal = wait(slow.proceed(advance(&first))).unwrap_err();
    assert_eq!(refusal.envelope().code(), "TOKEN_SESSION_LOCKED");
    assert!(refusal.envelope().retry_hint().after_ms().is_some(), "it can be repeated");
    let after = wait(here.load(id)).unwrap().events;
    assert!(after.len() > before, "the checkpoint is recorded, the step is not");
    wait(slow.proceed(advance(&first))).unwrap();
}
