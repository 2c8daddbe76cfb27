/** Requests for what ClickHouse's HTTP interface has: methods, logins, settings, formats, types, sessions, errors. */
import zlib from 'node:zlib'
import { TEST_PASSWORDS } from 'chdb-server/testing'
import type { ComparedRequest } from './compare-http.ts'

const OWNER = { 'x-clickhouse-user': 'owner', 'x-clickhouse-key': TEST_PASSWORDS.owner }
const SPACE = { database: 'compared' }

interface Ask {
  query?: string
  body?: string | Buffer
  method?: string
  path?: string
  /** In the place of the owner's login. */
  login?: Record<string, string>
  headers?: Record<string, string>
}

/** Before all others: databases that suites of clients have. */
export function prepareDatabases (): ComparedRequest[] {
  return group('databases', plain(['compared', 'shop', 'millrace'].map((name) => `CREATE DATABASE IF NOT EXISTS ${name}`), {}))
}

/** All of them, in the order in which they are sent: some read what others wrote. */
export function madeRequests (): ComparedRequest[] {
  return [
    ...group('methods', methods()), ...group('logins', logins()), ...group('statements', statements()), ...group('types', types()),
    ...group('formats', formats()), ...group('parameters', parameters()), ...group('inserts', inserts()), ...group('compression', compression()),
    ...group('settings', settings()), ...group('sessions', sessions()), ...group('errors', errors()), ...group('errors in a result', lateErrors())
  ]
}

function group (source: string, asks: Array<[params: Record<string, string>, ask: Ask | string]>): ComparedRequest[] {
  return asks.map(([params, given]) => {
    const ask = typeof given === 'string' ? { body: given } : given
    const search = new URLSearchParams({ ...params, ...ask.query === undefined ? {} : { query: ask.query } }).toString()
    return {
      source,
      method: ask.method ?? 'POST',
      path: `${ask.path ?? '/'}${search === '' ? '' : `?${search}`}`,
      headers: { ...ask.login ?? OWNER, ...ask.headers },
      body: Buffer.from(ask.body ?? '').toString('base64')
    }
  })
}

type Asks = Array<[Record<string, string>, Ask | string]>
const plain = (texts: readonly (Ask | string)[], params: Record<string, string> = SPACE): Asks =>
  texts.map((text) => [params, text])

function methods (): Asks {
  const paths = ['/ping', '/replicas_status', '/', '/nope', '/query', '/?', '/metrics']
  const none = ['GET', 'HEAD', 'POST', 'OPTIONS', 'PUT', 'DELETE', 'PATCH'].flatMap((method) =>
    paths.map((path): [Record<string, string>, Ask] => [{}, { method, path }]))
  const asked = ['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS'].map((method): [Record<string, string>, Ask] => [{}, { method, query: 'SELECT 1' }])
  const cors = { origin: 'http://elsewhere.example', 'access-control-request-method': 'POST' }
  return [
    [{}, { method: 'OPTIONS', headers: cors }], [{ add_http_cors_header: '1' }, { query: 'SELECT 1', headers: cors }],
    ...none, ...asked
  ]
}

function logins (): Asks {
  const basic = (user: string, password: string): Record<string, string> => ({ authorization: `Basic ${Buffer.from(`${user}:${password}`).toString('base64')}` })
  const { owner } = TEST_PASSWORDS
  const whoami = 'SELECT currentUser() AS u'
  const cases: Array<[Record<string, string>, Record<string, string>]> = [
    [{}, basic('owner', owner)], [{}, basic('owner', 'wrong')], [{}, basic('nobody', owner)], [{}, { authorization: 'Basic !!!' }],
    [{}, { authorization: 'Bearer abc' }], [{}, { authorization: 'Basic' }], [{}, { 'x-clickhouse-user': 'owner' }], [{}, { 'x-clickhouse-key': owner }],
    [{ user: 'owner', password: owner }, {}], [{ user: 'owner' }, {}], [{ user: 'owner', password: 'wrong' }, {}], [{ password: owner }, {}],
    [{ user: 'owner', password: owner }, OWNER], [{}, { ...OWNER, ...basic('owner', owner) }], [{ user: 'owner', password: owner }, basic('owner', owner)],
    [{}, { 'x-clickhouse-user': 'nobody', 'x-clickhouse-key': '' }], [{ quota_key: 'q' }, OWNER], [{}, { ...OWNER, 'x-clickhouse-quota': 'q' }],
    [{ role: 'nope' }, OWNER]
  ]
  return cases.map(([params, login]) => [params, { body: whoami, login }])
}

