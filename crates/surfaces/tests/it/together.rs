//! Changes that share a commit.

use std::pin::pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex};

use canon::time::Timestamp;
use futures_util::FutureExt as _;
use futures_util::future::join_all;
use rusqlite::Connection;
use surfaces::args::refuse;
use surfaces::embedded::{Database, Refused, Schema};
use surfaces::{Code, Scope, Tenant};

use crate::helper::NOW;

static SCHEMA: Schema = Schema {
    name: "together",
    steps: &["CREATE TABLE numbers (number INTEGER PRIMARY KEY) STRICT"],
    prepare: |_| Ok(()),
    sweep: |_, _| Ok(false),
};

/// What a change does after it has written its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Kept,
    KeptOnce,
    Refused,
    Failed,
    Panicked,
}

const ENDS: [End; 5] = [End::Kept, End::Refused, End::KeptOnce, End::Failed, End::Panicked];
const COUNT: i64 = 50;

fn write(connection: &Connection, number: i64, end: End) -> Result<i64, Refused> {
    let insert = || connection.prepare_cached("INSERT INTO numbers (number) VALUES (?1)")?.execute([number]);
    insert()?;
    match end {
        End::Kept | End::KeptOnce => Ok(number),
        End::Refused => Err(refuse("too late").into()),
        End::Failed => Ok(i64::try_from(insert()?).unwrap()),
        End::Panicked => panic!("a deliberate panic"),
    }
}

/// Blocks the writer in the first change until everything else is queued behind it.
#[derive(Default)]
struct Barrier {
    is_open: Mutex<bool>,
    opened: Condvar,
}

impl Barrier {
    fn open(&self) {
        *self.is_open.lock().unwrap() = true;
        self.opened.notify_all();
    }

    fn pass(&self) {
        let _open = self.opened.wait_while(self.is_open.lock().unwrap(), |is_open| !*is_open).unwrap();
    }
}

#[tokio::test]
async fn a_late_failure_rolls_back_alone() {
    let folder = tempfile::tempdir().unwrap();
    let database = Database::open(&folder.path().join("file"), &SCHEMA).unwrap();
    let scope = Scope::new(Tenant::new("acme").unwrap(), Timestamp(NOW));
    let (door, result) = (Arc::new(Barrier::default()), Arc::new(AtomicUsize::new(0)));
    let held = Arc::clone(&door);
    let mut first = pin!(database.change(&scope, "first", move |_| {
        held.pass();
        Ok(())
    }));
    assert!((&mut first).now_or_never().is_none());
    let scopes: Vec<(i64, End, Scope)> = (0..COUNT)
        .map(|number| {
            let end = ENDS[usize::try_from(number).unwrap() % ENDS.len()];
            let scope = scope.clone();
            let under = if end == End::KeptOnce { scope.with_effect(format!("e{number}")) } else { scope };
            (number, end, under)
        })
        .collect();
    let change = |(number, end, scope)| {
        let (number, end): (i64, End) = (number, end);
        let result = Arc::clone(&result);
        let then = move |_: &i64| {
            result.fetch_add(1, Ordering::Relaxed);
        };
        let write = move |connection: &Connection| write(connection, number, end);
        let (scope, database): (&Scope, _) = (scope, &database);
        database.change_then(scope, "number", write, then).boxed()
    };
    let mut waiting = join_all(scopes.iter().map(|(number, end, scope)| change((*number, *end, scope))));
    assert!((&mut waiting).now_or_never().is_none());
    door.open();
    first.await.unwrap();
    let mut kept = Vec::new();
    for ((number, end, _), outcome) in scopes.iter().zip(waiting.await) {
        match (end, outcome) {
            (End::Kept | End::KeptOnce, Ok(result)) => {
                assert_eq!(result, *number);
                kept.push(*number);
            }
            (End::Refused, Err(error)) => assert_eq!(error.code, Code::InvalidArgument),
            (End::Failed | End::Panicked, Err(error)) => assert_eq!(error.code, Code::SurfaceUnavailable),
            (end, outcome) => panic!("{number}, {end:?}: {outcome:?}"),
        }
    }
    assert_eq!(result.load(Ordering::Relaxed), kept.len());
    let numbers = database.read(|connection| {
        let mut statement = connection.prepare("SELECT number FROM numbers ORDER BY number")?;
        Ok(statement.query_map([], |row| row.get(0))?.collect::<rusqlite::Result<Vec<i64>>>()?)
    });
    assert_eq!(numbers.unwrap(), kept);
    // A repeated effect returns the stored result: the number exists once.
    for (number, end, scope) in scopes.iter().filter(|(_, end, _)| *end == End::KeptOnce) {
        assert_eq!(change((*number, *end, scope)).await.unwrap(), *number);
    }
    assert_eq!(result.load(Ordering::Relaxed), kept.len());
}
