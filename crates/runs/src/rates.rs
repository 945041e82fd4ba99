//! Rate limits: token buckets for each key, tenant and route.
//!
//! A bucket holds as many tokens as the burst allows and refills at a steady rate. Nothing is limited unless it was configured.
//! Callers pass the time.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Mutex, PoisonError};

use super::{ApiCode, Refusal};
use canon::time::Timestamp;
use flow::id::Tenant;

/// The maximum number of buckets in memory. Beyond it, full buckets are removed, because they are equivalent to new ones.
const MAX_BUCKETS: usize = 100_000;
/// One token, in thousandths, so that a bucket refills every millisecond.
const TOKEN: u64 = 1000;

/// A rate: requests per second, and the burst.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate {
    per_second: u64,
    burst: u64,
}

impl Rate {
    /// Creates a rate. Both numbers are at least one.
    pub fn new(per_second: u32, burst: u32) -> Self {
        Self { per_second: u64::from(per_second.max(1)), burst: u64::from(burst.max(1)) }
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} a second, {} at once", self.per_second, self.burst)
    }
}

/// What a limit applies to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RateScope {
    /// Each key separately.
    Key,
    /// All keys of a tenant together.
    Tenant,
    /// Each route, for all callers together.
    Route,
}

impl fmt::Display for RateScope {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Key => "key",
            Self::Tenant => "tenant",
            Self::Route => "route",
        })
    }
}

/// The configured limits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RateLimits {
    /// For each key.
    pub key: Option<Rate>,
    /// For each tenant.
    pub tenant: Option<Rate>,
    /// For each route.
    pub route: Option<Rate>,
}

/// The request that a limit is applied to.
#[derive(Clone, Copy, Debug)]
pub struct LimitedRequest<'a> {
    /// The hash of the key, or another id for callers without one. Never the key itself.
    pub key: &'a str,
    /// The tenant, if it is known.
    pub tenant: Option<&'a Tenant>,
    /// The pattern of the route.
    pub route: &'a str,
}

/// The limits and their buckets.
#[derive(Debug, Default)]
pub struct RateLimiter {
    limits: RateLimits,
    buckets: Mutex<HashMap<(RateScope, String), Bucket>>,
}

impl RateLimiter {
    /// Creates a limiter.
    pub fn new(limits: RateLimits) -> Self {
        Self { limits, buckets: Mutex::default() }
    }

    /// Whether any limit was configured.
    pub fn limits_anything(&self) -> bool {
        self.limits != RateLimits::default()
    }

    /// Takes a token from each bucket that the request needs, or from none of them.
    ///
    /// # Errors
    /// `rate_limited`, with the time to wait before a retry.
    pub fn admit(&self, asked: &LimitedRequest<'_>, now: Timestamp) -> Result<(), Refusal> {
        let wanted = [
            (RateScope::Key, self.limits.key, Some(asked.key)),
            (RateScope::Tenant, self.limits.tenant, asked.tenant.map(Tenant::as_str)),
            (RateScope::Route, self.limits.route, Some(asked.route)),
        ];
        let wanted: Vec<_> =
            wanted.into_iter().filter_map(|(scope, rate, name)| Some((scope, rate?, name?))).collect();
        if wanted.is_empty() {
            return Ok(());
        }
        let mut buckets = self.buckets.lock().unwrap_or_else(PoisonError::into_inner);
        if buckets.len() >= MAX_BUCKETS {
            let limits = self.limits;
            buckets.retain(|(scope, _), bucket| match limits.of(*scope) {
                Some(rate) => bucket.filled(rate, now).tokens < rate.burst * TOKEN,
                None => false,
            });
        }
        let mut filled = Vec::with_capacity(wanted.len());
        for (scope, rate, name) in wanted {
            let key = (scope, name.to_owned());
            let bucket =
                buckets.get(&key).map_or_else(|| Bucket::full(rate, now), |known| known.filled(rate, now));
            if bucket.tokens < TOKEN {
                return Err(refused(scope, rate, (TOKEN - bucket.tokens).div_ceil(rate.per_second)));
            }
            filled.push((key, bucket));
        }
        for (key, bucket) in filled {
            buckets.insert(key, Bucket { tokens: bucket.tokens - TOKEN, ..bucket });
        }
        Ok(())
    }
}

