//! Unpacks a snapshot over the read-write slots of an apply.

use super::{Member, Snapshot};
use crate::Error;
use crate::apply::{Restore, RestoreSink, Restored};
use crate::slot::Slot;

impl Restore for Snapshot {
    fn restore(&self, slots: &[Slot], sink: &mut dyn RestoreSink) -> Result<(), Error> {
        // A slot that was empty when it was packed is emptied.
        for slot in self.listing().slots() {
            sink.covers(slot)?;
        }
        self.unpack(slots, &mut |Member { path, mode, mtime, content }| {
            Ok(sink.put(Restored { path, mode, mtime, content })?)
        })
    }
}
