-- Every event, one row each; the table that everything else is computed from.
-- Expected size: 120 to 250 bytes a row after compression, most of it `properties`.
-- ORDER BY: queries of product analytics name a project, a span of days and often an event; hashes of distinct_id and
-- uuid make the key unique, so that a second copy of an event (same uuid, person and day) is one event under FINAL.
-- The writer refuses known uuids before they get here; ReplacingMergeTree is the backstop behind it.
-- PARTITION BY month: retention drops whole parts, and a batch touches few partitions (ingest clamps dates).
-- The deduplication window makes the repeated insert of a recorded batch range harmless (docs/guarantees.md).
CREATE TABLE IF NOT EXISTS events {{on_cluster}}
(
    project_id UInt32 COMMENT 'Project the event belongs to (Postgres projects.id)',
    uuid UUID COMMENT 'Identity of the event: made by the SDK, or by the server when the SDK sent none',
    event LowCardinality(String) COMMENT 'Name of the event, such as $pageview or order paid',
    distinct_id String COMMENT 'Identity of the sender as the SDK gave it, at most 200 characters' CODEC(ZSTD(1)),
    person_id UUID DEFAULT toUUID(concat(substring(hex(SHA1(concat(unhex('932979b465c3442484670b66ec27bc22'), toString(project_id), ':', distinct_id))) AS person_hash, 1, 12), '5', substring(person_hash, 14, 3), translate(substring(person_hash, 17, 1), '0123456789ABCDEF', '89AB89AB89AB89AB'), substring(person_hash, 18, 15))) COMMENT 'Person of the distinct id before any merge: UUIDv5 of project and distinct_id; join persons to follow merges' CODEC(ZSTD(1)),
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
    INDEX session_id_index session_id TYPE bloom_filter(0.01) GRANULARITY 4,
    INDEX inserted_at_index inserted_at TYPE minmax GRANULARITY 1
)
ENGINE = {{replicated}}ReplacingMergeTree
PARTITION BY toYYYYMM(timestamp)
ORDER BY (project_id, toDate(timestamp), event, cityHash64(distinct_id), cityHash64(uuid))
SETTINGS {{deduplication_window}}
COMMENT 'Every event, one row each'
