//! The node types that the host executes: storage, databases, files, messages, models, and tools of other servers.
//!
//! This crate knows only their names and configurations. The engine requests one effect with one id, the host executes it, and the engine
//! records the result.

mod inputs;

use std::fmt;

use serde_json::{Map, Value, json};

pub use self::inputs::Inputs;
use super::config::{HttpRequestConfig, derived_schema};
use crate::wire_enum::wire_enum;

wire_enum! {
    /// A kind of storage that nodes call.
    pub enum Surface {
        Fs => "fs",
        Kv => "kv",
        Table => "table",
        Cache => "cache",
        Blob => "blob",
        QueueBus => "queueBus",
        Sql => "sql",
        Vector => "vector",
        Search => "search",
    }
}

impl Surface {
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|surface| surface.as_str() == name)
    }

    /// Its flag in the discovery document.
    pub const fn flag(self) -> &'static str {
        match self {
            Self::Fs => "fs.supported",
            Self::Kv => "kvStorage.supported",
            Self::Table => "tableStorage.supported",
            Self::Cache => "cache.supported",
            Self::Blob => "blobStorage.supported",
            Self::QueueBus => "queueBus.supported",
            Self::Sql => "sql.supported",
            Self::Vector => "vectorStore.supported",
            Self::Search => "searchIndex.supported",
        }
    }
}

/// What a node type requires from the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    /// An operation of a surface.
    Surface {
        surface: Surface,
        op: &'static str,
    },
    Model,
    /// An agent of a pack, and a model for it.
    Agent,
    /// Only the host itself.
    Host,
    /// A request to an allowed host on the network.
    Http,
    /// A request to another MCP server.
    Mcp {
        method: &'static str,
    },
}

/// The type of a configuration member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Text,
    Integer,
    /// An integer in this range, inclusive.
    Count(u64, u64),
    Flag,
    List,
    /// The columns to sort by; a prefix `-` means descending.
    Order,
    /// The key columns of a table. Only `id` is supported.
    Key,
    /// One of these values.
    Word(&'static [&'static str]),
}

/// A configuration member: its name, its type, and whether it is required.
type Member = (&'static str, Kind, bool);

const fn optional(name: &'static str, kind: Kind) -> Member {
    (name, kind, false)
}

const fn required(name: &'static str, kind: Kind) -> Member {
    (name, kind, true)
}

const fn on(surface: Surface, op: &'static str) -> Family {
    Family::Surface { surface, op }
}

const fn mcp(method: &'static str) -> Family {
    Family::Mcp { method }
}

const NAMESPACE: Member = optional("namespace", Kind::Text);
/// The maximum lifetime in any store: ten years.
const TTL: Member = optional("ttlSeconds", Kind::Count(1, 315_360_000));
/// The maximum lifetime of a cached value or a signed URL: one week.
const SHORT_TTL: Member = optional("ttlSeconds", Kind::Count(1, 604_800));
const LIMIT: Member = optional("limit", Kind::Count(1, 1000));
/// The consumer group of a node's trigger. Refused if no trigger uses the node.
const GROUP: Member = optional("consumerGroup", Kind::Text);
/// The maximum delay of a message, in seconds: twelve hours.
const DELAY_SECONDS: u64 = 12 * 60 * 60;
const TABLE: Member = required("table", Kind::Text);
const BUCKET: Member = optional("bucket", Kind::Text);
const QUEUE: Member = required("queue", Kind::Text);
const TOPIC: Member = required("topic", Kind::Text);
const STREAM: Member = required("stream", Kind::Text);
const DATASOURCE: Member = optional("datasource", Kind::Text);
const COLLECTION: Member = required("collection", Kind::Text);
const INDEX: Member = required("index", Kind::Text);
const SERVER: Member = required("serverId", Kind::Text);
const TIMEOUT: Member = optional("timeoutMs", Kind::Integer);
const ENCODING: Member = optional("encoding", Kind::Word(&["utf8", "utf-8", "base64"]));

macro_rules! called {
    ($(#[doc = $doc:literal] $name:ident => $text:literal, $family:expr, [$($member:expr),*];)+) => {
        /// A node type that the host executes.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum CalledType {
            $(#[doc = $doc] $name,)+
        }

        impl CalledType {
            pub const ALL: &'static [Self] = &[$(Self::$name),+];

            /// The spelling in a definition.
            pub const fn as_str(self) -> &'static str {
                match self {
                    $(Self::$name => $text,)+
                }
            }

            /// What it does, in one sentence.
            pub const fn summary(self) -> &'static str {
                match self {
                    $(Self::$name => $doc.trim_ascii(),)+
                }
            }

            /// What it requires from the host.
            pub const fn family(self) -> Family {
                match self {
                    $(Self::$name => $family,)+
                }
            }

            const fn members(self) -> &'static [Member] {
                match self {
                    $(Self::$name => const { &[$($member),*] },)+
                }
            }
        }
    };
}

