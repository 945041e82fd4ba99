//! The types of nodes whose work the host does: storage, databases, files, messages, models, and tools of other servers.
//!
//! The core knows their names and what they may be told. What they do is the host's business: the engine asks for one effect, under one
//! identity, and records what came of it.

mod inputs;

use std::fmt;

use serde_json::{Map, Value, json};

pub use self::inputs::Inputs;
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

/// What a type of node needs of the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    /// An operation of a surface.
    Surface {
        surface: Surface,
        /// Which operation of it.
        op: &'static str,
    },
    Model,
    /// An agent that a pack brings, and a model for it.
    Agent,
    /// Nothing but the host itself.
    Host,
    /// A request to another MCP server.
    Mcp {
        method: &'static str,
    },
}

/// What a member of a configuration is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Text,
    Integer,
    /// A whole number from the first to the second.
    Count(u64, u64),
    Flag,
    List,
    /// Columns of a table to order by; `-` in front of one stands for descending.
    Order,
    /// The columns that tell the rows of a table apart. Here that is always `id`.
    Key,
    /// One of these words.
    Word(&'static [&'static str]),
}

/// A member of a configuration: its name, what it is, and whether it has to be there.
type Member = (&'static str, Kind, bool);

const fn may(name: &'static str, kind: Kind) -> Member {
    (name, kind, false)
}

const fn must(name: &'static str, kind: Kind) -> Member {
    (name, kind, true)
}

const fn on(surface: Surface, op: &'static str) -> Family {
    Family::Surface { surface, op }
}

const fn mcp(method: &'static str) -> Family {
    Family::Mcp { method }
}

const NAMESPACE: Member = may("namespace", Kind::Text);
/// Ten years: the longest lifetime that any store has.
const TTL: Member = may("ttlSeconds", Kind::Count(1, 315_360_000));
/// A week: the longest that something is kept in a cache, or that a signed address is good for.
const SHORT_TTL: Member = may("ttlSeconds", Kind::Count(1, 604_800));
const LIMIT: Member = may("limit", Kind::Count(1, 1000));
/// As whom the trigger of a node reads. Without one it is refused.
const GROUP: Member = may("consumerGroup", Kind::Text);
/// Twelve hours, in seconds: how long a message may be kept back.
const DELAY_SECONDS: u64 = 12 * 60 * 60;
const TABLE: Member = must("table", Kind::Text);
const BUCKET: Member = may("bucket", Kind::Text);
const QUEUE: Member = must("queue", Kind::Text);
const TOPIC: Member = must("topic", Kind::Text);
const STREAM: Member = must("stream", Kind::Text);
const DATASOURCE: Member = may("datasource", Kind::Text);
const COLLECTION: Member = must("collection", Kind::Text);
const INDEX: Member = must("index", Kind::Text);
const SERVER: Member = must("serverId", Kind::Text);
const TIMEOUT: Member = may("timeoutMs", Kind::Integer);
const ENCODING: Member = may("encoding", Kind::Word(&["utf8", "utf-8", "base64"]));

macro_rules! called {
    ($(#[doc = $doc:literal] $name:ident => $text:literal, $family:expr, [$($member:expr),*];)+) => {
        /// A type of node whose work the host does.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum CalledType {
            $(#[doc = $doc] $name,)+
        }

        impl CalledType {
            /// Every type.
            pub const ALL: &'static [Self] = &[$(Self::$name),+];

            /// The spelling in a definition.
            pub const fn as_str(self) -> &'static str {
                match self {
                    $(Self::$name => $text,)+
                }
            }

            /// What it does, in a sentence.
            pub const fn summary(self) -> &'static str {
                match self {
                    $(Self::$name => $doc.trim_ascii(),)+
                }
            }

            /// What it needs of the host.
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
    KvList => "core.storage.kv-list", on(Surface::Kv, "list"), [NAMESPACE, LIMIT, may("prefix", Kind::Text)];
    /// Adds to a number atomically.
    KvIncrement => "core.storage.kv-atomic-increment", on(Surface::Kv, "atomicIncrement"), [NAMESPACE, may("delta", Kind::Integer)];
    /// Sets the value of a key if its current value is the expected one.
    KvCas => "core.storage.kv-cas", on(Surface::Kv, "cas"), [NAMESPACE];
    /// Inserts a row.
    TableInsert => "core.storage.table-insert", on(Surface::Table, "insert"), [TABLE];
    /// Updates rows.
    TableUpdate => "core.storage.table-update", on(Surface::Table, "update"), [TABLE];
    /// Inserts a row, or updates the existing one.
    TableUpsert => "core.storage.table-upsert", on(Surface::Table, "upsert"), [TABLE, may("keyColumns", Kind::Key)];
    /// Deletes rows.
    TableDelete => "core.storage.table-delete", on(Surface::Table, "delete"), [TABLE];
    /// Reads rows, with pagination.
    TableQuery => "core.storage.table-query", on(Surface::Table, "query"), [TABLE, LIMIT, may("orderBy", Kind::Order)];
    /// Counts rows.
    TableCount => "core.storage.table-count", on(Surface::Table, "count"), [TABLE];
    /// Reads a cached value.
    CacheGet => "core.storage.cache-get", on(Surface::Cache, "get"), [NAMESPACE];
    /// Caches a value for a limited time.
    CachePut => "core.storage.cache-put", on(Surface::Cache, "put"), [NAMESPACE, SHORT_TTL];
    /// Removes a value from the cache.
    CacheEvict => "core.storage.cache-evict", on(Surface::Cache, "evict"), [NAMESPACE];
    /// Stores bytes.
    BlobPut => "core.storage.blob-put", on(Surface::Blob, "put"), [BUCKET, may("contentType", Kind::Text)];
    /// Reads bytes.
    BlobGet => "core.storage.blob-get", on(Surface::Blob, "get"), [BUCKET];
    /// Creates a signed URL for reading or writing an object for a limited time.
    BlobPresign => "core.storage.blob-presign", on(Surface::Blob, "presign"),
        [BUCKET, SHORT_TTL, may("operation", Kind::Word(&["get", "put"]))];
    /// Adds a message to a queue.
    QueueEnqueue => "core.storage.queue-enqueue", on(Surface::QueueBus, "publish"),
        [QUEUE, may("delaySeconds", Kind::Count(0, DELAY_SECONDS))];
    /// Receives a message from a queue.
    QueueDequeue => "core.storage.queue-dequeue", on(Surface::QueueBus, "consume"),
        [QUEUE, may("durationMs", Kind::Count(1, DELAY_SECONDS * 1000))];
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
    VectorQuery => "core.db.vector-query", on(Surface::Vector, "query"), [COLLECTION, may("topK", Kind::Count(1, 1000))];
    /// Deletes vectors.
    VectorDelete => "core.db.vector-delete", on(Surface::Vector, "delete"), [COLLECTION];
    /// Reads a file.
    FilesRead => "core.files.read", on(Surface::Fs, "read"), [ENCODING];
    /// Writes a file.
    FilesWrite => "core.files.write", on(Surface::Fs, "write"), [ENCODING, may("mode", Kind::Word(&["overwrite", "create"]))];
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
    MessageNack => "core.messaging.nack", on(Surface::QueueBus, "nack"), [may("requeue", Kind::Flag)];
    /// Moves a message to the dead letters.
    MessageDeadLetter => "core.messaging.dead-letter", on(Surface::QueueBus, "deadLetter"), [];
    /// Adds a record to a stream.
    StreamPublish => "core.messaging.stream-publish", on(Surface::QueueBus, "streamPublish"), [STREAM];
    /// Reads a stream.
    StreamSubscribe => "core.messaging.stream-subscribe", on(Surface::QueueBus, "streamSubscribe"),
        [STREAM, GROUP, may("fromBeginning", Kind::Flag)];
    /// Calls a model. The host reads its configuration.
    CallPrompt => "core.ai.callPrompt", Family::Model, [];
    /// Calls a model for JSON that matches a schema. The host reads its configuration.
    StructuredOutput => "core.ai.structuredOutput", Family::Model, [];
    /// Composes prompts and simulates a model. The host reads its configuration.
    MockAi => "local.sample.demo.mock-ai", Family::Model, [];
    /// Runs a task with an agent of an installed pack.
    AgentsRun => "core.agents.run", Family::Agent,
        [may("agentId", Kind::Text), may("provider", Kind::Text), may("model", Kind::Text), may("tools", Kind::List),
            may("maxRounds", Kind::Integer)];
    /// Creates an idempotency key for a request. It is the same for every attempt of the node.
    IdempotencyKey => "core.openwop.http.idempotency-key", Family::Host,
        [may("mode", Kind::Word(&["composite", "hash", "uuid"]))];
    /// Lists the tools of another MCP server.
    McpListTools => "core.openwop.mcp.list-tools", mcp("tools/list"), [SERVER, TIMEOUT];
    /// Calls a tool of another MCP server. The result is untrusted.
    McpInvokeTool => "core.openwop.mcp.invoke-tool", mcp("tools/call"), [SERVER, must("toolName", Kind::Text), TIMEOUT];
    /// Lists the resources of another MCP server.
    McpListResources => "core.openwop.mcp.list-resources", mcp("resources/list"), [SERVER, TIMEOUT];
    /// Reads a resource of another MCP server. The content is untrusted.
    McpReadResource => "core.openwop.mcp.read-resource", mcp("resources/read"), [SERVER, must("uri", Kind::Text), TIMEOUT];
    /// Lists the prompts of another MCP server.
    McpListPrompts => "core.openwop.mcp.list-prompts", mcp("prompts/list"), [SERVER, TIMEOUT];
    /// Gets a prompt of another MCP server. The content is untrusted.
    McpGetPrompt => "core.openwop.mcp.get-prompt", mcp("prompts/get"), [SERVER, must("name", Kind::Text), TIMEOUT];
    /// Checks whether another MCP server responds.
    McpPing => "core.openwop.mcp.ping", mcp("ping"), [SERVER, TIMEOUT];
}

impl CalledType {
    /// The type of that spelling.
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|kind| kind.as_str() == text)
    }

    /// The schema of its configuration. It is closed: what a host would not heed, it does not take.
    pub fn config_schema(self) -> Value {
        let properties: Map<_, _> =
            self.members().iter().map(|(name, kind, _)| ((*name).to_owned(), kind.schema())).collect();
        let required: Vec<_> =
            self.members().iter().filter(|member| member.2).map(|member| member.0).collect();
        // What models can be told is the host's to know, and to check.
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
            // A lone `-` names nothing.
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
