//! Adds skill version ranges to a plan.
//!
//! Composing knows skills only by key, so a composed plan mounts the highest version. The
//! manifest's range is added to the source of the mount as `key@range`; the mount's path and name
//! are unchanged.

use super::Bound;
use crate::plan::{MountPlan, Source};

impl Bound {
    /// Adds the manifest's version ranges to the skills of a plan.
    pub fn pin_skills(&self, plan: &mut MountPlan) {
        for entry in &mut plan.entries {
            let Source::SkillBundle { skill_key } = &mut entry.source else { continue };
            let declared = self.skills.iter().find(|skill| skill.slug == *skill_key);
            if let Some(range) = declared.and_then(|skill| skill.version.as_deref()) {
                *skill_key = format!("{skill_key}@{range}");
            }
        }
    }
}