called! {
    /// Reads the value of a key.
    KvGet => "core.storage.kv-get", on(Surface::Kv, "get"), [NAMESPACE];
    /// Sets the value of a key.
    KvSet => "core.storage.kv-set", on(Surface::Kv, "set"), [NAMESPACE, TTL];
    /// Deletes a key.
    KvDelete => "core.storage.kv-delete", on(Surface::Kv, "delete"), [NAMESPACE];
    /// Lists keys.
    KvList => "core.storage.kv-list", on(Surface::Kv, "list"), [NAMESPACE, LIMIT, optional("prefix", Kind::Text)];
    /// Adds to a number atomically.
    KvIncrement => "core.storage.kv-atomic-increment", on(Surface::Kv, "atomicIncrement"), [NAMESPACE, optional("delta", Kind::Integer)];
    /// Sets the value of a key if its current value is the expected one.
    KvCas => "core.storage.kv-cas", on(Surface::Kv, "cas"), [NAMESPACE];
    /// Inserts a row.
    TableInsert => "core.storage.table-insert", on(Surface::Table, "insert"), [TABLE];
    /// Updates rows.
    TableUpdate => "core.storage.table-update", on(Surface::Table, "update"), [TABLE];
    /// Inserts a row, or updates the existing one.
    TableUpsert => "core.storage.table-upsert", on(Surface::Table, "upsert"), [TABLE, optional("keyColumns", Kind::Key)];
    /// Deletes rows.
    TableDelete => "core.storage.table-delete", on(Surface::Table, "delete"), [TABLE];
    /// Reads rows, with pagination.
    TableQuery => "core.storage.table-query", on(Surface::Table, "query"), [TABLE, LIMIT, optional("orderBy", Kind::Order)];
    /// Counts rows.
    TableCount => "core.storage.table-count", on(Surface::Table, "count"), [TABLE];
    /// Reads a cached value.
    CacheGet => "core.storage.cache-get", on(Surface::Cache, "get"), [NAMESPACE];
    /// Caches a value for a limited time.
    CachePut => "core.storage.cache-put", on(Surface::Cache, "put"), [NAMESPACE, SHORT_TTL];
    /// Removes a value from the cache.
    CacheEvict => "core.storage.cache-evict", on(Surface::Cache, "evict"), [NAMESPACE];
    /// Stores bytes.
    BlobPut => "core.storage.blob-put", on(Surface::Blob, "put"), [BUCKET, optional("contentType", Kind::Text)];
    /// Reads bytes.
    BlobGet => "core.storage.blob-get", on(Surface::Blob, "get"), [BUCKET];
    /// Creates a signed URL for reading or writing an object for a limited time.
    BlobPresign => "core.storage.blob-presign", on(Surface::Blob, "presign"),
        [BUCKET, SHORT_TTL, optional("operation", Kind::Word(&["get", "put"]))];
    /// Adds a message to a queue.
    QueueEnqueue => "core.storage.queue-enqueue", on(Surface::QueueBus, "publish"),
        [QUEUE, optional("delaySeconds", Kind::Count(0, DELAY_SECONDS))];
    /// Receives a message from a queue.
    QueueDequeue => "core.storage.queue-dequeue", on(Surface::QueueBus, "consume"),
        [QUEUE, optional("durationMs", Kind::Count(1, DELAY_SECONDS * 1000))];
    /// Queries a database.
    SqlQuery => "core.db.sql-query", on(Surface::Sql, "query"), [DATASOURCE];
    /// Changes a database.
    SqlExecute => "core.db.sql-execute", on(Surface::Sql, "execute"), [DATASOURCE];
    /// Changes a database in one transaction.
    SqlTransaction => "core.db.sql-transaction", on(Surface::Sql, "transaction"), [DATASOURCE];
    /// Adds a document to a search index.
    SearchIndex => "core.db.search-index", on(Surface::Search, "index"), [INDEX];
    /// Searches documents by their words.
    SearchQuery => "core.db.search-query", on(Surface::Search, "query"), [INDEX, LIMIT];
    /// Adds vectors.
    VectorUpsert => "core.db.vector-upsert", on(Surface::Vector, "upsert"), [COLLECTION];
    /// Finds the nearest vectors.
    VectorQuery => "core.db.vector-query", on(Surface::Vector, "query"), [COLLECTION, optional("topK", Kind::Count(1, 1000))];
    /// Deletes vectors.
    VectorDelete => "core.db.vector-delete", on(Surface::Vector, "delete"), [COLLECTION];
    /// Reads a file.
    FilesRead => "core.files.read", on(Surface::Fs, "read"), [ENCODING];
    /// Writes a file.
    FilesWrite => "core.files.write", on(Surface::Fs, "write"), [ENCODING, optional("mode", Kind::Word(&["overwrite", "create"]))];
    /// Deletes a file.
    FilesDelete => "core.files.delete", on(Surface::Fs, "delete"), [];
    /// Returns the kind, size and modification time of a path.
    FilesStat => "core.files.stat", on(Surface::Fs, "stat"), [];
    /// Lists a directory.
    FilesList => "core.files.list", on(Surface::Fs, "list"), [];
    /// Publishes a message.
    MessagePublish => "core.messaging.publish", on(Surface::QueueBus, "publish"), [TOPIC];
    /// Receives a message.
    MessageConsume => "core.messaging.consume", on(Surface::QueueBus, "consume"), [TOPIC, GROUP];
    /// Acknowledges a message.
    MessageAck => "core.messaging.ack", on(Surface::QueueBus, "ack"), [];
    /// Returns a message to its queue, or drops it.
    MessageNack => "core.messaging.nack", on(Surface::QueueBus, "nack"), [optional("requeue", Kind::Flag)];
    /// Moves a message to the dead letters.
    MessageDeadLetter => "core.messaging.dead-letter", on(Surface::QueueBus, "deadLetter"), [];
    /// Adds a record to a stream.
    StreamPublish => "core.messaging.stream-publish", on(Surface::QueueBus, "streamPublish"), [STREAM];
    /// Reads a stream.
    StreamSubscribe => "core.messaging.stream-subscribe", on(Surface::QueueBus, "streamSubscribe"),
        [STREAM, GROUP, optional("fromBeginning", Kind::Flag)];
    /// Calls a model. The host reads its configuration.
    CallPrompt => "core.ai.callPrompt", Family::Model, [];
    /// Calls a model for JSON that matches a schema. The host reads its configuration.
    StructuredOutput => "core.ai.structuredOutput", Family::Model, [];
    /// Composes prompts and simulates a model. The host reads its configuration.
    MockAi => "local.sample.demo.mock-ai", Family::Model, [];
    /// Runs a task with an agent of an installed pack.
    AgentsRun => "core.agents.run", Family::Agent,
        [optional("agentId", Kind::Text), optional("provider", Kind::Text), optional("model", Kind::Text), optional("tools", Kind::List),
            optional("maxRounds", Kind::Integer)];
    /// Creates an idempotency key for a request. It is the same for every attempt of the node.
    IdempotencyKey => "core.openwop.http.idempotency-key", Family::Host,
        [optional("mode", Kind::Word(&["composite", "hash", "uuid"]))];
    /// Sends an HTTP request. The response is untrusted.
    HttpRequest => "core.http.request", Family::Http, [];
    /// Lists the tools of another MCP server.
    McpListTools => "core.openwop.mcp.list-tools", mcp("tools/list"), [SERVER, TIMEOUT];
    /// Calls a tool of another MCP server. The result is untrusted.
    McpInvokeTool => "core.openwop.mcp.invoke-tool", mcp("tools/call"), [SERVER, required("toolName", Kind::Text), TIMEOUT];
    /// Lists the resources of another MCP server.
    McpListResources => "core.openwop.mcp.list-resources", mcp("resources/list"), [SERVER, TIMEOUT];
    /// Reads a resource of another MCP server. The content is untrusted.
    McpReadResource => "core.openwop.mcp.read-resource", mcp("resources/read"), [SERVER, required("uri", Kind::Text), TIMEOUT];
    /// Lists the prompts of another MCP server.
    McpListPrompts => "core.openwop.mcp.list-prompts", mcp("prompts/list"), [SERVER, TIMEOUT];
    /// Gets a prompt of another MCP server. The content is untrusted.
    McpGetPrompt => "core.openwop.mcp.get-prompt", mcp("prompts/get"), [SERVER, required("name", Kind::Text), TIMEOUT];
    /// Checks whether another MCP server responds.
    McpPing => "core.openwop.mcp.ping", mcp("ping"), [SERVER, TIMEOUT];
}

