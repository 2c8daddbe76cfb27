import { errorCode, isBug, type KnownStoreError, type StoreError } from '../../engines/errors.ts'

/**
 * The one table of ClickHouse's errors, for inserts and for queries. Names and numbers are those of
 * `src/Common/ErrorCodes.cpp` of ClickHouse; a test asks the server. A code that is missing here is `unknown`.
 */
export const CLICKHOUSE_ERRORS: Readonly<Record<number, KnownStoreError>> = {
  // Load, memory, disk, network, replication: ClickHouse cannot do it now.
  0: { name: 'NO_ANSWER', action: 'retry', why: 'connection refused, reset, timed out, or a proxy answered', isDown: true },
  3: { name: 'UNEXPECTED_END_OF_FILE', action: 'retry', why: 'the body did not arrive whole' },
  95: { name: 'CANNOT_READ_FROM_SOCKET', action: 'retry', why: 'network' },
  96: { name: 'CANNOT_WRITE_TO_SOCKET', action: 'retry', why: 'network' },
  101: { name: 'UNEXPECTED_PACKET_FROM_CLIENT', action: 'retry', why: 'network between nodes' },
  107: { name: 'FILE_DOESNT_EXIST', action: 'retry', why: 'spool of an embedded ClickHouse server' },
  159: { name: 'TIMEOUT_EXCEEDED', action: 'retry', why: 'load' },
  160: { name: 'TOO_SLOW', action: 'retry', why: 'load: the query would take too long' },
  173: { name: 'CANNOT_ALLOCATE_MEMORY', action: 'retry', why: 'memory' },
  198: { name: 'DNS_ERROR', action: 'retry', why: 'network between nodes' },
  201: { name: 'QUOTA_EXCEEDED', action: 'retry', why: 'quota of the user: it is renewed' },
  202: { name: 'TOO_MANY_SIMULTANEOUS_QUERIES', action: 'retry', why: 'load' },
  203: { name: 'NO_FREE_CONNECTION', action: 'retry', why: 'load' },
  209: { name: 'SOCKET_TIMEOUT', action: 'retry', why: 'network' },
  210: { name: 'NETWORK_ERROR', action: 'retry', why: 'network' },
  225: { name: 'NO_ZOOKEEPER', action: 'retry', why: 'Keeper is unavailable' },
  236: { name: 'ABORTED', action: 'retry', why: 'server shuts down or the table is being changed', isDown: true },
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
  394: { name: 'QUERY_WAS_CANCELLED', action: 'retry', why: 'an operator or a shutdown cancelled it' },
  425: { name: 'SYSTEM_ERROR', action: 'retry', why: 'operating system' },
  439: { name: 'CANNOT_SCHEDULE_TASK', action: 'retry', why: 'threads' },
  473: { name: 'DEADLOCK_AVOIDED', action: 'retry', why: 'locks' },
  499: { name: 'S3_ERROR', action: 'retry', why: 'object storage' },
  573: { name: 'EPOLL_ERROR', action: 'retry', why: 'operating system' },
  668: { name: 'INVALID_STATE', action: 'retry', why: 'server starts or stops', isDown: true },
  733: { name: 'TABLE_IS_BEING_RESTARTED', action: 'retry', why: 'the table comes back' },
  745: { name: 'SERVER_OVERLOADED', action: 'retry', why: 'load' },
  999: { name: 'KEEPER_EXCEPTION', action: 'retry', why: 'Keeper' },

  // Until an operator acts, nothing of the kind succeeds.
  47: { name: 'UNKNOWN_IDENTIFIER', action: 'repair', why: 'not migrated yet: a column is missing' },
  60: { name: 'UNKNOWN_TABLE', action: 'repair', why: 'not migrated yet, or dropped' },
  81: { name: 'UNKNOWN_DATABASE', action: 'repair', why: 'not migrated yet, or dropped' },
  164: { name: 'READONLY', action: 'repair', why: 'the login may only read' },
  192: { name: 'UNKNOWN_USER', action: 'repair', why: 'there is no such login' },
  193: { name: 'WRONG_PASSWORD', action: 'repair', why: 'wrong password' },
  194: { name: 'REQUIRED_PASSWORD', action: 'repair', why: 'a password is required' },
  497: { name: 'ACCESS_DENIED', action: 'repair', why: 'the login lacks a right' },
  516: { name: 'AUTHENTICATION_FAILED', action: 'repair', why: 'no such login, or wrong password' },

  // The block is broken, or of a layout that the table does not have: nothing of the insert is stored.
  7: { name: 'INCORRECT_NUMBER_OF_COLUMNS', action: 'mismatch', why: 'not our layout' },
  9: { name: 'SIZES_OF_COLUMNS_DOESNT_MATCH', action: 'mismatch', why: 'broken block' },
  10: { name: 'NOT_FOUND_COLUMN_IN_BLOCK', action: 'mismatch', why: 'not our layout' },
  16: { name: 'NO_SUCH_COLUMN_IN_TABLE', action: 'mismatch', why: 'a column the table does not have' },
  32: { name: 'ATTEMPT_TO_READ_AFTER_EOF', action: 'mismatch', why: 'the block ends too early' },
  33: { name: 'CANNOT_READ_ALL_DATA', action: 'mismatch', why: 'the block ends too early' },
  44: { name: 'ILLEGAL_COLUMN', action: 'mismatch', why: 'broken block' },
  50: { name: 'UNKNOWN_TYPE', action: 'mismatch', why: 'a column of a type that ClickHouse does not know' },
  53: { name: 'TYPE_MISMATCH', action: 'mismatch', why: 'a column of another type' },
  62: { name: 'SYNTAX_ERROR', action: 'mismatch', why: 'the name of a type does not parse' },
  70: { name: 'CANNOT_CONVERT_TYPE', action: 'mismatch', why: 'a column of another type' },
  92: { name: 'EMPTY_DATA_PASSED', action: 'mismatch', why: 'frames without rows' },
  128: { name: 'TOO_LARGE_ARRAY_SIZE', action: 'mismatch', why: 'broken block' },
  131: { name: 'TOO_LARGE_STRING_SIZE', action: 'mismatch', why: 'broken block' },
  190: { name: 'SIZES_OF_ARRAYS_DONT_MATCH', action: 'mismatch', why: 'broken block' },
  271: { name: 'CANNOT_DECOMPRESS', action: 'mismatch', why: 'broken frame' },
  561: { name: 'ZSTD_DECODER_FAILED', action: 'mismatch', why: 'not a zstd frame' },

  // A value that its column cannot hold: the same bytes fail every time, and nothing of their insert is stored.
  6: { name: 'CANNOT_PARSE_TEXT', action: 'refuse', why: 'a value does not fit its column' },
  26: { name: 'CANNOT_PARSE_QUOTED_STRING', action: 'refuse', why: 'broken value' },
  27: { name: 'CANNOT_PARSE_INPUT_ASSERTION_FAILED', action: 'refuse', why: 'broken value' },
  38: { name: 'CANNOT_PARSE_DATE', action: 'refuse', why: 'broken value' },
  41: { name: 'CANNOT_PARSE_DATETIME', action: 'refuse', why: 'broken value' },
  69: { name: 'ARGUMENT_OUT_OF_BOUND', action: 'refuse', why: 'value out of range' },
  72: { name: 'CANNOT_PARSE_NUMBER', action: 'refuse', why: 'broken value' },
  117: { name: 'INCORRECT_DATA', action: 'refuse', why: 'broken block' },
  321: { name: 'VALUE_IS_OUT_OF_RANGE_OF_DATA_TYPE', action: 'refuse', why: 'value out of range' },
  349: { name: 'CANNOT_INSERT_NULL_IN_ORDINARY_COLUMN', action: 'refuse', why: 'a null where none may be' },
  376: { name: 'CANNOT_PARSE_UUID', action: 'refuse', why: 'broken value' },
  407: { name: 'DECIMAL_OVERFLOW', action: 'refuse', why: 'value out of range, a timestamp too' },
  467: { name: 'CANNOT_PARSE_BOOL', action: 'refuse', why: 'broken value' },
  469: { name: 'VIOLATED_CONSTRAINT', action: 'refuse', why: 'a constraint that an operator added' },

  49: { name: 'LOGICAL_ERROR', action: 'unknown', why: 'a defect of ClickHouse, mostly provoked by a broken block' }
}

