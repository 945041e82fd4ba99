//! The versions of skills, carried into a plan.
//!
//! Composing knows skills by their keys alone, so a plan as composed mounts the newest of each. The range that a
//! manifest gives goes into the source of the mount, as `key@range`; where the mount stands and what it is called
//! stay as they are.

use super::Bound;
use crate::plan::{MountPlan, Source};

impl Bound {
    /// Adds the ranges of versions that the manifest declares to the skills of a plan.
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
