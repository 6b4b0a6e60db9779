//! What headers, bundles and checksums cost.
fn main() {}
