const VERSION_1: Readonly<Record<string, string>> = {
  async_insert: '0',
  input_format_parallel_parsing: '0',
  // A column that the table does not have must not be dropped in silence: the table is behind, the partition waits.
  input_format_skip_unknown_fields: '0',
  max_insert_block_size: '2000000',
  max_insert_block_size_bytes: '0',
  // Frames arrive as many small blocks; both limits must be out of reach, or they are joined into several.
  min_insert_block_size_rows: '2000000',
  min_insert_block_size_bytes: '0',
  // By default a ReplacingMergeTree merges each block with itself before it writes it: half of an insert's cost
  // (7.4 against 3.2 CPU us a row, 200,000 rows of 31 columns). Duplicates inside a batch range are left out by the
  // writer.
  optimize_on_insert: '0',
  deduplicate_insert: 'enable',
  deduplicate_blocks_in_dependent_materialized_views: '1',
  wait_end_of_query: '1'
}

/**
 * Settings of every insert, by version. They are part of a batch's identity: ClickHouse recognises a repeated insert
 * by its token *and* by how its rows were split into blocks, so the same batch range must always be inserted with the
 * same settings, also by the release after this one. Never edit a version; add one and keep the old ones for the batch
 * ranges that were recorded with them.
 *
 * Version 1: whatever the frames are, their rows become one block (measured: two blocks with another boundary on the
 * retry are stored twice), dependent views deduplicate too, and nothing is queued inside the server.
 *
 * Version 2: an insert may touch every month there is. Ingest takes times from 2000 on, so these are some 330, above
 * the limit of 100 that ClickHouse has by default: late events of many years were refused and cut into halves until
 * the pieces fitted. 5,000 events of 323 months: 2 inserts and 12 s instead of 20 inserts, 31 refused, and 69 s.
 */
export const INSERT_SETTINGS: Readonly<Record<number, Readonly<Record<string, string>>>> = {
  1: VERSION_1,
  2: { ...VERSION_1, max_partitions_per_insert_block: '1000' }
}

export const INSERT_SETTINGS_VERSION = 2