function statements (): Asks {
  const table = 'CREATE TABLE kept (a UInt32, b String, c Array(String) DEFAULT [\'x\']) ENGINE = MergeTree ORDER BY a'
  return plain([
    table, table, 'INSERT INTO kept (a, b) SELECT number, toString(number) FROM numbers(10)', 'SELECT * FROM kept ORDER BY a', 'SELECT * FROM kept ORDER BY a;',
    'SELECT 1;;', ' ; ', '', '\n', '-- nothing', '/* nothing */ SELECT 1 -- end', 'SELECT 1; SELECT 2', 'SELECT 1;\nSELECT 2', 'select 1 as `a b`', 'SELECT 1 FORMAT JSON; ',
    'WITH 1 AS x SELECT x', '(SELECT 1) UNION ALL (SELECT 2)', 'FROM kept SELECT count()', 'SHOW TABLES', 'SHOW DATABASES LIKE \'comp%\'', 'SHOW CREATE TABLE kept',
    'SHOW COLUMNS FROM kept', 'SHOW INDEX FROM kept', 'DESCRIBE kept', 'DESC TABLE kept FORMAT JSONEachRow', 'DESCRIBE (SELECT 1 AS a)', 'EXISTS kept', 'EXISTS TABLE nope',
    'EXPLAIN SELECT 1', 'EXPLAIN SYNTAX SELECT 1', 'EXPLAIN AST SELECT 1', 'EXPLAIN PIPELINE SELECT 1', 'EXPLAIN ESTIMATE SELECT * FROM kept', 'CHECK TABLE kept',
    'OPTIMIZE TABLE kept FINAL', 'ALTER TABLE kept ADD COLUMN d UInt8', 'ALTER TABLE kept UPDATE d = 1 WHERE a = 1 SETTINGS mutations_sync = 1', 'ALTER TABLE kept DELETE WHERE a = 2 SETTINGS mutations_sync = 1',
    'DELETE FROM kept WHERE a = 3', 'SELECT count(), sum(d) FROM kept', 'RENAME TABLE kept TO moved', 'RENAME TABLE moved TO kept', 'SET max_threads = 1', 'USE shop', 'SELECT currentDatabase()',
    'CREATE VIEW seen AS SELECT a FROM kept', 'SELECT count() FROM seen', 'DROP VIEW seen', 'CREATE TEMPORARY TABLE passing (a UInt8)', 'SELECT * FROM passing', 'KILL QUERY WHERE query_id = \'none\'',
    'SHOW SETTINGS LIKE \'max_threa_s\'', 'SHOW FUNCTIONS LIKE \'plus\'', 'SELECT * FROM system.one', 'SELECT name, type FROM system.columns WHERE database = \'compared\' ORDER BY name',
    'SELECT name, engine FROM system.tables WHERE database = \'compared\'', 'TRUNCATE TABLE kept', 'DROP TABLE kept', 'DROP TABLE IF EXISTS kept', 'SHOW ENGINES', 'SHOW GRANTS', 'SELECT version() != \'\', uptime() >= 0',
    'SYSTEM FLUSH LOGS', 'SELECT 1 INTO OUTFILE \'x\'', 'SELECT 1 SETTINGS max_threads = 1 FORMAT CSV', 'SELECT 1 FORMAT CSV SETTINGS max_threads = 1', 'SELECT 1 FORMAT Null', 'SHOW PROCESSLIST FORMAT Null',
    { query: 'SELECT ', body: '1' }, { query: 'SELECT 1' }, { method: 'GET', query: 'SELECT 1' }, { method: 'GET', query: 'CREATE TABLE g (a UInt8) ENGINE Memory' },
    { method: 'HEAD', query: 'SELECT nope' }, { query: 'SELECT 1', body: ' + 1' }
  ])
}

