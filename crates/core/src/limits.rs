//! Everything has a limit, with its unit in its name. Configuration may lower or raise what is marked a default.

use std::time::Duration;

/// Entries in one claim, by default (the knee of the batch size, MEASUREMENTS.md).
pub const BATCH_ENTRIES: usize = 1_000;
/// Entries in one claim, at most.
pub const BATCH_ENTRIES_MAX: usize = 10_000;
/// Bytes that a relay holds in claims, by default.
pub const IN_FLIGHT_BYTES: usize = 16 * 1024 * 1024;
/// Claims that a relay keeps open at once: one being published, one settling, one being read, one slow.
pub const CLAIMS_OPEN_MAX: usize = 4;
/// Publish calls under way at once on one sink.
pub const PUBLISHES_OPEN_MAX: usize = 2;
/// Bytes of one event's payload, by default: what Kafka takes without being told otherwise.
pub const PAYLOAD_BYTES: usize = 1_000_000;
/// Bytes of one event's payload, at most.
pub const PAYLOAD_BYTES_MAX: usize = 64 * 1024 * 1024;
/// Events that one `append --lines` writes in its transaction.
pub const APPEND_ENTRIES_MAX: usize = 100_000;
/// Bytes of their payloads, which are all read before the first is written.
pub const APPEND_BYTES_MAX: usize = 256 * 1024 * 1024;
/// Bytes of a key's id.
pub const KEY_BYTES_MAX: usize = 1_024;
/// Bytes of an event type's name.
pub const TYPE_BYTES_MAX: usize = 255;
/// Bytes of any other attribute of an event: its id, its source, an extension's value.
pub const ATTRIBUTE_BYTES_MAX: usize = 1_024;
/// Bytes of an extension attribute's name (CloudEvents advises 20).
pub const EXTENSION_NAME_BYTES_MAX: usize = 64;
/// Extension attributes of one event.
pub const EXTENSIONS_MAX: usize = 64;
/// Exceptions (waiting, dead, parked) that a cursor carries before it stops reading on.
pub const PARKED_ENTRIES_MAX: usize = 50_000;
/// Kinds of events that a cursor carries as parked ranges.
pub const PARKED_RANGES_MAX: usize = 1_000;
/// Open gaps, as ranges, before a cursor stops reading on.
pub const GAPS_MAX: usize = 100_000;
/// Closed gaps, as ranges, that are watched for late rows.
pub const CLOSED_GAPS_MAX: usize = 100_000;
/// Rows that one claim looks at before it hands back what it has.
pub const SCAN_ROWS_MAX: usize = 20_000;
/// Topics that have a breaker of their own at a time.
pub const TOPICS_MAX: usize = 10_000;
/// Broken keys that a sink remembers one by one.
pub const BROKEN_KEYS_MAX: usize = 10_000;
/// Receipts of lost claims that a relay remembers.
pub const RECEIVED_ENTRIES_MAX: usize = 10_000;
/// Circuits that are not closed in one report.
pub const REPORT_CIRCUITS_MAX: usize = 100;
/// How long a report is kept after its relay has fallen silent.
pub const REPORT_KEPT: Duration = Duration::from_secs(24 * 60 * 60);
/// Characters kept of a refusal's reason.
pub const REASON_CHARS_MAX: usize = 500;
/// How long a publish call may take before what is unanswered is unknown (B5).
pub const PUBLISH_DEADLINE: Duration = Duration::from_secs(30);
/// How long a lease holds without being extended.
pub const LEASE_TTL: Duration = Duration::from_secs(10);
/// How long a stop may take (below Kubernetes' grace of 30 s).
pub const STOP_TIMEOUT: Duration = Duration::from_secs(20);
