//! Rate limits.

use runs::rates::{Rate, RateLimits};
use server::http::Settings;

use super::service::{Host, KEY, OTHER};

#[tokio::test]
async fn requests_over_the_rate_limit_get_retry_after_before_the_key_is_checked() {
    let limits = RateLimits { key: Some(Rate::new(1, 3)), ..RateLimits::default() };
    let host = Host::start_limited(Settings::default(), limits).await;
    let ask = async |key: &str| host.get_as(key, "/v1/runs").await;
    for _ in 0..3 {
        ask(KEY).await.expect(200);
    }
    let refused = ask(KEY).await;
    let body = refused.refused(429, "rate_limited");
    assert_eq!(refused.header("retry-after").unwrap(), body["details"]["retryAfter"].to_string());
    assert_eq!(body["details"]["scope"], "key");
    ask(OTHER).await.expect(200);
    // Requests with different keys are counted as one client.
    let statuses: Vec<u16> = futures_util::future::join_all((0..6).map(|number| {
        let key = format!("ilk_live_unknown_unknown_{number}");
        let host = &host;
        async move { host.get_as(&key, "/v1/runs").await.status }
    }))
    .await;
    assert_eq!(statuses.iter().filter(|status| **status == 401).count(), 3, "{statuses:?}");
    assert!(statuses.iter().all(|status| matches!(status, 401 | 429)));
}
