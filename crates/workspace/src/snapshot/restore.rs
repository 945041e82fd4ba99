//! A snapshot as what an apply unpacks over the read-write slots.

use super::{Member, Snapshot};
use crate::Error;
use crate::apply::{Restore, RestoreSink, Restored};
use crate::slot::Slot;

impl Restore for Snapshot {
    fn restore(&self, slots: &[Slot], sink: &mut dyn RestoreSink) -> Result<(), Error> {
        // A slot that was empty when it was packed is empty again.
        for slot in self.listing().slots() {
            sink.covers(slot)?;
        }
        self.unpack(slots, &mut |Member { path, mode, mtime, content }| {
            Ok(sink.put(Restored { path, mode, mtime, content })?)
        })
    }
}
