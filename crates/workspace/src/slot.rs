//! The slots of a workspace: a closed table of paths with access modes.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The workspace path that the agent sees. Every slot is below it.
pub const WORKSPACE: &str = "/workspace";

/// The state folder below a workspace root: journal, leases, index, staging, content store. Plans
/// cannot address it.
pub const STATE_DIR: &str = ".interlock";

/// The access mode of a mount.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Mode {
    ReadOnly,
    ReadWrite,
}

impl Mode {
    /// The wire name.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::ReadOnly => "read-only",
            Self::ReadWrite => "read-write",
        }
    }
}

impl fmt::Display for Mode {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.as_str())
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Slot {
    /// What the agent reads first.
    AgentsMd,
    /// The same facts for programs.
    ContextJson,
    /// The addition to the agent's system prompt.
    SystemOverlay,
    /// Scratch space.
    Tmp,
    /// Definitions of the agent and its delegates.
    AgentBundles,
    /// Skills, a folder each.
    SkillBundles,
    /// Launch commands, one per skill.
    Commands,
    /// Instruction sections.
    Instructions,
    /// The inputs of a run.
    Inputs,
    /// Files uploaded by the caller.
    Uploads,
    /// Pages, artifacts and repositories for reference.
    References,
    /// Repositories to work in.
    Repos,
    /// Specifications of the deliverables.
    DeliverableSpecs,
    /// The agent's deliverables.
    Deliverables,
    /// The attachments of the session.
    Attachments,
}

/// A row of the table: key, path below the workspace, default mode, whether writing may be granted,
/// whether it is a single file, whether a manifest may declare it.
struct Row(&'static str, &'static str, Mode, bool, bool, bool);

impl Slot {
    /// Every slot, in table order. Promotion follows it, with [`Slot::AgentsMd`] last.
    pub const ALL: [Self; 15] = [
        Self::AgentsMd,
        Self::ContextJson,
        Self::SystemOverlay,
        Self::Tmp,
        Self::AgentBundles,
        Self::SkillBundles,
        Self::Commands,
        Self::Instructions,
        Self::Inputs,
        Self::Uploads,
        Self::References,
        Self::Repos,
        Self::DeliverableSpecs,
        Self::Deliverables,
        Self::Attachments,
    ];

    #[rustfmt::skip]
    const fn row(self) -> Row {
        use Mode::{ReadOnly as RO, ReadWrite as RW};
        match self {
            Self::AgentsMd         => Row("agents-md",         "AGENTS.md",                   RO, false, true,  false),
            Self::ContextJson      => Row("context-json",      "context.json",                RO, false, true,  false),
            Self::SystemOverlay    => Row("system-overlay",    ".opencode/system-overlay.md", RO, false, true,  false),
            Self::Tmp              => Row("tmp",               "tmp",                         RW, true,  false, false),
            Self::AgentBundles     => Row("agent-bundles",     ".opencode/agents",            RO, false, false, false),
            Self::SkillBundles     => Row("skill-bundles",     ".opencode/skills",            RO, false, false, false),
            Self::Commands         => Row("commands",          ".opencode/command",           RO, false, false, false),
            Self::Instructions     => Row("instructions",      ".opencode/instructions",      RO, false, false, false),
            Self::Inputs           => Row("inputs",            "inputs",                      RO, false, false, true),
            Self::Uploads          => Row("uploads",           "uploads",                     RO, false, false, true),
            Self::References       => Row("references",        "references",                  RO, false, false, true),
            Self::Repos            => Row("repos",             "repos",                       RW, true,  false, true),
            Self::DeliverableSpecs => Row("deliverable-specs", "deliverable-specs",           RO, false, false, true),
            Self::Deliverables     => Row("deliverables",      "deliverables",                RW, true,  false, true),
            Self::Attachments      => Row("attachments",       "attachments",                 RO, false, false, true),
        }
    }

    /// The name in manifests.
    pub const fn key(self) -> &'static str {
        self.row().0
    }

    /// The path below the workspace root, without a leading `/`.
    pub const fn relative(self) -> &'static str {
        self.row().1
    }

    /// The path as the agent sees it, `/workspace/…`, as in plans.
    pub fn path(self) -> String {
        format!("{WORKSPACE}/{}", self.relative())
    }

    pub const fn default_mode(self) -> Mode {
        self.row().2
    }

    /// Whether the mode may be granted. Every slot may be read-only.
    pub const fn allows(self, mode: Mode) -> bool {
        match mode {
            Mode::ReadOnly => true,
            Mode::ReadWrite => self.row().3,
        }
    }

    /// Whether the slot is a single file; others are directories.
    pub const fn is_file(self) -> bool {
        self.row().4
    }

    /// Whether a manifest may declare it. The platform fills the others.
    pub const fn is_declarable(self) -> bool {
        self.row().5
    }

    /// Whether a snapshot contains it. Only writable slots can persist.
    pub const fn persists(self, granted: Mode) -> bool {
        matches!(granted, Mode::ReadWrite) && self.row().3
    }

    pub fn from_key(key: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|slot| slot.key() == key)
    }

    /// The slot at a path, as written in plans.
    pub fn from_path(path: &str) -> Option<Self> {
        let relative = path.strip_prefix(WORKSPACE)?.strip_prefix('/')?;
        Self::ALL.into_iter().find(|slot| slot.relative() == relative)
    }
}

impl fmt::Display for Slot {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.key())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_found_by_key_and_by_path() {
        for slot in Slot::ALL {
            assert_eq!(Slot::from_key(slot.key()), Some(slot));
            assert_eq!(Slot::from_path(&slot.path()), Some(slot));
            assert!(slot.allows(slot.default_mode()), "{slot}");
        }
        assert_eq!(Slot::from_path("/workspace/.interlock"), None);
        assert_eq!(Slot::from_path("tmp"), None);
    }
}
