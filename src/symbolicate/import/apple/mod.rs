//! Apple's own reports: JSON, texts, trees of sampled stacks, MetricKit.

pub mod call_tree;
pub mod crash_text;
pub mod exception;
pub mod ips;
mod labelled_text;
pub mod metrickit;
mod titles;
mod tree_lines;