/** Expressions of every type that a column may have. */
const VALUES = [
  'toInt8(-128)', 'toInt16(-32768)', 'toInt32(-2147483648)', 'toInt64(\'-9223372036854775808\')', 'toInt128(\'-170141183460469231731687303715884105728\')',
  'toInt256(\'-1\')', 'toUInt64(\'18446744073709551615\')', 'toUInt128(\'340282366920938463463374607431768211455\')', 'toUInt256(\'1\')', 'toFloat32(0.1)', '1/3', 'nan', '-inf', 'toBFloat16(1.5)',
  'toDecimal32(\'1.10\', 4)', 'toDecimal64(\'-1.5\', 9)', 'toDecimal128(\'0.1\', 20)', 'toDecimal256(\'1e10\', 40)', 'true', '\'it\'\'s \\t\\n\\\\ ü \\0\'', 'toFixedString(\'ab\', 4)',
  'toDate(\'2024-02-29\')', 'toDate32(\'1900-01-01\')', 'toDateTime(\'2024-02-29 12:00:00\', \'UTC\')', 'toDateTime(\'2024-02-29 12:00:00\', \'Asia/Tokyo\')',
  'toDateTime64(\'2024-02-29 12:00:00.123456\', 6, \'UTC\')', 'toTime(\'2024-02-29 12:00:00\')', 'toUUID(\'61f0c404-5cb3-11e7-907b-a6006ad3dba0\')', 'toIPv4(\'1.2.3.4\')', 'toIPv6(\'2001:db8::1\')',
  'CAST(\'b\', \'Enum8(\\\'a\\\' = -1, \\\'b\\\' = 2)\')', 'CAST(\'x\', \'Enum16(\\\'x\\\' = 300)\')', 'toLowCardinality(\'low\')', 'CAST(NULL, \'LowCardinality(Nullable(String))\')', 'NULL', 'CAST(NULL, \'Nullable(UInt8)\')', 'toNullable(1)',
  '[1, 2, 3]', '[]', '[[1], []]', '[NULL, \'a\']', '(1, \'a\')', 'tuple()', 'CAST((1, \'a\'), \'Tuple(n UInt8, s String)\')', 'map(\'a\', 1, \'b\', 2)', 'map(1, [2])', 'CAST(\'{"a":{"b":1},"c":[1,2]}\', \'JSON\')',
  'CAST(1, \'Variant(UInt8, String)\')', 'CAST(\'x\', \'Dynamic\')', 'toIntervalDay(3)', '(1.0, 2.0)::Point', '[(1, 1), (2, 2)]::Ring', 'sumState(1::UInt8)', 'sumSimpleState(1)', 'nothing'
].filter((value) => value !== 'nothing')

function types (): Asks {
  return ['JSONEachRow', 'TabSeparated', 'RowBinaryWithNamesAndTypes', 'JSON'].flatMap((format) =>
    plain(VALUES.map((value) => `SELECT ${value} AS v`), { default_format: format }))
}

const FORMATS = [
  'Arrow', 'ArrowStream', 'Avro', 'BSONEachRow', 'CSV', 'CSVWithNames', 'CSVWithNamesAndTypes', 'CustomSeparated', 'JSON', 'JSONAsObject', 'JSONColumns', 'JSONColumnsWithMetadata', 'JSONCompact',
  'JSONCompactColumns', 'JSONCompactEachRow', 'JSONCompactEachRowWithNames', 'JSONCompactEachRowWithNamesAndTypes', 'JSONCompactStrings', 'JSONCompactStringsEachRow', 'JSONEachRow', 'JSONEachRowWithProgress',
  'JSONObjectEachRow', 'JSONStrings', 'JSONStringsEachRow', 'LineAsString', 'Markdown', 'MsgPack', 'MySQLWire', 'Native', 'Npy', 'Null', 'ORC', 'Parquet', 'PostgreSQLWire', 'Pretty', 'PrettyCompact', 'PrettyCompactMonoBlock',
  'PrettyJSONEachRow', 'PrettyNoEscapes', 'PrettySpace', 'Prometheus', 'Protobuf', 'RawBLOB', 'RowBinary', 'RowBinaryWithDefaults', 'RowBinaryWithNames', 'RowBinaryWithNamesAndTypes', 'SQLInsert', 'TSKV', 'TSV', 'TabSeparated',
  'TabSeparatedRaw', 'TabSeparatedWithNames', 'TabSeparatedWithNamesAndTypes', 'Template', 'Values', 'Vertical', 'XML', 'Nope', 'json'
]