impl RateLimits {
    const fn of(&self, scope: RateScope) -> Option<Rate> {
        match scope {
            RateScope::Key => self.key,
            RateScope::Tenant => self.tenant,
            RateScope::Route => self.route,
        }
    }
}

fn refused(scope: RateScope, rate: Rate, milliseconds: u64) -> Refusal {
    let seconds = milliseconds.div_ceil(1000).max(1);
    Refusal::new(ApiCode::RateLimited, format!("too many requests; retry in {seconds} s"))
        .retry_after(seconds)
        .detail("retryAfterMs", milliseconds)
        .detail("scope", scope.to_string())
        .detail("limit", rate.per_second)
}

/// The number of tokens at a time, in thousandths.
#[derive(Clone, Copy, Debug)]
struct Bucket {
    tokens: u64,
    at: Timestamp,
}

impl Bucket {
    const fn full(rate: Rate, now: Timestamp) -> Self {
        Self { tokens: rate.burst * TOKEN, at: now }
    }

    /// The bucket at a later time. If the clock was set back, the bucket does not change.
    fn filled(self, rate: Rate, now: Timestamp) -> Self {
        let added = now.since(self.at).saturating_mul(rate.per_second);
        Self { tokens: self.tokens.saturating_add(added).min(rate.burst * TOKEN), at: now.max(self.at) }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::LazyLock;

    use proptest::prelude::*;

    use super::*;

    static ACME: LazyLock<Tenant> = LazyLock::new(|| Tenant::new("acme"));

    fn asked(key: &'static str) -> LimitedRequest<'static> {
        LimitedRequest { key, tenant: Some(&ACME), route: "POST /v1/runs" }
    }

    #[test]
    fn nothing_is_limited_that_was_not_configured() {
        let limiter = RateLimiter::default();
        assert!((0..10_000).all(|_| limiter.admit(&asked("k"), Timestamp(0)).is_ok()));
    }

    #[test]
    fn a_bucket_is_spent_and_fills_again_and_says_when() {
        let limiter = RateLimiter::new(RateLimits { key: Some(Rate::new(2, 3)), ..RateLimits::default() });
        let spent = (0..5).filter(|_| limiter.admit(&asked("k"), Timestamp(1000)).is_ok()).count();
        assert_eq!(spent, 3);
        let refusal = limiter.admit(&asked("k"), Timestamp(1000)).unwrap_err();
        assert_eq!((refusal.code, refusal.retry_after), (ApiCode::RateLimited, Some(1)));
        assert_eq!(refusal.details["retryAfterMs"], 500);
        assert_eq!(refusal.details["scope"], "key");
        assert!(limiter.admit(&asked("other"), Timestamp(1000)).is_ok(), "each key for itself");
        assert!(limiter.admit(&asked("k"), Timestamp(1499)).is_err());
        assert!(limiter.admit(&asked("k"), Timestamp(1500)).is_ok(), "exactly when it said");
    }

    #[test]
    fn what_one_bucket_refuses_is_not_taken_from_another() {
        let limits = RateLimits { key: Some(Rate::new(1, 10)), tenant: Some(Rate::new(1, 1)), route: None };
        let limiter = RateLimiter::new(limits);
        limiter.admit(&asked("a"), Timestamp(0)).unwrap();
        for _ in 0..20 {
            assert_eq!(limiter.admit(&asked("a"), Timestamp(0)).unwrap_err().details["scope"], "tenant");
        }
        let elsewhere = LimitedRequest { tenant: Some(&Tenant::new("other")), ..asked("a") };
        assert!(limiter.admit(&elsewhere, Timestamp(0)).is_ok(), "the key still has tokens");
    }

    proptest! {
        #[test]
        fn no_more_than_the_burst_and_the_rate_are_ever_admitted(
            per_second in 1_u32..50,
            burst in 1_u32..50,
            steps in prop::collection::vec(0_u64..400, 1..300),
        ) {
            let limiter = RateLimiter::new(RateLimits { key: Some(Rate::new(per_second, burst)), ..RateLimits::default() });
            let (mut now, mut admitted) = (0, 0);
            for step in steps {
                now += step;
                admitted += u64::from(limiter.admit(&asked("k"), Timestamp(now)).is_ok());
                prop_assert!(admitted <= u64::from(burst) + now * u64::from(per_second) / 1000);
            }
        }
    }
}
