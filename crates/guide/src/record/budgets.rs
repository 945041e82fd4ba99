//! Size limits, in UTF-8 bytes unless a name says otherwise.

/// Notes of one step in a recap, which people and models read. More belongs in an artifact.
pub const NOTES_BYTES: usize = 4096;
/// Complete notes of one step, stored in addition to the recap. Validation reads them, so they are limited.
pub const WHOLE_NOTES_BYTES: usize = 65_536;

/// Blockers of one report. More than ten problems at once are not read.
pub const BLOCKERS: usize = 10;
pub const BLOCKER_MESSAGE_BYTES: usize = 512;
/// The suggested fix of a blocker, with room for a pasteable example.
pub const SUGGESTED_FIX_BYTES: usize = 1024;

/// Entries of one decision trace.
pub const TRACE_ENTRIES: usize = 25;
/// The summary of a trace entry.
pub const TRACE_SUMMARY_BYTES: usize = 512;
/// References of a trace entry.
pub const TRACE_REFS: usize = 10;
/// The canonical bytes of one decision trace.
pub const TRACE_BYTES: usize = 8192;

/// The summary of a gap or a divergence.
pub const SUMMARY_BYTES: usize = 512;

/// A dedupe key, in characters: long enough for four ids.
pub const DEDUPE_KEY_CHARACTERS: usize = 256;

/// An observed short string, such as a branch name, in characters.
pub const SHORT_STRING_CHARACTERS: usize = 80;
/// An observed path, in characters.
pub const PATH_CHARACTERS: usize = 512;

/// The context of a run, as canonical JSON. It is for inputs, not for documents.
pub const CONTEXT_BYTES: usize = 262_144;
/// The nesting depth of a context.
pub const CONTEXT_DEPTH: usize = 64;

/// Artifacts up to this size, as canonical JSON, are stored in their event; larger ones in the artifact
/// store.
pub const INLINE_ARTIFACT_BYTES: usize = 2048;
/// An artifact, as canonical JSON.
pub const ARTIFACT_BYTES: usize = 1_048_576;
/// Artifacts of one call.
pub const ARTIFACTS: usize = 32;

/// Issues or suggestions of one validation.
pub const VALIDATION_ITEMS: usize = 64;
pub const VALIDATION_ISSUE_BYTES: usize = 512;
pub const VALIDATION_SUGGESTION_BYTES: usize = 1024;

/// Events of one append. One call adds a few dozen at most.
pub const PLAN_EVENTS: usize = 512;
/// Bytes of one segment.
pub const PLAN_BYTES: usize = 4 * 1_048_576;

/// Consecutive blocked attempts before the caller must choose another approach.
pub const BLOCKED_ATTEMPTS: u32 = 10;

/// The recovery section of a rehydrated prompt.
pub const RECOVERY_BYTES: usize = 24_576;
/// The preview of a resume candidate.
pub const SNIPPET_BYTES: usize = 2048;
/// Resume candidates in one reply.
pub const RESUME_CANDIDATES: usize = 5;
