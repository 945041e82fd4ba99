//! What workflows may use of the host: files, keys, tables, queues, databases, indexes.
#![deny(missing_docs)]
