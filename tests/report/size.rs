//! How large reports are, and where their bytes go. `benches/report.rs` prints the table.

use crate::support::report::{Shape, stall_report};
use wedjat::report;

#[test]
fn a_real_app_s_stall_fits_its_budget() {
    for (shape, budget) in [(Shape::APP, 48 << 10), (Shape::ALL_IMAGES, 96 << 10)] {
        let (bytes, _) = stall_report(shape);
        assert!(bytes.len() <= budget, "{shape:?}: {} bytes", bytes.len());
        let reading = report::read(&bytes).unwrap();
        assert_eq!(reading.damage, []);
        assert_eq!(reading.report.samples.len(), 40);
        assert!(
            reading
                .report
                .samples
                .iter()
                .all(|sample| sample.frames.len() == 40)
        );
        assert_eq!(reading.report.threads.len(), 20);
    }
}
