//! Arguments of `webhooks`.

use clap::{Args, Subcommand};
use clap_complete::engine::ArgValueCandidates;

use super::{OutputFormat, Target};
use crate::completion;

/// Manage webhooks: URLs that receive run events.
#[derive(Debug, Args)]
pub(crate) struct Webhooks {
    #[command(subcommand)]
    pub(crate) command: WebhooksCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum WebhooksCommand {
    List(WebhooksList),
    New(WebhooksNew),
    Deliveries(WebhooksDeliveries),
    Redeliver(WebhooksRedeliver),
    Delete(WebhooksDelete),
}

impl WebhooksCommand {
    pub(crate) const fn answering(&self) -> OutputFormat {
        match self {
            Self::List(list) => list.target.answering,
            Self::New(new) => new.target.answering,
            Self::Deliveries(deliveries) => deliveries.target.answering,
            Self::Redeliver(redeliver) => redeliver.target.answering,
            Self::Delete(delete) => delete.target.answering,
        }
    }
}

/// List webhooks.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  interlock webhooks list")]
pub(crate) struct WebhooksList {
    #[command(flatten)]
    pub(crate) target: Target,
}

/// Create a webhook. Its secret is shown once.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  Get notified when runs complete or fail:
    interlock webhooks new https://example.com/hook --event run.completed --event run.failed")]
pub(crate) struct WebhooksNew {
    /// The URL that deliveries are posted to.
    pub(crate) url: String,

    /// An event type to receive, such as run.completed; may be repeated.
    #[arg(long = "event", value_name = "TYPE", required = true)]
    pub(crate) events: Vec<String>,

    /// Receive only events of runs with this tag; may be repeated.
    #[arg(long = "tag", value_name = "T")]
    pub(crate) tags: Vec<String>,

    #[command(flatten)]
    pub(crate) target: Target,
}

/// List the failed deliveries of a webhook, which are no longer retried.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  interlock webhooks deliveries wh_EXAMPLE")]
pub(crate) struct WebhooksDeliveries {
    /// The id of the webhook.
    #[arg(value_name = "WEBHOOK", add = ArgValueCandidates::new(completion::webhooks))]
    pub(crate) id: String,

    #[command(flatten)]
    pub(crate) target: Target,
}

/// Retry a failed delivery.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  interlock webhooks redeliver wh_EXAMPLE dlv_EXAMPLE")]
pub(crate) struct WebhooksRedeliver {
    /// The id of the webhook.
    #[arg(value_name = "WEBHOOK", add = ArgValueCandidates::new(completion::webhooks))]
    pub(crate) id: String,

    /// The id of the delivery, from `webhooks deliveries`.
    pub(crate) delivery: String,

    #[command(flatten)]
    pub(crate) target: Target,
}

/// Delete a webhook. This cannot be undone.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  interlock webhooks delete wh_EXAMPLE --yes")]
pub(crate) struct WebhooksDelete {
    /// The id of the webhook.
    #[arg(value_name = "WEBHOOK", add = ArgValueCandidates::new(completion::webhooks))]
    pub(crate) id: String,

    /// Do not ask for confirmation.
    #[arg(long)]
    pub(crate) yes: bool,

    #[command(flatten)]
    pub(crate) target: Target,
}
