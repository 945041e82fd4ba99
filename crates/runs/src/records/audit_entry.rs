//! Entries of the audit log, which are part of the commit that they describe.

use canon::canonical::write_to;
use ports::runs::Change;
use serde_json::Value;

use super::Records;
use crate::Caller;

impl Records {
    /// An audit entry, for the commit that it describes.
    pub(crate) fn audited(&self, caller: &Caller, action: &str, details: &Value) -> Change {
        let (mut details, mut principal) = (details.clone(), Value::from(caller.principal.as_str()));
        self.secrets().redact(&caller.tenant, &mut details);
        self.secrets().redact(&caller.tenant, &mut principal);
        // In alphabetical order, so that the result is canonical JSON.
        let members = [
            ("{\"action\":", Value::from(action)),
            (",\"at\":", self.now().to_rfc3339().into()),
            (",\"details\":", details),
            (",\"principal\":", principal),
        ];
        let mut entry = Vec::with_capacity(256);
        for (name, value) in &members {
            entry.extend_from_slice(name.as_bytes());
            write_to(&mut entry, value);
        }
        entry.push(b'}');
        Change::Audit { tenant: caller.tenant.clone(), entry: entry.into() }
    }
}
