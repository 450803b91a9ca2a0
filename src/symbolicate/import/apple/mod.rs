//! Apple's own reports: JSON, texts, trees of sampled stacks, MetricKit.

pub mod call_tree;
pub mod crash_text;
pub mod exception;
pub mod ips;
mod labelled_text;
pub mod metrickit;
pub mod stackshot;
mod titles;
mod tree_lines;
