//! Group commit with one writer thread.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use disk::sqlite::{MAX_BATCH, Panicked, Readers, Refused, Settings, Work, Writer, open_writer};
use rusqlite::Connection;

const SETTINGS: Settings = Settings { cache_kib: 1024, statements: 16, idle_readers: 2, prepare: |_| Ok(()) };

/// What a job does to the table of numbers.
#[derive(Clone, Copy, Debug)]
enum Change {
    /// Inserts a number; SQLite rejects duplicates.
    Add(i64),
    /// Fails before it changes anything.
    Refuse,
    /// Inserts a number, then fails.
    AddAndRefuse(i64),
    /// Inserts a number, then panics.
    AddAndPanic(i64),
    /// Inserts a number, and panics in its callback.
    AddAndPanicLater(i64),
    /// Inserts a number and ends the transaction, as SQLite may after an error.
    EndTransaction(i64),
    /// Violates a rule that SQLite checks in `COMMIT`.
    BreakCommit,
    /// Fails with that SQLite code; some codes abort the batch.
    Fail(i32),
    /// Waits until the test has queued the jobs of the next batch.
    Wait,
}

type Outcome = Result<(), String>;

struct Numbers {
    go: Receiver<()>,
    outcomes: Sender<(usize, Outcome)>,
    batches: Sender<usize>,
    applied: Sender<usize>,
    size: usize,
}

impl Work for Numbers {
    type Job = (usize, Change);
    type Error = String;

    fn taken(&mut self, count: usize) {
        self.size = count;
    }

    fn apply(
        &mut self,
        connection: &Connection,
        (id, change): &mut Self::Job,
    ) -> Result<(), Refused<String>> {
        let add = |number: i64| connection.execute("INSERT INTO numbers VALUES (?1)", [number]);
        let _ = self.applied.send(*id);
        match *change {
            Change::Add(number) | Change::AddAndPanicLater(number) => {
                add(number)?;
            }
            Change::Refuse => return Err(Refused::Change("refused".to_owned())),
            Change::AddAndRefuse(number) => {
                add(number)?;
                return Err(Refused::Change("failed late".to_owned()));
            }
            Change::AddAndPanic(number) => {
                add(number)?;
                panic!("a bug in a change");
            }
            Change::EndTransaction(number) => {
                add(number)?;
                connection.execute_batch("ROLLBACK")?;
                let busy = rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_BUSY);
                return Err(rusqlite::Error::SqliteFailure(busy, Some("as configured".to_owned())).into());
            }
            Change::BreakCommit => {
                connection.execute("INSERT INTO orphans VALUES (-1)", [])?;
            }
            Change::Fail(code) => {
                let error = rusqlite::ffi::Error::new(code);
                return Err(rusqlite::Error::SqliteFailure(error, Some("as configured".to_owned())).into());
            }
            Change::Wait => self.go.recv().unwrap(),
        }
        Ok(())
    }

    fn failure(&self, error: rusqlite::Error) -> String {
        format!("sqlite: {error}")
    }

    fn commit_failure(&self, error: rusqlite::Error) -> String {
        format!("commit: {error}")
    }

    fn panicked(&self, _job: &Self::Job) -> String {
        Panicked.to_string()
    }

    fn done(&mut self, (id, change): Self::Job, outcome: Outcome) {
        let _ = self.outcomes.send((id, outcome));
        assert!(!matches!(change, Change::AddAndPanicLater(_)), "a bug of a caller");
    }

    fn after(&mut self, _connection: &Connection, _is_committed: bool) {
        let _ = self.batches.send(self.size);
    }
}

/// The result of a batch.
struct Seen {
    outcomes: Vec<Outcome>,
    numbers: Vec<i64>,
    /// The sizes of the batches after the one that waited.
    batches: Vec<usize>,
    /// How often each change was applied.
    applied: Vec<usize>,
}

