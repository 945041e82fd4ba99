//! The closed sets that come with the program: contracts, features, reference texts, routines, tags and
//! bundled workflows.
//!
//! All ids are in the reserved namespace `wr.`, and an author cannot add to them. A compiled workflow
//! contains complete copies of what it uses, so a later version of the program affects only new runs.
//!
//! ```
//! use guide::workflow::registry;
//!
//! let pack = registry::contract("wr.contracts.loop_control").unwrap();
//! assert_eq!(pack.artifact_kind, "wr.loop_control");
//! assert!(registry::routine("wr.templates.capability_probe").is_some());
//! assert!(registry::feature("wr.features.unknown").is_none());
//! ```

mod contracts;
mod features;
mod references;
mod routines;
mod tags;
mod workflows;

pub use contracts::{contract, contracts};
pub use features::{Feature, FeatureItem, feature, features};
pub use references::{ReferenceText, reference_ids, reference_text, references};
pub use routines::{Routine, routine, routine_ids, routines};
pub use tags::{Tag, tag, tags};
pub use workflows::{BundledWorkflow, bundled, bundled_workflow};

/// The maximum size of the text that a feature or a reference inserts into a step, in UTF-8 bytes. The agent
/// reads it again with every step.
pub const SNIPPET_BYTES: usize = 1024;
