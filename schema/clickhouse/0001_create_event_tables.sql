-- Every event, one row each; the table that everything else is computed from.
-- Expected size: 120 to 250 bytes a row after compression, most of it `properties`.
-- ORDER BY: queries of product analytics name a project, a span of days and often an event; hashes of distinct_id and
-- uuid make the key unique, so that a second copy of an event (same uuid, person and day) is one event under FINAL.
-- The writer refuses known uuids before they get here; ReplacingMergeTree is the backstop behind it.
-- PARTITION BY month: retention drops whole parts, and a batch touches few partitions (ingest clamps dates).
-- The deduplication window makes the repeated insert of a recorded batch range harmless (docs/reference/guarantees.md).
-- insert_token: in which insert a row came; receipts say partition, stream sequences and ingest processes from it. The
-- same for all rows of an insert: one dictionary index a row, and one entry of some 60 characters an insert.
-- schema_version, is_bot, sample_weight: nearly always the same in a whole block, so they cost nothing on disk; a frame
-- leaves them out when no event of it has another value than the default.
-- uuid_index, distinct_id_index: receipts find an event by its uuid alone, and the newest events of a distinct id, which
-- the order of the table does not serve. Each costs 0.1 us of CPU an event at insert, and two bytes or a half.
-- received_at_index: the ledger is compared with the table by minute of receipt; a few bytes a granule.
CREATE TABLE IF NOT EXISTS events {{on_cluster}}
(
    project_id UInt32 COMMENT 'Project the event belongs to (Postgres projects.id)',
    uuid UUID COMMENT 'Identity of the event: made by the SDK, or by the server when the SDK sent none',
    event LowCardinality(String) COMMENT 'Name of the event, such as $pageview or order paid',
    distinct_id String COMMENT 'Identity of the sender as the SDK gave it, at most 200 characters; cookieless_... is a visitor without cookies, for one day; $posthog_cookieless all of those that could not be told apart' CODEC(ZSTD(1)),
    person_id UUID DEFAULT toUUID(concat(substring(hex(SHA1(concat(unhex('932979b465c3442484670b66ec27bc22'), toString(project_id), ':', distinct_id))) AS person_hash, 1, 12), '5', substring(person_hash, 14, 3), translate(substring(person_hash, 17, 1), '0123456789ABCDEF', '89AB89AB89AB89AB'), substring(person_hash, 18, 15))) COMMENT 'Person computed from project and distinct_id (UUIDv5), never rewritten. Merges are followed by events_with_person, or by LEFT JOIN person_overrides FINAL on project_id and old_person_id' CODEC(ZSTD(1)),
    timestamp DateTime64(3, 'UTC') COMMENT 'When the event happened, corrected for the clock of the device' CODEC(DoubleDelta, ZSTD(1)),
    received_at DateTime64(3, 'UTC') COMMENT 'When ingest received the event' CODEC(DoubleDelta, ZSTD(1)),
    inserted_at DateTime64(3, 'UTC') DEFAULT now64(3) COMMENT 'When the row was inserted here; never decreases much, so good for incremental copies' CODEC(DoubleDelta, ZSTD(1)),
    groups Map(LowCardinality(String), String) COMMENT 'Group type to group key of the groups the event belongs to ($groups)' CODEC(ZSTD(1)),
    properties String COMMENT 'All properties of the event as JSON text, as sent; read with JSONExtract functions' CODEC(ZSTD(1)),
    property_types LowCardinality(String) COMMENT 'Names and inferred types of the properties, packed; unpacked in event_properties' CODEC(ZSTD(1)),
    session_id String COMMENT 'Session the event belongs to ($session_id)' CODEC(ZSTD(1)),
    window_id String COMMENT 'Browser tab or window ($window_id)' CODEC(ZSTD(1)),
    device_id String COMMENT 'Device ($device_id)' CODEC(ZSTD(1)),
    current_url String COMMENT 'Address of the page ($current_url)' CODEC(ZSTD(1)),
    host LowCardinality(String) COMMENT 'Host of the page ($host)',
    pathname String COMMENT 'Path of the page ($pathname)' CODEC(ZSTD(1)),
    referring_domain LowCardinality(String) COMMENT 'Host of the referring page, or $direct ($referring_domain)',
    screen_name LowCardinality(String) COMMENT 'Screen of a mobile app ($screen_name)',
    browser LowCardinality(String) COMMENT 'Browser ($browser)',
    browser_version LowCardinality(String) COMMENT 'Browser version as text ($browser_version)',
    os LowCardinality(String) COMMENT 'Operating system ($os)',
    device_type LowCardinality(String) COMMENT 'Desktop, Mobile or Tablet ($device_type)',
    lib LowCardinality(String) COMMENT 'SDK that sent the event ($lib)',
    lib_version LowCardinality(String) COMMENT 'Version of the SDK ($lib_version)',
    utm_source LowCardinality(String) COMMENT 'Campaign source (utm_source)',
    utm_medium LowCardinality(String) COMMENT 'Campaign medium (utm_medium)',
    utm_campaign LowCardinality(String) COMMENT 'Campaign name (utm_campaign)',
    feature_flag LowCardinality(String) COMMENT 'Flag that was evaluated, on $feature_flag_called ($feature_flag)',
    feature_flag_response LowCardinality(String) COMMENT 'Its value as text, on $feature_flag_called ($feature_flag_response)',
    ip String COMMENT 'Address of the client ($ip)' CODEC(ZSTD(1)),
    insert_token LowCardinality(String) DEFAULT getSetting('insert_deduplication_token') COMMENT 'Insert that brought the row: stream, partition, stream sequences of its messages, ingest processes that received them; empty for rows from before',
    schema_version Int32 DEFAULT 0 COMMENT 'Version of the schema that the properties meet; negative when they do not meet that version (mode observe); 0 when they were not checked' CODEC(ZSTD(1)),
    is_bot Bool DEFAULT false COMMENT 'The user agent says that it is a crawler, a monitor or another program; false when it is unknown' CODEC(ZSTD(1)),
    country LowCardinality(String) DEFAULT '' COMMENT 'Property $geoip_country_code: ISO 3166-1 code of the country of the address, from MILLRACE_GEOIP_PATH or as sent' CODEC(ZSTD(1)),
    sample_weight Float64 DEFAULT 1 COMMENT 'How many events this one stands for: more than 1 where a rule or a quota stores a share of them; sum it to count' CODEC(ZSTD(1)),
    INDEX session_id_index session_id TYPE bloom_filter(0.01) GRANULARITY 4,
    INDEX inserted_at_index inserted_at TYPE minmax GRANULARITY 1,
    INDEX uuid_index uuid TYPE bloom_filter(0.001) GRANULARITY 1,
    INDEX received_at_index received_at TYPE minmax GRANULARITY 1,
    INDEX distinct_id_index distinct_id TYPE bloom_filter(0.01) GRANULARITY 1
)
ENGINE = {{replicated}}ReplacingMergeTree{{this_shard}}
PARTITION BY toYYYYMM(timestamp)
ORDER BY (project_id, toDate(timestamp), event, cityHash64(distinct_id), cityHash64(uuid))
SETTINGS {{deduplication_window}}
COMMENT 'Every event, one row each';

