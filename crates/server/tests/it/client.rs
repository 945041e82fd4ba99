//! An MCP client for the tests.

use std::sync::Arc;

use rmcp::model::{CallToolRequestParams, CallToolResult};
use rmcp::service::{RoleClient, RunningService};
use rmcp::{ServiceExt as _, serve_server};
use serde_json::Value;
use server::{GuideService, Mcp};

pub(crate) struct Connection(pub(crate) RunningService<RoleClient, ()>);

/// Connects the library's client to a handler over an in-memory pipe.
pub(crate) async fn connect(service: Arc<dyn GuideService>) -> Connection {
    let (near, far) = tokio::io::duplex(1 << 16);
    tokio::spawn(async move {
        let running = serve_server(Mcp::new(service), far).await.unwrap();
        running.waiting().await.unwrap();
    });
    Connection(().serve(near).await.unwrap())
}

/// The result of a tool call, as a program sees it.
pub(crate) struct Reply {
    pub(crate) failed: bool,
    pub(crate) text: String,
    pub(crate) facts: Value,
}

impl Connection {
    pub(crate) async fn call(&self, tool: &'static str, arguments: Value) -> Reply {
        let Value::Object(arguments) = arguments else { panic!("arguments are an object") };
        let result =
            self.0.call_tool(CallToolRequestParams::new(tool).with_arguments(arguments)).await.unwrap();
        reply(result)
    }
}

pub(crate) fn reply(result: CallToolResult) -> Reply {
    Reply {
        failed: result.is_error == Some(true),
        text: result.content[0].as_text().unwrap().text.clone(),
        facts: result.structured_content.unwrap(),
    }
}

/// A connection to a fake, and the fake.
pub(crate) async fn fake() -> (Connection, Arc<crate::fake::Fake>) {
    let fake = Arc::new(crate::fake::Fake::default());
    let service: Arc<dyn GuideService> = fake.clone();
    (connect(service).await, fake)
}