/// Applies the changes in one batch: they queue up while a first batch waits.
fn together(changes: &[Change]) -> Seen {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("numbers.sqlite3");
    let connection = open_writer(&path, &SETTINGS).unwrap();
    connection
        .execute_batch(
            "PRAGMA foreign_keys = ON;
             CREATE TABLE numbers (number INTEGER PRIMARY KEY) STRICT;
             CREATE TABLE orphans (number INTEGER REFERENCES numbers DEFERRABLE INITIALLY DEFERRED) STRICT;",
        )
        .unwrap();
    let ((go, gone), (outcomes, received)) = (channel(), channel());
    let ((batches, sizes), (applied, made)) = (channel(), channel());
    let work = Numbers { go: gone, outcomes, batches, applied, size: 0 };
    let writer = Writer::start("numbers", connection, work).unwrap();
    writer.submit((usize::MAX, Change::Wait)).unwrap();
    assert_eq!(made.recv(), Ok(usize::MAX), "the first batch is running");
    for job in changes.iter().copied().enumerate() {
        writer.submit(job).unwrap();
    }
    go.send(()).unwrap();
    drop(writer);
    let mut outcomes: Vec<_> = received.iter().collect();
    assert_eq!(outcomes.remove(0), (usize::MAX, Ok(())));
    assert!(outcomes.iter().map(|(id, _)| *id).eq(0..changes.len()), "in queue order");
    let mut count = vec![0; changes.len()];
    made.iter().for_each(|id| count[id] += 1);
    let numbers = Readers::new(&path, SETTINGS)
        .read::<_, rusqlite::Error>(|connection| {
            let mut statement = connection.prepare("SELECT number FROM numbers ORDER BY number")?;
            statement.query_map([], |row| row.get(0))?.collect()
        })
        .unwrap();
    let outcomes = outcomes.into_iter().map(|(_, outcome)| outcome).collect();
    Seen { outcomes, numbers, batches: sizes.iter().skip(1).collect(), applied: count }
}

