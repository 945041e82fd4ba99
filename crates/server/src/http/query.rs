//! Query parameters.

use std::ops::RangeInclusive;

use runs::{ApiCode, Refusal};

/// The maximum number of parameters that are read. The longest query of the route table has five.
const MAX_PARAMETERS: usize = 64;

/// The parameters of a request. Unknown ones are ignored, as the protocol requires.
#[derive(Clone, Debug, Default)]
pub(super) struct Query(Vec<(String, String)>);

impl Query {
    pub(super) fn read(text: Option<&str>) -> Self {
        let parameters = form_urlencoded::parse(text.unwrap_or_default().as_bytes());
        Self(
            parameters
                .take(MAX_PARAMETERS)
                .map(|(name, value)| (name.into_owned(), value.into_owned()))
                .collect(),
        )
    }

    /// The first value of a parameter.
    pub(super) fn text(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// Replaces a parameter.
    pub(super) fn set(&mut self, name: &str, value: &str) {
        self.remove(name);
        self.0.push((name.to_owned(), value.to_owned()));
    }

    /// Removes a parameter.
    pub(super) fn remove(&mut self, name: &str) {
        self.0.retain(|(known, _)| known != name);
    }

    /// A number within limits.
    pub(super) fn number(
        &self,
        name: &'static str,
        bounds: RangeInclusive<u64>,
    ) -> Result<Option<u64>, Refusal> {
        let Some(text) = self.text(name) else { return Ok(None) };
        let number = text.parse::<u64>().ok().filter(|number| bounds.contains(number));
        match number {
            Some(number) => Ok(Some(number)),
            None => {
                let message = match *bounds.end() {
                    u64::MAX => format!("`{name}` must be an integer from {}", bounds.start()),
                    end => format!("`{name}` must be an integer from {} to {end}", bounds.start()),
                };
                Err(Refusal::new(ApiCode::ValidationError, message).detail("field", name))
            }
        }
    }
}
