//! Nearest-neighbor scan over the blocks of a collection.
//!
//! sqlite-vec stores vectors in blocks. A row of `<table>_chunks` lists the vectors of a block, and the row with the
//! same id in `<table>_vector_chunks00` has their numbers. The search of sqlite-vec adds one product at a time; this
//! one reads the same blocks and adds sixteen, which compiles to SIMD. The layout is that of the linked version, and
//! tests compare both searches.

use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;

use rusqlite::{Connection, params};

/// The number of products added in parallel.
const LANES: usize = 16;

/// A vector and its cosine similarity to the query.
#[derive(Clone, Copy, Debug)]
pub(super) struct Neighbor {
    pub(super) number: i64,
    pub(super) score: f32,
}

impl Ord for Neighbor {
    /// The nearer one is greater; of two equally near, the older one.
    fn cmp(&self, other: &Self) -> Ordering {
        self.score.total_cmp(&other.score).then_with(|| other.number.cmp(&self.number))
    }
}

impl PartialOrd for Neighbor {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Neighbor {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Neighbor {}

/// The nearest vectors of a partition, the nearest first; of all, or among the given sorted rowids.
///
/// Both sides are normalized, so the dot product is the cosine.
pub(super) fn nearest(
    connection: &Connection,
    table: &str,
    partition: i64,
    wanted: &[f32],
    matches: usize,
    among: Option<&[i64]>,
) -> rusqlite::Result<Vec<Neighbor>> {
    let mut statement = connection.prepare_cached(&format!(
        "SELECT chunks.validity, chunks.rowids, blocks.vectors
         FROM {table}_chunks AS chunks JOIN {table}_vector_chunks00 AS blocks ON blocks.rowid = chunks.chunk_id
         WHERE chunks.partition00 = ?1"
    ))?;
    let mut rows = statement.query(params![partition])?;
    // The least near match is on top.
    let mut best: BinaryHeap<Reverse<Neighbor>> = BinaryHeap::with_capacity(matches + 1);
    while let Some(row) = rows.next()? {
        let blob = |column: usize| Ok::<_, rusqlite::Error>(row.get_ref(column)?.as_blob()?);
        let (validity, numbers, vectors) = (blob(0)?, blob(1)?.as_chunks::<8>().0, blob(2)?);
        for (place, (vector, number)) in vectors.chunks_exact(4 * wanted.len()).zip(numbers).enumerate() {
            let is_there = validity.get(place / 8).is_some_and(|bits| (bits >> (place % 8)) & 1 == 1);
            let number = i64::from_ne_bytes(*number);
            if !is_there || among.is_some_and(|among| among.binary_search(&number).is_err()) {
                continue;
            }
            let near = Neighbor { number, score: product(vector, wanted) };
            if best.len() < matches {
                best.push(Reverse(near));
            } else if let Some(mut least) = best.peek_mut()
                && near > least.0
            {
                *least = Reverse(near);
            }
        }
    }
    Ok(best.into_sorted_vec().into_iter().map(|Reverse(near)| near).collect())
}

/// The dot product, in independent lanes so that the compiler can vectorize it: floating-point sums depend on their
/// order, which it must otherwise keep.
fn product(vector: &[u8], wanted: &[f32]) -> f32 {
    let mut lanes = [0.0_f32; LANES];
    let (vector, vector_rest) = vector.as_chunks::<{ 4 * LANES }>();
    let (wanted, wanted_rest) = wanted.as_chunks::<LANES>();
    for (vector, wanted) in vector.iter().zip(wanted) {
        let (vector, _) = vector.as_chunks::<4>();
        for lane in 0..LANES {
            lanes[lane] += f32::from_le_bytes(vector[lane]) * wanted[lane];
        }
    }
    let rest = vector_rest.as_chunks::<4>().0.iter().zip(wanted_rest);
    let rest: f32 = rest.map(|(part, wanted)| f32::from_le_bytes(*part) * wanted).sum();
    lanes.iter().sum::<f32>() + rest
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const DIMENSIONS: usize = 24;

    /// Normalized vectors in partitions 1 and 2; every third of the first was removed.
    fn filled(vectors: &[Vec<f32>]) -> Connection {
        let connection = Connection::open_in_memory().unwrap();
        super::super::extension::join_sqlite_vec(&connection).unwrap();
        connection
            .execute_batch(&format!(
                "CREATE VIRTUAL TABLE v USING vec0(
                     part integer partition key, vector float[{DIMENSIONS}] distance_metric=L2, chunk_size=8)"
            ))
            .unwrap();
        for (number, vector) in (1_i64..).zip(vectors) {
            let part = if number % 4 == 0 { 2 } else { 1 };
            connection
                .execute(
                    "INSERT INTO v (rowid, part, vector) VALUES (?1, ?2, ?3)",
                    params![number, part, bytes(vector)],
                )
                .unwrap();
            if number % 3 == 0 && part == 1 {
                connection.execute("DELETE FROM v WHERE rowid = ?1", [number]).unwrap();
            }
        }
        connection
    }