-- What is remembered by uuid of events that are not in events: sent again, dropped, deleted with their person. For receipts.
-- Expected size: 30 bytes a row. Rows are bounded where they are made (docs/send/what-happens-to-an-event.md): duplicates 1,000 a minute of each
-- partition, drops 1,000 a minute of each ingest process; deleted ones once an event.
-- ORDER BY: read by project and uuid. The whole key follows from the message, so a trace inserted twice is one.
-- TTL: who asks for an event asks within days. A hash instead of the distinct id: the traces of a deleted person name nobody.
CREATE TABLE IF NOT EXISTS event_traces {{on_cluster}}
(
    project_id UInt32 COMMENT 'Project',
    uuid UUID COMMENT 'Uuid of the event',
    kind LowCardinality(String) COMMENT 'What happened: duplicate (came again, not stored again), dropped (answered with 200, not stored), deleted (with its person)',
    at DateTime64(3, 'UTC') COMMENT 'When it was received again or dropped, or its deletion was asked for' CODEC(DoubleDelta, ZSTD(1)),
    process LowCardinality(String) COMMENT 'Ingest process that received it',
    reason LowCardinality(String) COMMENT 'Why it was dropped; see docs/send/what-happens-to-an-event.md',
    partition LowCardinality(String) COMMENT 'Partition of the stream, of duplicates',
    sequence UInt64 COMMENT 'Sequence of its message in the stream, of duplicates' CODEC(ZSTD(1)),
    row UInt32 COMMENT 'Its row in that message' CODEC(ZSTD(1)),
    distinct_id_hash String COMMENT 'First 16 hexadecimal digits of SHA-256 of the distinct id, of dropped events; empty without one' CODEC(ZSTD(1))
)
ENGINE = {{replicated}}ReplacingMergeTree{{this_shard}}
PARTITION BY toYYYYMM(at)
ORDER BY (project_id, uuid, kind, at, process, partition, sequence, row)
TTL toDateTime(at) + toIntervalDay(30)
COMMENT 'Events that came again, were dropped or deleted, by uuid, for 30 days and within limits';