impl CalledType {
    /// Parses the spelling in a definition.
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|kind| kind.as_str() == text)
    }

    /// The schema of its configuration. It is closed, so that no member is silently ignored.
    pub fn config_schema(self) -> Value {
        if self == Self::HttpRequest {
            return derived_schema::<HttpRequestConfig>();
        }
        let properties: Map<_, _> =
            self.members().iter().map(|(name, kind, _)| ((*name).to_owned(), kind.schema())).collect();
        let required: Vec<_> =
            self.members().iter().filter(|member| member.2).map(|member| member.0).collect();
        // The host validates the configuration of model calls.
        let open = self.family() == Family::Model;
        json!({"type": "object", "additionalProperties": open, "properties": properties, "required": required})
    }
}

impl Kind {
    fn schema(self) -> Value {
        match self {
            Self::Text => json!({"type": "string", "minLength": 1, "maxLength": 65_536}),
            Self::Integer => json!({"type": "integer"}),
            Self::Flag => json!({"type": "boolean"}),
            Self::Count(least, most) => json!({"type": "integer", "minimum": least, "maximum": most}),
            Self::List => json!({"type": "array", "maxItems": 1000}),
            // `-` without a column is invalid.
            Self::Order => json!({
                "type": "array", "maxItems": 8,
                "items": {"type": "string", "minLength": 1, "maxLength": 257, "not": {"const": "-"}},
            }),
            Self::Key => json!({"type": "array", "minItems": 1, "maxItems": 1, "items": {"enum": ["id"]}}),
            Self::Word(words) => json!({"enum": words}),
        }
    }
}

impl fmt::Display for CalledType {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.as_str())
    }
}
