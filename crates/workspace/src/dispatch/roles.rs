//! The roles of each surface.

use crate::manifest::{Role, Surface};

pub const fn takes(surface: Surface, role: Role) -> bool {
    match surface {
        Surface::Workflow => match role {
            Role::AgentSession | Role::Brainstorming => false,
            Role::UnitWorker
            | Role::Coordinator
            | Role::Engineer
            | Role::Auditor
            | Role::GenericAgent
            | Role::GateReviewer
            | Role::ClarificationCoordinator
            | Role::ScopeValidator => true,
        },
        Surface::AgentSession => match role {
            Role::AgentSession
            | Role::Brainstorming
            | Role::Coordinator
            | Role::Engineer
            | Role::GenericAgent
            | Role::ClarificationCoordinator => true,
            Role::UnitWorker | Role::Auditor | Role::GateReviewer | Role::ScopeValidator => false,
        },
    }
}