    fn bytes(vector: &[f32]) -> Vec<u8> {
        vector.iter().flat_map(|part| part.to_le_bytes()).collect()
    }

    fn unit(vector: Vec<f32>) -> Vec<f32> {
        let length = vector.iter().map(|part| part * part).sum::<f32>().sqrt();
        vector.into_iter().map(|part| part / length).collect()
    }

    fn vector() -> impl Strategy<Value = Vec<f32>> {
        proptest::collection::vec(-1.0_f32..1.0, DIMENSIONS)
            .prop_filter("it is not zero", |vector| vector.iter().any(|part| part.abs() > 0.1))
            .prop_map(unit)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(48))]

        #[test]
        fn agrees_with_sqlite_vec(
            vectors in proptest::collection::vec(vector(), 1..60), wanted in vector(), matches in 0_usize..12
        ) {
            let connection = filled(&vectors);
            for part in [1, 2, 3] {
                let found = nearest(&connection, "v", part, &wanted, matches, None).unwrap();
                let mut statement = connection
                    .prepare("SELECT rowid, distance FROM v WHERE vector MATCH ?1 AND k = ?2 AND part = ?3")
                    .unwrap();
                let theirs: Vec<(i64, f64)> = statement
                    .query_map(params![bytes(&wanted), matches, part], |row| Ok((row.get(0)?, row.get(1)?)))
                    .unwrap()
                    .collect::<Result<_, _>>()
                    .unwrap();
                prop_assert_eq!(found.len(), theirs.len());
                for (near, (_, distance)) in found.iter().zip(&theirs) {
                    // The cosine is 1 minus half the squared distance. Rounding may swap two neighbors.
                    let score = 1.0 - distance * distance / 2.0;
                    prop_assert!((f64::from(near.score) - score).abs() < 1e-5, "{near:?} {score}");
                    prop_assert!(near.number % 3 != 0 || part == 2);
                }
            }
            let among = [2, 4, 5, 8, 11];
            let found = nearest(&connection, "v", 1, &wanted, 60, Some(&among)).unwrap();
            let mut numbers: Vec<i64> = found.iter().map(|near| near.number).collect();
            numbers.sort_unstable();
            let there: Vec<i64> = [2, 5, 11].into_iter().filter(|number| *number <= vectors.len() as i64).collect();
            prop_assert_eq!(numbers, there);
        }

        #[test]
        fn dot_product_of_any_length(
            pairs in proptest::collection::vec((-1.0_f32..1.0, -1.0_f32..1.0), 1..70)
        ) {
            let bytes: Vec<u8> = pairs.iter().flat_map(|(part, _)| part.to_le_bytes()).collect();
            let wanted: Vec<f32> = pairs.iter().map(|(_, wanted)| *wanted).collect();
            let expected: f64 = pairs.iter().map(|(part, wanted)| f64::from(*part) * f64::from(*wanted)).sum();
            prop_assert!((f64::from(product(&bytes, &wanted)) - expected).abs() < 1e-4);
        }
    }
}
