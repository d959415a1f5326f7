//! A thousand skills, and more of them than have series of their own.

use std::time::Instant;

use openskill_tests::system::Setup;

use super::scraped::scrape;
use super::{http_skills, workers};

const SKILLS: usize = 1000;
const OWN: usize = 900;

/// Series of one skill that nobody has called, at either process: calls, a histogram, its circuit.
const EACH: usize = 1 + 15 + 1;

#[tokio::test]
async fn a_scrape_of_a_thousand_skills_is_bounded() {
    let folder = http_skills((0..SKILLS).map(|number| format!("skill_{number}")));
    let system = Setup::with_skills(&[folder.path()])
        .with("OPENSKILL_METRICS_SKILLS", OWN)
        .flag("--workers", 1)
        .flag("--worker-metrics", "127.0.0.1:0")
        .start()
        .await;
    system.has_skill(&format!("skill_{}", SKILLS - 1)).await;
    for address in [vec![system.address], workers(&system, 1).await].concat() {
        let begun = Instant::now();
        let scraped = scrape(address).await;
        let (took, series, bytes) = (begun.elapsed(), scraped.series.len(), scraped.text.len());
        eprintln!("{address}: {series} series, {bytes} bytes in {took:?}");
        assert!(series > OWN * (EACH - 1) && series < (OWN + 1) * EACH + 500, "{series} series");
        let skills = scraped.labels("skill");
        assert_eq!(skills.len(), OWN + 1, "900 of their own and the others");
        assert!(skills.contains(&"_other".to_owned()));
    }
}
