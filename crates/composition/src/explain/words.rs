//! The display form of an explanation.

use std::fmt;

use super::{Explanation, GateFacts, Mention, Verdict};
use crate::vocabulary::{RuntimeStatus, StatusSet};

impl fmt::Display for Explanation<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ", self.key)?;
        self.write_verdict(f)?;
        for declaration in &self.declarations {
            let subject = &declaration.subject;
            write!(f, "\n  declared by {} {:?}", subject.owner_kind, subject.owner_id.unwrap_or_default())?;
            if let Some(package) = subject.package_id {
                write!(f, ", {package}")?;
                if let Some(version) = subject.package_version {
                    write!(f, "@{version}")?;
                }
            }
            if let Some(kind) = subject.contribution_kind {
                write!(f, ", as {kind} {:?}", subject.local_id.unwrap_or_default())?;
            }
            if let Some(gate) = declaration.gate {
                write_gate(f, &gate)?;
            }
        }
        for Mention { policy_id, kind, role, applied } in &self.operations {
            let effect = if *applied { "applied" } else { "not applied" };
            write!(f, "\n  operation {policy_id:?} ({kind}) names it as its {role}: {effect}")?;
        }
        for diagnostic in &self.diagnostics {
            for line in diagnostic.to_string().lines() {
                write!(f, "\n  {line}")?;
            }
        }
        Ok(())
    }
}

impl Explanation<'_> {
    fn write_verdict(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.verdict {
            Verdict::Shown { collection, place, count } => {
                write!(f, "is shown: number {place} of {count} in {collection}")
            }
            Verdict::Gated { status } => {
                f.write_str("is not shown: ")?;
                match self.declarations.first().and_then(|declaration| declaration.gate) {
                    Some(gate) => write_gated(f, *status, &gate),
                    None => f.write_str("it is not active"),
                }
            }
            Verdict::Hidden { policy_id } => write!(f, "is not shown: operation {policy_id:?} hides it"),
            Verdict::Replaced { policy_id, replacement } => {
                write!(f, "is not shown: operation {policy_id:?} replaces it with {replacement}")
            }
            Verdict::Overridden { policy_id, selected } => {
                write!(f, "is not shown: operation {policy_id:?} assigns its claim to {selected}")
            }
            Verdict::Blocked { diagnostics } => {
                let plural = if *diagnostics == 1 { "" } else { "s" };
                write!(f, "is not shown: the input does not compose ({diagnostics} diagnostic{plural}, ")?;
                write!(f, "{} about this key)", self.diagnostics.len())
            }
            Verdict::Undeclared { similar } => {
                f.write_str("is not shown: it is not declared")?;
                if similar.is_empty() {
                    Ok(())
                } else {
                    write!(f, "; did you mean {}?", similar.join(" or "))
                }
            }
            Verdict::NotAKey => {
                f.write_str("is not a canonical key; use owner:kind/id, such as lab:routes/home")
            }
        }
    }
}

fn write_gated(f: &mut fmt::Formatter<'_>, status: Option<RuntimeStatus>, gate: &GateFacts) -> fmt::Result {
    match (status, gate.fallback_for) {
        (None, _) => f.write_str("a built-in has no status for `anyNonReady` to match"),
        (Some(status), Some(declared)) => {
            write!(f, "its owner is {status}, and it is a fallback for {}", declared.as_str())
        }
        (Some(RuntimeStatus::Disabled), None) => {
            f.write_str("its owner is disabled and shows only fallbacks")
        }
        (Some(status), None) => {
            write!(f, "its owner is {status}, and it is active ")?;
            match gate.active_when.filter(|statuses| *statuses != StatusSet::EMPTY) {
                Some(statuses) => write!(f, "only when {}", StatusList(statuses)),
                None => f.write_str("never"),
            }
        }
    }
}

fn write_gate(f: &mut fmt::Formatter<'_>, gate: &GateFacts) -> fmt::Result {
    match gate.status {
        None => f.write_str("\n  built-in, always active")?,
        Some(status) => write!(f, "\n  status {status}")?,
    }
    if let Some(statuses) = gate.active_when.filter(|statuses| *statuses != StatusSet::EMPTY) {
        let origin = if gate.explicit { "as declared" } else { "the default of its kind" };
        write!(f, "; active when {}, {origin}", StatusList(statuses))?;
    }
    match gate.fallback_for {
        Some(declared) => write!(f, "; a fallback for {}", declared.as_str()),
        None => Ok(()),
    }
}

struct StatusList(StatusSet);

impl fmt::Display for StatusList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, status) in self.0.iter().enumerate() {
            if index > 0 {
                f.write_str(", ")?;
            }
            write!(f, "{status}")?;
        }
        Ok(())
    }
}