/** 252 with this text is about the rows: the batch touches more months than one insert may. */
const TOO_MANY_PARTITIONS = /too many partitions/i

const TOO_MANY_PARTITIONS_ERROR: KnownStoreError = {
  name: 'TOO_MANY_PARTITIONS', action: 'refuse', why: 'a smaller piece of the batch touches fewer months'
}

/** What the node that was asked says when another one broke off: it read no block, whatever the code says. */
const BETWEEN_NODES = /while receiving packet from/

const BETWEEN_NODES_ERROR: KnownStoreError = {
  name: 'NETWORK_BETWEEN_NODES', action: 'retry', why: 'another node was killed or cut off: it may have stored its rows'
}

/**
 * Tells what any error of a request to ClickHouse means: by ClickHouse's code, by text only where one code has two
 * meanings. An error without a code is no answer (0), or a bug of this process (-1).
 */
export function classifyClickHouseError (error: unknown): StoreError & { code: number } {
  if (isBug(error)) return { code: -1, name: 'BUG', action: 'unknown', why: 'an error of this process, not of ClickHouse' }
  const code = clickHouseCodeOf(error) ?? 0
  const isPartitions = code === 252 && error instanceof Error && TOO_MANY_PARTITIONS.test(error.message)
  if (isPartitions) return { code, ...TOO_MANY_PARTITIONS_ERROR }
  const known = CLICKHOUSE_ERRORS[code] ?? { name: `CODE_${code}`, action: 'unknown', why: 'not in the table' }
  // Errors of broken blocks quote no values, so nobody who sends events can write this text.
  const isBetweenNodes = known.action === 'mismatch' && error instanceof Error && BETWEEN_NODES.test(error.message)
  return { code, ...(isBetweenNodes ? BETWEEN_NODES_ERROR : known) }
}

/** `clickhouseCode` of our insert, or `code` of the client, which is a string of digits; undefined without either. */
export function clickHouseCodeOf (error: unknown): number | undefined {
  if (typeof error !== 'object' || error === null) return
  if ('clickhouseCode' in error && typeof error.clickhouseCode === 'number') return error.clickhouseCode
  const code = errorCode(error)
  return /^\d+$/.test(code) ? Number(code) : undefined
}
