//! Numbers that are the same at every run.

/// A generator with the state of one word.
pub(crate) struct Numbers(pub(crate) u64);

impl Numbers {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    /// From 0 to 1.
    #[expect(clippy::cast_precision_loss, reason = "24 bits")]
    pub(crate) fn part(&mut self) -> f32 {
        (self.next() >> 40) as f32 / 16_777_216.0
    }

    /// A vector of length 1.
    pub(crate) fn vector(&mut self, dimensions: usize) -> Vec<f32> {
        let mut vector: Vec<f32> = (0..dimensions).map(|_| self.part() - 0.5).collect();
        let length = vector.iter().map(|part| part * part).sum::<f32>().sqrt();
        vector.iter_mut().for_each(|part| *part /= length);
        vector
    }
}