/// A name, the changes, their results, the numbers that exist afterwards, and how often each change was applied.
type Case = (&'static str, Vec<Change>, Vec<Outcome>, Vec<i64>, Vec<usize>);

#[test]
fn queued_jobs_share_a_transaction() {
    let refused = |text: &str| Err(text.to_owned());
    let unique = refused("sqlite: UNIQUE constraint failed: numbers.number");
    let (full, read_only) = (rusqlite::ffi::SQLITE_FULL, rusqlite::ffi::SQLITE_READONLY);
    let cases: [Case; 10] = [
        (
            "all are committed",
            vec![Change::Add(1), Change::Add(2)],
            vec![Ok(()), Ok(())],
            vec![1, 2],
            vec![1, 1],
        ),
        (
            "a failure without changes does not affect the others",
            vec![Change::Add(1), Change::Refuse, Change::Add(3)],
            vec![Ok(()), refused("refused"), Ok(())],
            vec![1, 3],
            vec![1, 1, 1],
        ),
        (
            "a late failure is rolled back, and the others are applied again",
            vec![Change::Add(1), Change::AddAndRefuse(2), Change::Add(3)],
            vec![Ok(()), refused("failed late"), Ok(())],
            vec![1, 3],
            vec![2, 2, 1],
        ),
        (
            "an SQLite error affects one change",
            vec![Change::Add(1), Change::Add(1), Change::Add(3)],
            vec![Ok(()), unique, Ok(())],
            vec![1, 3],
            vec![2, 2, 1],
        ),
        (
            "a panicking change is rolled back",
            vec![Change::Add(1), Change::AddAndPanic(2), Change::Add(3)],
            vec![Ok(()), Err(Panicked.to_string()), Ok(())],
            vec![1, 3],
            vec![2, 2, 1],
        ),
        (
            "a panicking caller does not affect the others",
            vec![Change::AddAndPanicLater(1), Change::Add(2)],
            vec![Ok(()), Ok(())],
            vec![1, 2],
            vec![1, 1],
        ),
        (
            "a transaction that SQLite ended fails the batch",
            vec![Change::Add(1), Change::EndTransaction(2), Change::Add(3)],
            vec![refused("sqlite: as configured"); 3],
            vec![],
            vec![1, 1, 0],
        ),
        (
            "a full disk fails the batch",
            vec![Change::Add(1), Change::Fail(full), Change::Add(3)],
            vec![refused("sqlite: as configured"); 3],
            vec![],
            vec![1, 1, 0],
        ),
        (
            "a failed COMMIT fails the batch with an error of its own",
            vec![Change::Add(1), Change::BreakCommit],
            vec![refused("commit: FOREIGN KEY constraint failed"); 2],
            vec![],
            vec![1, 1],
        ),
        (
            "a file that became read-only fails the batch",
            vec![Change::Add(1), Change::Fail(read_only), Change::Add(3)],
            vec![refused("sqlite: as configured"); 3],
            vec![],
            vec![1, 1, 0],
        ),
    ];
    for (name, changes, outcomes, numbers, applied) in cases {
        let seen = together(&changes);
        let error =
            |outcome: &Outcome| outcome.clone().map_err(|text| text.replace("database is locked", ""));
        let (received, expected) = (seen.outcomes.iter().map(error), outcomes.iter().map(error));
        assert_eq!(received.collect::<Vec<_>>(), expected.collect::<Vec<_>>(), "{name}");
        assert_eq!(seen.numbers, numbers, "{name}");
        assert_eq!(seen.applied, applied, "{name}");
        assert_eq!(seen.batches, [changes.len()], "{name}");
    }
}

#[test]
fn batches_are_limited_and_drained_on_drop() {
    let changes: Vec<_> =
        (0..MAX_BATCH + 3).map(|number| Change::Add(i64::try_from(number).unwrap())).collect();
    let seen = together(&changes);
    assert!(seen.outcomes.iter().all(Result::is_ok));
    assert_eq!(seen.numbers.len(), changes.len());
    assert_eq!(seen.batches, [MAX_BATCH, 3]);
}

/// Reports when it is idle.
struct Idling(Sender<()>);

impl Work for Idling {
    type Job = ();
    type Error = ();

    fn apply(&mut self, _connection: &Connection, (): &mut ()) -> Result<(), Refused<()>> {
        Ok(())
    }

    fn failure(&self, _error: rusqlite::Error) {}

    fn panicked(&self, (): &()) {}

    fn done(&mut self, (): (), _outcome: Result<(), ()>) {}

    fn pause(&mut self) -> Option<Duration> {
        Some(Duration::from_millis(1))
    }

    fn idle(&mut self, _connection: &Connection) {
        let _ = self.0.send(());
    }
}

#[test]
fn an_idle_writer_calls_idle_and_stops() {
    let (idle, received) = channel();
    let writer = Writer::start("idle", Connection::open_in_memory().unwrap(), Idling(idle)).unwrap();
    received.recv().unwrap();
    // Returns once the thread has ended.
    drop(writer);
}

#[test]
fn files_are_owner_only() {
    use std::os::unix::fs::PermissionsExt as _;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("file");
    std::fs::write(&path, b"").unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o644)).unwrap();
    let connection = open_writer(&path, &SETTINGS).unwrap();
    connection.execute_batch("CREATE TABLE t (n INTEGER)").unwrap();
    let modes = std::fs::read_dir(folder.path()).unwrap().map(|entry| {
        let entry = entry.unwrap();
        (entry.file_name(), entry.metadata().unwrap().permissions().mode() & 0o777)
    });
    let open: Vec<_> = modes.filter(|(_, mode)| *mode != 0o600).collect();
    assert!(open.is_empty(), "{open:?}");
    assert!(open_writer(&folder.path().join("missing/file"), &SETTINGS).is_err());
}
