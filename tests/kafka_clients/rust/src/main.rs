//! What a program of rskafka does: topics, five codecs, records from any offset and by time, records deleted.
//!
//! Arguments: bootstrap servers, name of the topic.
use std::collections::BTreeMap;
use std::error::Error;
use std::sync::OnceLock;

use chrono::{DateTime, Duration, TimeZone, Utc};
use rskafka::client::ClientBuilder;
use rskafka::client::partition::{Compression, OffsetAt, PartitionClient, UnknownTopicHandling};
use rskafka::record::Record;

const COUNT: i64 = 100;

/// A second apart, from an hour ago.
fn time_of(number: i64) -> DateTime<Utc> {
    static FIRST: OnceLock<i64> = OnceLock::new();
    let first = *FIRST.get_or_init(|| (Utc::now() - Duration::hours(1)).timestamp_millis());
    Utc.timestamp_millis_opt(first).unwrap() + Duration::seconds(number)
}

/// Every tenth has no key, every seventh no value.
fn record(number: i64) -> Record {
    let value = format!("value {number} {}", "x".repeat((number % 300) as usize));
    Record {
        key: (number % 10 != 0).then(|| format!("key {number}").into_bytes()),
        value: (number % 7 != 0).then(|| value.into_bytes()),
        headers: BTreeMap::from([("number".to_owned(), number.to_string().into_bytes())]),
        timestamp: time_of(number),
    }
}

/// Reads from the offset to the end, with answers of so many bytes at most.
async fn expect(partition: &PartitionClient, start: i64, end: i64, bytes: i32) -> Result<(), Box<dyn Error>> {
    let mut next = start;
    while next < end {
        let (records, high) = partition.fetch_records(next, 1..bytes, 2_000).await?;
        assert_eq!(high, end, "high watermark");
        assert!(!records.is_empty(), "nothing at {next}");
        for one in records {
            assert_eq!(one.offset, next, "offset");
            assert_eq!(one.record, record(next), "record {next}");
            next += 1;
        }
    }
    assert_eq!(next, end, "end");
    Ok(())
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().collect();
    let (servers, topic) = (arguments[1].clone(), arguments[2].as_str());
    let client = ClientBuilder::new(vec![servers]).build().await?;
    let controller = client.controller_client()?;
    controller.create_topic(topic, 2, 1, 10_000).await?;
    assert!(controller.create_topic(topic, 2, 1, 10_000).await.is_err(), "a topic was made twice");
    let found = client.list_topics().await?.into_iter().find(|one| one.name == topic).expect("the topic");
    assert_eq!(found.partitions.len(), 2, "partitions");
    let codecs =
        [Compression::NoCompression, Compression::Gzip, Compression::Lz4, Compression::Snappy, Compression::Zstd];
    let end = COUNT * codecs.len() as i64;
    for number in 0..2 {
        let partition = client.partition_client(topic, number, UnknownTopicHandling::Retry).await?;
        for (round, codec) in codecs.into_iter().enumerate() {
            let start = COUNT * round as i64;
            let offsets = partition.produce((start..start + COUNT).map(record).collect(), codec).await?;
            assert_eq!(offsets, (start..start + COUNT).collect::<Vec<_>>(), "offsets");
        }
        for start in [0, 1, COUNT / 2, COUNT, end - 1] {
            expect(&partition, start, end, 1_000_000).await?;
            expect(&partition, start, end, 4_000).await?;
        }
        assert_eq!(partition.get_offset(OffsetAt::Timestamp(time_of(123))).await?, 123, "offset by time");
        assert_eq!(partition.get_offset(OffsetAt::Latest).await?, end, "end");
        assert!(partition.fetch_records(end + 1, 1..1_000, 100).await.is_err(), "records behind the end");
        partition.delete_records(150, 10_000).await?;
        assert_eq!(partition.get_offset(OffsetAt::Earliest).await?, 150, "start");
        assert!(partition.fetch_records(149, 1..1_000, 100).await.is_err(), "records before the start");
        expect(&partition, 150, end, 1_000_000).await?;
    }
    controller.delete_topic(topic, 10_000).await?;
    println!("rskafka: {} records, all is as it should be", 2 * end);
    Ok(())
}