function formats (): Asks {
  const rows = 'SELECT number AS n, toString(number) AS s, [number] AS a FROM numbers(3) ORDER BY n'
  return FORMATS.flatMap((format): Asks => [
    [SPACE, `${rows} FORMAT ${format}`], [{ default_format: format, wait_end_of_query: '1' }, 'SELECT 1 AS a WHERE 0'],
    [{}, { body: 'SELECT 1 AS a, \'b\' AS b', headers: { 'x-clickhouse-format': format } }]
  ]).concat(plain([
    'SELECT number % 2 AS k, sum(number) AS s FROM numbers(4) GROUP BY k WITH TOTALS ORDER BY k FORMAT JSON', 'SELECT number % 2 AS k, sum(number) AS s FROM numbers(4) GROUP BY k WITH TOTALS ORDER BY k FORMAT Pretty',
    'SELECT number FROM numbers(100) ORDER BY number LIMIT 2 FORMAT JSON', 'SELECT number FROM numbers(100000) ORDER BY number LIMIT 2 FORMAT JSONCompact SETTINGS extremes = 1',
    'SELECT toUInt64(1) AS a, nan AS b FORMAT JSON SETTINGS output_format_json_quote_64bit_integers = 1, output_format_json_quote_denormals = 1'
  ]))
}

function parameters (): Asks {
  const cases: Array<[string, string]> = [
    ['UInt8', '7'], ['UInt8', '300'], ['UInt8', 'x'], ['UInt8', ''], ['Int64', '-9223372036854775808'], ['UInt256', '1'], ['Float64', '1e3'], ['Float64', 'nan'], ['Bool', 'true'], ['Bool', '1'], ['Decimal(9, 2)', '1.239'],
    ['String', 'it\'s'], ['String', 'a\\tb'], ['String', 'a\tb'], ['String', '\\'], ['String', '\\\\N'], ['String', ''], ['FixedString(3)', 'ab'], ['Nullable(String)', '\\N'], ['Nullable(UInt8)', '\\N'], ['Nullable(UInt8)', 'NULL'], ['LowCardinality(String)', 'x'],
    ['Array(UInt8)', '[1,2]'], ['Array(String)', '[\'a\',\'it\\\'s\']'], ['Array(String)', '["a"]'], ['Array(Array(UInt8))', '[[1],[]]'], ['Array(Nullable(UInt8))', '[1,NULL]'], ['Tuple(UInt8, String)', '(1,\'a\')'], ['Map(String, UInt8)', '{\'a\':1}'],
    ['Date', '2024-02-29'], ['Date', '2024-02-30'], ['DateTime', '2024-02-29 12:00:00'], ['DateTime', '1709208000'], ['DateTime(\'UTC\')', '2024-02-29T12:00:00'], ['DateTime', '2024-02-29T12:00:00Z'], ['DateTime', '2024-02-29T12:00:00.000Z'],
    ['DateTime64(3)', '2024-02-29 12:00:00.123'], ['DateTime64(3, \'UTC\')', '2024-02-29T12:00:00.123Z'], ['DateTime64(3)', '1709208000.123'], ['UUID', '61f0c404-5cb3-11e7-907b-a6006ad3dba0'], ['UUID', 'x'], ['IPv4', '1.2.3.4'], ['IPv6', '::1'],
    ['Enum8(\'a\' = 1)', 'a'], ['Enum8(\'a\' = 1)', 'b'], ['Identifier', 'name'], ['Identifier', 'no such'], ['JSON', '{"a":1}'], ['Nope', '1']
  ]
  const select = (type: string): string => type === 'Identifier' ? 'SELECT {v:Identifier} FROM (SELECT 1 AS name)' : `SELECT {v:${type}} AS v, toTypeName(v)`
  const form = '--7Ka91Qe\r\nContent-Disposition: form-data; name="query"\r\n\r\nSELECT {v:UInt8}\r\n--7Ka91Qe\r\nContent-Disposition: form-data; name="param_v"\r\n\r\n5\r\n--7Ka91Qe--\r\n'
  return [
    ...cases.map(([type, value]): [Record<string, string>, string] => [{ param_v: value, session_timezone: 'UTC' }, select(type)]),
    [{}, 'SELECT {v:UInt8}'], [{ param_v: '1', param_w: '2' }, 'SELECT {v:UInt8} + {w:UInt8} + {v:UInt8}'], [{ 'param_a b': '1' }, 'SELECT 1'], [{ param_: '1' }, 'SELECT 1'], [{ param_v: '1' }, 'SELECT 1'],
    [{ param_t: 'numbers' }, 'SELECT count() FROM system.{t:Identifier} LIMIT 1'], [{}, { body: form, headers: { 'content-type': 'multipart/form-data; boundary=7Ka91Qe' } }],
    [{}, { body: 'query=SELECT+1', headers: { 'content-type': 'application/x-www-form-urlencoded' } }]
  ]
}

