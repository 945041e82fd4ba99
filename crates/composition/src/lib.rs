//! composition
