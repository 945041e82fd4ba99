//! The contract of the port.

use ports::contract::runs::check;
use postgres::{Options, PostgresRuns};

use crate::{RUNTIME, database, options};

fn check_with(change: impl Fn(Options) -> Options) {
    if RUNTIME.block_on(database()).is_none() {
        return;
    }
    check(|| {
        RUNTIME.block_on(async {
            let url = database().await.unwrap();
            PostgresRuns::open(&change(options(&url))).await.unwrap()
        })
    });
}

#[test]
fn commits_in_batches_keep_the_contract() {
    check_with(|options| options);
}

#[test]
fn commits_in_transactions_of_their_own_keep_the_contract() {
    check_with(|options| Options { batching: false, ..options });
}

#[test]
fn one_writer_and_one_reader_keep_the_contract() {
    check_with(|options| Options { writers: 1, readers: 1, ..options });
}