function inserts (): Asks {
  const rows = { n: 1, s: 'a', t: '2024-02-29 12:00:00.123' }
  const into: Array<[string, string | Buffer]> = [
    ['JSONEachRow', JSON.stringify(rows)], ['JSONEachRow', `[${JSON.stringify(rows)},\n${JSON.stringify({ n: 2 })}]`], ['JSONCompactEachRow', '[3,"c","2024-02-29 12:00:00"]'], ['CSV', '4,d,2024-02-29 12:00:00\n'], ['CSV', '4,"d""q",2024-02-29 12:00:00'],
    ['CSVWithNames', 's,n\ne,5\n'], ['TSV', '6\tf\t2024-02-29 12:00:00\n'], ['TabSeparated', '6\t\\N\t2024-02-29 12:00:00'], ['TSVWithNames', 'n\n7\n'], ['Values', '(8, \'h\', \'2024-02-29\'), (9, \'i\', now())'], ['Values', '(1 + 1, lower(\'X\'), \'2024-02-29 12:00:00\')'],
    ['RowBinary', Buffer.from('0a000000016a0000000000000000', 'hex')], ['JSON', JSON.stringify({ meta: [{ name: 'n', type: 'UInt32' }], data: [{ n: 11 }] })], ['JSONColumns', '{"n":[12,13]}'], ['TSKV', 'n=14\ts=n\n'], ['JSONStringsEachRow', '{"n":"15"}'],
    ['JSONEachRow', '{"n":"x"}'], ['JSONEachRow', '{"n":16,"unknown":1}'], ['JSONEachRow', '{"n":17'], ['CSV', 'x,y'], ['TSV', '1\n'], ['RowBinary', 'x'], ['Values', '('], ['Nope', 'x'], ['JSONEachRow', ''], ['Parquet', 'no'], ['Native', 'no'], ['CSV', '1,2,2024-02-29 12:00:00\n\nDROP TABLE t;\n']
  ]
  const gone = 'INSERT INTO nope FORMAT CSV'
  const bodies: Asks = into.flatMap(([format, body]): Asks => [[{ ...SPACE, wait_end_of_query: '1' }, { query: `INSERT INTO filled FORMAT ${format}`, body }]])
  return [
    [SPACE, 'CREATE TABLE filled (n UInt32, s String, t DateTime64(3, \'UTC\')) ENGINE = MergeTree ORDER BY n SETTINGS non_replicated_deduplication_window = 100'], ...bodies,
    [SPACE, 'INSERT INTO filled VALUES (20, \'x\', \'2024-02-29\')'], [SPACE, 'INSERT INTO filled (n) VALUES (21)'], [SPACE, 'INSERT INTO filled (nope) VALUES (21)'], [SPACE, 'INSERT INTO filled FORMAT CSV\n22,y,2024-02-29 12:00:00\n'], [SPACE, 'INSERT INTO filled SELECT 23, \'z\', now64()'],
    [SPACE, { query: gone, body: '1' }], [SPACE, { query: 'INSERT INTO filled' }], [SPACE, { query: 'INSERT INTO filled VALUES' }], [SPACE, { method: 'GET', query: 'INSERT INTO filled VALUES (1)' }],
    [{ ...SPACE, insert_deduplication_token: 'one' }, { query: 'INSERT INTO filled (n) FORMAT TSV', body: '30\n' }], [{ ...SPACE, insert_deduplication_token: 'one' }, { query: 'INSERT INTO filled (n) FORMAT TSV', body: '31\n' }],
    [{ ...SPACE, input_format_skip_unknown_fields: '1' }, { query: 'INSERT INTO filled FORMAT JSONEachRow', body: '{"n":32,"unknown":1}' }], [{ ...SPACE, input_format_allow_errors_num: '1' }, { query: 'INSERT INTO filled (n) FORMAT CSV', body: '33\nx\n34\n' }],
    [{ ...SPACE, date_time_input_format: 'best_effort' }, { query: 'INSERT INTO filled FORMAT JSONEachRow', body: '{"n":35,"t":"2024-02-29T12:00:00Z"}' }], [{ ...SPACE, async_insert: '1', wait_for_async_insert: '1' }, { query: 'INSERT INTO filled (n) FORMAT TSV', body: '36\n' }],
    [{ ...SPACE, param_n: '37' }, 'INSERT INTO filled (n) VALUES ({n:UInt32})'], [{ ...SPACE, param_t: 'filled' }, { query: 'INSERT INTO {t:Identifier} (n) FORMAT TSV', body: '38\n' }], [SPACE, 'INSERT INTO FUNCTION null(\'a UInt8\') VALUES (1)'],
    [SPACE, 'SELECT n, s FROM filled ORDER BY n, s FORMAT TSV'], [SPACE, 'SELECT count() FROM filled']
  ]
}

