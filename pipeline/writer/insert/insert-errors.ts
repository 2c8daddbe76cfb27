/** What a failed insert means: wait for ClickHouse, or search for the row that it refuses. */
import { type ClickHouse } from '../../../platform/clickhouse/connect-clickhouse.ts'
import { EVENT_COLUMNS } from '../../../schema/event-row.ts'
import { type InsertError } from './insert-frames.ts'

/**
 * What a failed insert means for its batch.
 *
 * - `retry`: nothing is wrong with the rows; try the same insert again, for as long as it takes.
 * - `refuse`: these rows will never be accepted as they are, and none of them was stored.
 * - `unknown`: nobody knows; try a few times, then treat as refused.
 */
export type InsertFailure = 'retry' | 'refuse' | 'unknown'

interface KnownError {
  name: string
  action: InsertFailure
  why: string
}

/**
 * ClickHouse's error codes, as far as an insert of frames can meet them. Names and numbers are those of
 * `src/Common/ErrorCodes.cpp` of ClickHouse. A code that is missing here is `unknown`.
 */
export const CLICKHOUSE_ERRORS: Readonly<Record<number, KnownError>> = {
  // Not about the rows: connection, load, resources, replication, rights. The same insert succeeds later.
  0: { name: 'NO_ANSWER', action: 'retry', why: 'connection refused, reset, timed out, or a proxy answered' },
  3: { name: 'UNEXPECTED_END_OF_FILE', action: 'retry', why: 'the body did not arrive whole' },
  60: { name: 'UNKNOWN_TABLE', action: 'retry', why: 'not migrated yet, or dropped: an operator must act, rows are fine' },
  81: { name: 'UNKNOWN_DATABASE', action: 'retry', why: 'as for the table' },
  95: { name: 'CANNOT_READ_FROM_SOCKET', action: 'retry', why: 'network' },
  96: { name: 'CANNOT_WRITE_TO_SOCKET', action: 'retry', why: 'network' },
  101: { name: 'UNEXPECTED_PACKET_FROM_CLIENT', action: 'retry', why: 'network between nodes' },
  159: { name: 'TIMEOUT_EXCEEDED', action: 'retry', why: 'load' },
  164: { name: 'READONLY', action: 'retry', why: 'rights of the user' },
  173: { name: 'CANNOT_ALLOCATE_MEMORY', action: 'retry', why: 'memory' },
  192: { name: 'UNKNOWN_USER', action: 'retry', why: 'login' },
  193: { name: 'WRONG_PASSWORD', action: 'retry', why: 'login' },
  194: { name: 'REQUIRED_PASSWORD', action: 'retry', why: 'login' },
  198: { name: 'DNS_ERROR', action: 'retry', why: 'network between nodes' },
  201: { name: 'QUOTA_EXCEEDED', action: 'retry', why: 'quota of the user' },
  202: { name: 'TOO_MANY_SIMULTANEOUS_QUERIES', action: 'retry', why: 'load' },
  203: { name: 'NO_FREE_CONNECTION', action: 'retry', why: 'load' },
  209: { name: 'SOCKET_TIMEOUT', action: 'retry', why: 'network' },
  210: { name: 'NETWORK_ERROR', action: 'retry', why: 'network' },
  225: { name: 'NO_ZOOKEEPER', action: 'retry', why: 'Keeper is unavailable' },
  236: { name: 'ABORTED', action: 'retry', why: 'server shuts down or the table is being changed' },
  241: { name: 'MEMORY_LIMIT_EXCEEDED', action: 'retry', why: 'memory' },
  242: { name: 'TABLE_IS_READ_ONLY', action: 'retry', why: 'the replica lost Keeper or is starting' },
  243: { name: 'NOT_ENOUGH_SPACE', action: 'retry', why: 'disk' },
  252: { name: 'TOO_MANY_PARTS', action: 'retry', why: 'merges are behind; waiting lets them catch up (see below)' },
  254: { name: 'NO_ACTIVE_REPLICAS', action: 'retry', why: 'replication' },
  279: { name: 'ALL_CONNECTION_TRIES_FAILED', action: 'retry', why: 'network between nodes' },
  285: { name: 'TOO_FEW_LIVE_REPLICAS', action: 'retry', why: 'replication' },
  286: { name: 'UNSATISFIED_QUORUM_FOR_PREVIOUS_WRITE', action: 'retry', why: 'replication' },
  289: { name: 'REPLICA_IS_NOT_IN_QUORUM', action: 'retry', why: 'replication' },
  290: { name: 'LIMIT_EXCEEDED', action: 'retry', why: 'limits of the server' },
  298: { name: 'CANNOT_PIPE', action: 'retry', why: 'file descriptors' },
  319: { name: 'UNKNOWN_STATUS_OF_INSERT', action: 'retry', why: 'the token makes the repetition harmless' },
  394: { name: 'QUERY_WAS_CANCELLED', action: 'retry', why: 'an operator killed it' },
  425: { name: 'SYSTEM_ERROR', action: 'retry', why: 'operating system' },
  439: { name: 'CANNOT_SCHEDULE_TASK', action: 'retry', why: 'threads' },
  473: { name: 'DEADLOCK_AVOIDED', action: 'retry', why: 'locks' },
  497: { name: 'ACCESS_DENIED', action: 'retry', why: 'rights of the user' },
  499: { name: 'S3_ERROR', action: 'retry', why: 'object storage' },
  516: { name: 'AUTHENTICATION_FAILED', action: 'retry', why: 'login' },
  573: { name: 'EPOLL_ERROR', action: 'retry', why: 'operating system' },
  668: { name: 'INVALID_STATE', action: 'retry', why: 'server starts or stops' },
  733: { name: 'TABLE_IS_BEING_RESTARTED', action: 'retry', why: 'the table comes back' },
  745: { name: 'SERVER_OVERLOADED', action: 'retry', why: 'load' },
  999: { name: 'KEEPER_EXCEPTION', action: 'retry', why: 'Keeper' },

  // About the rows: the same bytes fail indefinitely, in one block, so nothing of the batch is stored.
  6: { name: 'CANNOT_PARSE_TEXT', action: 'refuse', why: 'a value does not fit its column' },
  7: { name: 'INCORRECT_NUMBER_OF_COLUMNS', action: 'refuse', why: 'not our layout' },
  9: { name: 'SIZES_OF_COLUMNS_DOESNT_MATCH', action: 'refuse', why: 'broken block' },
  10: { name: 'NOT_FOUND_COLUMN_IN_BLOCK', action: 'refuse', why: 'not our layout' },
  16: { name: 'NO_SUCH_COLUMN_IN_TABLE', action: 'refuse', why: 'a column the table does not have' },
  27: { name: 'CANNOT_PARSE_INPUT_ASSERTION_FAILED', action: 'refuse', why: 'broken value' },
  32: { name: 'ATTEMPT_TO_READ_AFTER_EOF', action: 'refuse', why: 'the block ends too early' },
  33: { name: 'CANNOT_READ_ALL_DATA', action: 'refuse', why: 'the block ends too early' },
  38: { name: 'CANNOT_PARSE_DATE', action: 'refuse', why: 'broken value' },
  41: { name: 'CANNOT_PARSE_DATETIME', action: 'refuse', why: 'broken value' },
  44: { name: 'ILLEGAL_COLUMN', action: 'refuse', why: 'broken block' },
  49: { name: 'LOGICAL_ERROR', action: 'unknown', why: 'a defect of ClickHouse, mostly provoked by a broken block' },
  50: { name: 'UNKNOWN_TYPE', action: 'refuse', why: 'a column of a type that ClickHouse does not know' },
  53: { name: 'TYPE_MISMATCH', action: 'refuse', why: 'a column of another type' },
  62: { name: 'SYNTAX_ERROR', action: 'refuse', why: 'the name of a type does not parse' },
  69: { name: 'ARGUMENT_OUT_OF_BOUND', action: 'refuse', why: 'value out of range' },
  70: { name: 'CANNOT_CONVERT_TYPE', action: 'refuse', why: 'a column of another type' },
  72: { name: 'CANNOT_PARSE_NUMBER', action: 'refuse', why: 'broken value' },
  92: { name: 'EMPTY_DATA_PASSED', action: 'refuse', why: 'frames without rows' },
  107: { name: 'FILE_DOESNT_EXIST', action: 'retry', why: 'spool of an embedded ClickHouse server' },
  117: { name: 'INCORRECT_DATA', action: 'refuse', why: 'broken block' },
  128: { name: 'TOO_LARGE_ARRAY_SIZE', action: 'refuse', why: 'broken block' },
  131: { name: 'TOO_LARGE_STRING_SIZE', action: 'refuse', why: 'broken block' },
  190: { name: 'SIZES_OF_ARRAYS_DONT_MATCH', action: 'refuse', why: 'broken block' },
  271: { name: 'CANNOT_DECOMPRESS', action: 'refuse', why: 'broken frame' },
  321: { name: 'VALUE_IS_OUT_OF_RANGE_OF_DATA_TYPE', action: 'refuse', why: 'value out of range' },
  349: { name: 'CANNOT_INSERT_NULL_IN_ORDINARY_COLUMN', action: 'refuse', why: 'a null where none may be' },
  407: { name: 'DECIMAL_OVERFLOW', action: 'refuse', why: 'value out of range, a timestamp too' },
  469: { name: 'VIOLATED_CONSTRAINT', action: 'refuse', why: 'a constraint that an operator added' },
  561: { name: 'ZSTD_DECODER_FAILED', action: 'refuse', why: 'not a zstd frame' }
}

