//! The closed sets that come with the program: contracts, features, reference texts, routines,
//! tags and bundled workflows.
//!
//! All of them live under ids of the reserved namespace `wr.`, and an author cannot add to them.
//! A compiled workflow carries what it uses, whole, so a later version of the program changes
//! what is offered to new runs and nothing about runs that exist.
//!
//! ```
//! use guide::workflow::registry;
//!
//! let pack = registry::contract("wr.contracts.loop_control").unwrap();
//! assert_eq!(pack.artifact_kind, "wr.loop_control");
//! assert!(registry::routine("wr.templates.capability_probe").is_some());
//! assert!(registry::feature("wr.features.unheard_of").is_none());
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

/// The largest text that a feature or a reference puts into a step, in UTF-8 bytes. It is read
/// again with every step, so it has to be worth that each time.
pub const SNIPPET_BYTES: usize = 1024;