function compression (): Asks {
  const query = 'SELECT repeat(\'abc\', 1000) FROM numbers(100)'
  const accepts = ['gzip', 'deflate', 'br', 'zstd', 'xz', 'lz4', 'snappy', 'bz2', 'identity', '*', 'gzip, deflate, br', 'gzip;q=0', 'nope', 'br;q=1.0, gzip;q=0.8', 'zstd, gzip']
  const outs = accepts.flatMap((accept): Asks => [
    [{ enable_http_compression: '1' }, { body: query, headers: { 'accept-encoding': accept } }], [{}, { body: query, headers: { 'accept-encoding': accept } }], [{ enable_http_compression: '1' }, { body: 'SELECT nope', headers: { 'accept-encoding': accept } }]
  ])
  const encoders: Array<[string, (text: Buffer) => Buffer]> = [['gzip', zlib.gzipSync], ['deflate', zlib.deflateSync], ['br', zlib.brotliCompressSync], ['zstd', zlib.zstdCompressSync]]
  const ins = encoders.flatMap(([encoding, encode]): Asks => [
    [{}, { body: encode(Buffer.from('SELECT 5')), headers: { 'content-encoding': encoding } }], [SPACE, { query: 'INSERT INTO filled (n) FORMAT TSV', body: encode(Buffer.from('50\n51\n')), headers: { 'content-encoding': encoding } }]
  ])
  return [
    ...outs, ...ins, [{}, { body: 'no gzip', headers: { 'content-encoding': 'gzip' } }], [{}, { body: 'SELECT 1', headers: { 'content-encoding': 'nope' } }], [{}, { body: 'SELECT 1', headers: { 'content-encoding': 'identity' } }],
    [{ compress: '1' }, query], [{ compress: '1' }, 'SELECT nope'], [{ compress: '1', default_format: 'Native' }, query], [{ decompress: '1' }, 'no block'],
    [{ compress: '1', enable_http_compression: '1' }, { body: query, headers: { 'accept-encoding': 'gzip' } }], [{ enable_http_compression: '1', http_zlib_compression_level: '9' }, { body: query, headers: { 'accept-encoding': 'gzip' } }], [SPACE, 'SELECT n FROM filled WHERE n >= 50 ORDER BY n']
  ]
}

