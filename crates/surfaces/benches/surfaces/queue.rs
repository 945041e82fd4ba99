//! Messages that are published, handed over and acknowledged, each of the three on the disk when it returns.

use std::sync::Arc;

use futures_util::future::join_all;
use surfaces::queue::{Consume, Queue};
use tokio::sync::Semaphore;

use super::figures::{Limit, Table, median, timed};
use super::{Bench, CALLERS, rate, scope, value};

const LEAST_A_SECOND: f64 = 10_000.0;

pub(crate) fn queue(bench: &Bench, table: &mut Table) {
    const COUNT: usize = 20_000;
    let mut rounds = Vec::new();
    for _ in 0..bench.rounds {
        rounds.push(timed(|| bench.runtime.block_on(round(bench.surfaces.queue(), COUNT))));
    }
    let middle = median(&mut rounds);
    table.title("queue, 64 producers and 64 consumers");
    #[expect(clippy::cast_precision_loss, reason = "a count of some thousands")]
    let a_second = COUNT as f64 / middle.as_secs_f64();
    let what = "published, handed over and acknowledged";
    table.limited(
        what,
        &rate(COUNT, middle),
        a_second / LEAST_A_SECOND,
        "of 10,000 a second",
        Limit::AtLeast(1.0),
    );
}

async fn round(queue: &Arc<dyn Queue>, count: usize) {
    let published = Arc::new(Semaphore::new(0));
    let producers = (0..CALLERS).map(|producer| {
        let (queue, published) = (Arc::clone(queue), Arc::clone(&published));
        tokio::spawn(async move { produce(&*queue, &published, producer, count).await })
    });
    let consumers = (0..CALLERS).map(|consumer| {
        let (queue, published) = (Arc::clone(queue), Arc::clone(&published));
        tokio::spawn(async move { take(&*queue, &published, consumer, count).await })
    });
    let work: Vec<_> = producers.chain(consumers).collect();
    for done in join_all(work).await {
        done.unwrap();
    }
}

async fn produce(queue: &dyn Queue, published: &Semaphore, producer: usize, count: usize) {
    let scope = scope();
    for n in (producer..count).step_by(CALLERS) {
        queue.publish(&scope, "jobs".into(), value(n)).await.unwrap();
        published.add_permits(1);
    }
}

async fn take(queue: &dyn Queue, published: &Semaphore, consumer: usize, count: usize) {
    let scope = scope();
    for _ in (consumer..count).step_by(CALLERS) {
        published.acquire().await.unwrap().forget();
        let delivery = queue.consume(&scope, Consume::of("jobs")).await.unwrap().unwrap();
        assert!(queue.ack(&scope, delivery.token).await.unwrap());
    }
}
