//! Inputs at the edge.