function settings (): Asks {
  const cases: Array<Record<string, string>> = [
    { max_threads: '1' }, { max_threads: 'x' }, { max_threads: '' }, { nope: '1' }, { max_result_rows: '1', result_overflow_mode: 'throw' }, { max_execution_time: '0.5' }, { readonly: '1' }, { readonly: '2' }, { output_format_json_quote_64bit_integers: '1' },
    { session_timezone: 'Asia/Tokyo' }, { session_timezone: 'Mars/Base' }, { query_id: 'mine' }, { query_id: '' }, { database: 'nope' }, { database: '' }, { default_format: 'Nope' }, { wait_end_of_query: '1' }, { buffer_size: '100' }, { send_progress_in_http_headers: '1' },
    { http_write_exception_in_output_format: '1', default_format: 'JSON' }, { log_comment: 'x' }, { limit: '1' }, { offset: '1' }, { stacktrace: '1' }, { final: '1' }, { max_block_size: '1' }, { extremes: '1', default_format: 'JSON' }, { profile: 'default' }, { profile: 'nope' },
    { http_response_headers: '{\'X-Mine\': \'1\'}' }, { date_time_output_format: 'iso' }, { add_http_cors_header: '1' }, { add_http_cors_header: '0' }, { cancel_http_readonly_queries_on_client_close: '1' }, { allow_experimental_analyzer: '0' }, { 'a=1': '2' }, { compile_expressions: 'maybe' },
    { client_protocol_version: '54460', default_format: 'Native' }, { output_format_pretty_color: '0', default_format: 'Pretty' }, { http_max_fields: '1' }, { use_client_time_zone: '1' }, { quota_key: 'x' }
  ]
  const query = 'SELECT number AS n, toDateTime(1709208000) AS t FROM numbers(3) ORDER BY n'
  return [
    ...cases.map((params): [Record<string, string>, string] => [params, query]), ...['INSERT INTO filled (n) VALUES (70)', 'SET max_threads = 1', 'DROP TABLE filled_nope'].map((text): [Record<string, string>, string] => [{ ...SPACE, readonly: '1' }, text]),
    [{ http_write_exception_in_output_format: '1', default_format: 'JSON' }, 'SELECT nope'], [{}, { body: query, headers: { 'x-clickhouse-database': 'nope' } }], [{}, { body: 'SELECT currentDatabase()', headers: { 'x-clickhouse-database': 'compared' } }],
    [{ database: 'shop' }, { body: 'SELECT currentDatabase()', headers: { 'x-clickhouse-database': 'compared' } }], [{ default_format: 'CSV' }, { body: query, headers: { 'x-clickhouse-format': 'TSKV' } }]
  ]
}

function sessions (): Asks {
  const session = { session_id: 'compared', ...SPACE }
  return [
    [{ ...session, session_check: '1' }, 'SELECT 1'], [session, 'CREATE TEMPORARY TABLE held (a UInt8)'], [session, { query: 'INSERT INTO held VALUES', body: '(1)' }], [session, 'SELECT * FROM held'], [{ ...session, session_check: '1' }, 'SELECT count() FROM held'],
    [SPACE, 'SELECT * FROM held'], [session, 'SET max_block_size = 7'], [session, 'SELECT getSetting(\'max_block_size\')'], [SPACE, 'SELECT getSetting(\'max_block_size\') = 7'], [session, 'USE shop'], [{ session_id: 'compared' }, 'SELECT currentDatabase()'], [{ session_id: 'compared' }, 'SET param_x = 5'],
    [{ session_id: 'compared' }, 'SELECT {x:UInt8}'], [{ session_id: 'compared', session_timeout: 'x' }, 'SELECT 1'], [{ session_id: 'compared', session_timeout: '99999' }, 'SELECT 1'], [{ session_id: '', session_check: '1' }, 'SELECT 1'], [{ session_id: 'compared', close_session: '1' }, 'SELECT 1'], [{ session_id: 'compared', session_check: '1' }, 'SELECT 1']
  ]
}