/** 252 with this text is about the rows: the batch touches more months than one insert may. */
const TOO_MANY_PARTITIONS = /too many partitions/i

const TOO_MANY_PARTITIONS_ERROR: KnownError = {
  name: 'TOO_MANY_PARTITIONS', action: 'refuse', why: 'a smaller piece of the batch touches fewer months'
}

/** Tells what a failed insert means, by ClickHouse's code; by text only where one code has two meanings. */
export function classifyClickHouseError (error: InsertError): KnownError & { code: number } {
  const code = error.clickhouseCode
  if (code === 252 && TOO_MANY_PARTITIONS.test(error.message)) return { code, ...TOO_MANY_PARTITIONS_ERROR }
  return { code, ...(CLICKHOUSE_ERRORS[code] ?? { name: `CODE_${code}`, action: 'unknown', why: 'not in the table' }) }
}

/**
 * Tells whether the table has the columns that every frame brings. When a whole batch is refused, this separates bad
 * messages from a table that is being migrated: only with a sound table something may be dead-lettered.
 */
export function createProbeTable (clickhouse: ClickHouse): () => Promise<boolean> {
  const columns = EVENT_COLUMNS.map(({ name }) => name).join(', ')
  return async function probeTable () {
    try {
      await (await clickhouse.query({ query: `SELECT ${columns} FROM events LIMIT 0`, format: 'JSONEachRow' })).text()
      return true
    } catch {
      // Whatever is wrong, it is not the message.
      return false
    }
  }
}
