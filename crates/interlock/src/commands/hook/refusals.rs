//! Counts how often a conversation was refused to stop at the same position.
//!
//! A client repeats the refusal to its model at once, so an agent that cannot go on would be asked hundreds of times a
//! minute. The counts are in the cache: losing them costs a few more refusals.

use std::path::{Path, PathBuf};

use canon::digest::Digest;
use serde::{Deserialize, Serialize};

/// How often a conversation is refused to stop without any progress.
pub(super) const MAX_REFUSALS: u32 = 3;
/// How many conversations are remembered.
const CONVERSATIONS: usize = 32;
/// A larger file is not one of ours.
const FILE_BYTES: u64 = 64 << 10;

#[derive(Debug, Default, Serialize, Deserialize)]
struct Refusals {
    /// The oldest first.
    conversations: Vec<Conversation>,
}

#[derive(Debug, Serialize, Deserialize)]
struct Conversation {
    /// The digest of the client's id, which can have any length.
    id: Digest,
    /// The digest of the token that returns to where the run was.
    position: Digest,
    refused: u32,
}

/// The file with the counts of a data directory.
pub(super) struct RefusalCounts {
    file: PathBuf,
}

impl RefusalCounts {
    pub(super) fn of(data_dir: &Path) -> Self {
        Self { file: data_dir.join("cache").join("hook-refusals.json") }
    }

    /// Counts a refusal; `false` if the agent was refused often enough and may stop. A conversation that was not
    /// sent back, or that has moved on since, is counted from the beginning.
    pub(super) fn may_refuse(&self, conversation: &str, position: &str, sent_back: bool) -> bool {
        let (id, position) =
            (Digest::of_bytes(conversation.as_bytes()), Digest::of_bytes(position.as_bytes()));
        let mut refusals = self.read();
        let place = refusals.conversations.iter().position(|known| known.id == id);
        let known = place.map(|place| refusals.conversations.remove(place));
        let before = known.filter(|known| sent_back && known.position == position);
        let refused = before.map_or(0, |known| known.refused);
        if refused >= MAX_REFUSALS {
            self.write(&refusals);
            return false;
        }
        if refusals.conversations.len() >= CONVERSATIONS {
            refusals.conversations.remove(0);
        }
        refusals.conversations.push(Conversation { id, position, refused: refused + 1 });
        self.write(&refusals);
        true
    }

    fn read(&self) -> Refusals {
        let is_ours = std::fs::metadata(&self.file).is_ok_and(|file| file.len() <= FILE_BYTES);
        let text = is_ours.then(|| std::fs::read(&self.file).ok()).flatten();
        text.and_then(|text| serde_json::from_slice(&text).ok()).unwrap_or_default()
    }

    /// Replaces the file. A count that cannot be written is not counted: the time limit still applies.
    fn write(&self, refusals: &Refusals) {
        let Some(folder) = self.file.parent() else { return };
        let replaced = std::fs::create_dir_all(folder).and_then(|()| {
            let mut temporary = tempfile::NamedTempFile::new_in(folder)?;
            serde_json::to_writer(&mut temporary, refusals)?;
            temporary.persist(&self.file)?;
            Ok(())
        });
        if let Err(error) = replaced {
            tracing::debug!(%error, "the count of refusals was not written");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_conversation_is_refused_three_times_at_one_position() {
        let folder = tempfile::tempdir().unwrap();
        let counts = RefusalCounts::of(folder.path());
        let refusals = |position: &str| {
            let mut count = 0;
            while counts.may_refuse("one", position, count > 0) {
                count += 1;
            }
            count
        };
        assert_eq!(refusals("first"), MAX_REFUSALS);
        assert_eq!(refusals("first"), MAX_REFUSALS, "the next turn of the user begins again");
        assert!(counts.may_refuse("one", "first", false) && counts.may_refuse("one", "second", true));
        assert!(counts.may_refuse("other", "second", true), "each conversation has its own count");
    }

    #[test]
    fn the_file_is_bounded_and_replaceable() {
        let folder = tempfile::tempdir().unwrap();
        let counts = RefusalCounts::of(folder.path());
        for number in 0..100 {
            assert!(counts.may_refuse(&format!("conversation {number}"), "here", true));
        }
        assert_eq!(counts.read().conversations.len(), CONVERSATIONS);
        std::fs::write(&counts.file, "not JSON").unwrap();
        assert!(counts.may_refuse("one", "here", true));
        assert_eq!(counts.read().conversations.len(), 1);
    }
}