const ERRORS = [
  'selct 1', 'SELECT', 'SELECT FROM', 'SELECT nope', 'SELECT nope()', 'SELECT plusx(1, 2)', 'SELECT plus(1)', 'SELECT * FROM nope', 'SELECT * FROM nope.nope', 'SELECT \'a\' + 1', 'SELECT toUInt8(\'x\')', 'SELECT 1 FROM numbers(1) GROUP BY nope', 'SELECT throwIf(1, \'boom\')', 'SELECT intDiv(1, 0)',
  'SELECT sum(number), number FROM numbers(2)', 'SELECT CAST(\'x\', \'UUID\')', 'SELECT CAST(1, \'Nope\')', 'CREATE TABLE broken (a Nope) ENGINE Memory', 'CREATE TABLE broken (a UInt8) ENGINE Nope', 'CREATE TABLE broken (a UInt8) ENGINE MergeTree', 'CREATE TABLE broken', 'DROP TABLE nope', 'DROP DATABASE nope', 'ALTER TABLE nope ADD COLUMN a UInt8',
  'SELECT * FROM numbers(1) WHERE \'x\'', 'SELECT (SELECT number FROM numbers(2))', 'SELECT 1 FORMAT Nope', 'SELECT 1 SETTINGS nope = 1', 'SET nope = 1', 'USE nope', 'SHOW CREATE TABLE nope', 'DESCRIBE nope', 'SELECT arrayJoin(1)', 'SELECT if(1, \'a\', 1, 2)', 'SELECT * FROM url(\'http://127.0.0.1:1/\', CSV, \'a UInt8\')', 'SELECT dictGet(\'nope\', \'a\', 1)',
  'SELECT max(a) OVER nope FROM (SELECT 1 AS a)', 'SELECT * FROM (SELECT 1 AS a) JOIN (SELECT 1 AS b) USING (a)', 'SELECT JSONExtract(\'{\', \'a\', \'Nope\')', 'SELECT number FROM numbers(10) LIMIT -1 BY x', 'SELECT \'unclosed', 'SELECT `unclosed', 'SELECT /* unclosed', 'SELECT {x:UInt8', 'SELECT 1 UNION SELECT 2', 'SELECT * FROM numbers(1000000000000) SETTINGS max_rows_to_read = 10',
  'SELECT sleep(4)', 'SELECT count() FROM numbers(100000000000) SETTINGS max_execution_time = 0.2', 'SELECT groupArray(number) FROM numbers(100000000) SETTINGS max_memory_usage = 10000000', 'CREATE USER nobody', 'GRANT SELECT ON *.* TO nope', 'SHOW USERS', 'BACKUP TABLE nope TO Disk(\'nope\', \'x\')', 'EXPLAIN nope', 'KILL MUTATION WHERE 1 = 0', 'INSERT INTO nope SELECT 1', 'ATTACH TABLE nope', 'SELECT * FROM remote(\'127.0.0.1:1\', system.one)',
  'SELECT hostName(', 'SELECT 1 AS a, 2 AS a', 'SELECT toDateTime(\'x\')', 'SELECT * FROM system.nope', 'SELECT a.b.c.d', 'SELECT 1::Nope', 'SELECT max(1, 2, 3)', 'SELECT quantile(2)(1)', 'EXCHANGE TABLES a AND b', 'SYSTEM NOPE', 'SELECT getSetting(\'nope\')', 'SELECT * FROM file(\'nope.csv\')', 'SELECT ignore(*) FROM generateRandom(\'a Nope\')'
]

function errors (): Asks {
  return [...plain(ERRORS), ...plain(ERRORS.slice(0, 12), { wait_end_of_query: '1', default_format: 'JSON' })]
}

/** After what a server sends at once; it says so at the end of the rows. */
function lateErrors (): Asks {
  const query = 'SELECT number, throwIf(number = 3000000, \'boom\') AS x FROM numbers(10000000)'
  return ['TSV', 'JSONEachRow', 'JSON', 'CSV', 'RowBinary'].flatMap((format): Asks => [
    [{ max_threads: '1', wait_end_of_query: '1' }, `${query} FORMAT ${format}`],
    [{ max_threads: '1', http_write_exception_in_output_format: '1', wait_end_of_query: '1' }, `${query} FORMAT ${format}`]
  ])
}
