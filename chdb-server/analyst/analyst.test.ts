import { writeFileSync } from 'node:fs'
import path from 'node:path'
import t from 'tap'
import { type HttpAnswer, startTestServer } from '../testing/start-test-server.ts'

const server = await startTestServer(t)
const secretPath = path.join(server.dataDir, 'secret.txt')
writeFileSync(secretPath, 'the secret\n')
await server.ask(`CREATE TABLE shop.events (a UInt32, outfile String, url String)
  ENGINE ReplacingMergeTree ORDER BY a SETTINGS non_replicated_deduplication_window = 10`)
await server.ask("INSERT INTO shop.events VALUES (1, 'INTO OUTFILE', 'u')")
await server.ask("INSERT INTO shop.events VALUES (1, 'INTO OUTFILE', 'u'), (2, '', '')")

const ask = async (query: string, params: Record<string, string> = {}): Promise<HttpAnswer> =>
  await server.ask(query, { user: 'analyst', params: { database: 'shop', ...params } })

t.test('counts an event once although a retry stored it twice', async (t) => {
  t.equal((await ask('SELECT count() FROM events')).text, '2\n')
  t.equal((await server.ask('SELECT count() FROM shop.events')).text, '3\n')
})

t.test('answers ordinary queries', async (t) => {
  const queries: Array<[string, string]> = [
    ["SELECT url FROM events WHERE outfile = 'INTO OUTFILE'", 'u\n'],
    ['WITH 1 AS x SELECT x FORMAT TSV', '1\n'],
    ['(SELECT 1) UNION ALL (SELECT 1)', '1\n1\n'],
    ["SELECT format('{}-{}', 'a', 'b'), url('x') FROM (SELECT 1) -- comment", ''],
    ["SELECT format('{}-{}', 'a', 'b')", 'a-b\n'],
    ['SELECT * FROM numbers(2)', '0\n1\n'],
    ['SELECT count() > 10 FROM system.columns', '1\n'],
    ["SELECT name, data_paths, metadata_path FROM system.tables WHERE database = 'shop'", 'events\t[]\t\n'],
    ["SELECT system.tables.name FROM system.tables WHERE system.tables.database = 'shop'", 'events\n'],
    ["SELECT count() > 0, max(path) FROM system.parts WHERE table = 'events'", '1\t\n'],
    ["SELECT name, data_path FROM `system` . `databases` WHERE name = 'shop'", 'shop\t\n'],
    ['EXISTS TABLE events', '1\n'],
    ["SELECT count() FROM system.columns WHERE table = 'events' AND type = 'AggregateFunction(uniq, UInt8)'", '0\n'],
    ["SELECT formatRow('CSV', 1), groupFormatIf('TSV')(number, 1), arrayReduce('sumIf', [1], [1]), count(cast) FROM (SELECT number, 1 AS cast FROM numbers(1))", '1\\n\t0\\n\t1\t1\n'],
    ["SELECT 'file', 'it\\'s \"file\" INFILE $$'", 'file\tit\\\'s "file" INFILE $$\n'],
    ["SELECT 'Outfile' AS `my outfile`", 'Outfile\n'],
    ['EXPLAIN SYNTAX SELECT 1', 'SELECT 1\nFROM system.one\n']
  ]
  for (const [query, expected] of queries) {
    const answer = await ask(query)
    if (expected !== '') t.equal(answer.text, expected, query)
  }
})

t.test('takes the settings that change only the look of a result, and limits below its own', async (t) => {
  const look = await ask('SELECT toUInt64(1) AS n FORMAT JSONEachRow', { output_format_json_quote_64bit_integers: '1' })
  const lower = await ask("SELECT getSetting('max_execution_time')", { max_execution_time: '5', readonly: '2' })
  const higher = await ask("SELECT getSetting('max_execution_time')", { max_execution_time: '5000' })
  const none = await ask("SELECT getSetting('max_execution_time')", { max_execution_time: '0' })

  t.equal(look.text, '{"n":"1"}\n')
  t.equal(lower.text, '5\n')
  t.equal(higher.text, '60\n')
  t.equal(none.text, '60\n')
})

t.test('ends a query that goes beyond the limits', async (t) => {
  const rows = await ask('SELECT number FROM numbers(6000000)', { wait_end_of_query: '1' })
  const seconds = await ask('SELECT count() FROM system.numbers', { max_execution_time: '1' })

  t.match(rows, { code: 396 })
  t.match(seconds, { code: 159, status: 408 })
})

// Each must be refused with READONLY (164) or ACCESS_DENIED (497), as no statement at all (62, 344), or as a table or a
// function that is not there (60, 46).
const FILE = `'${secretPath}'`
const REFUSED: Record<string, string[]> = {
  'writes and definitions': [
    "INSERT INTO events VALUES (3, '', '')",
    'INSERT INTO events FORMAT JSONEachRow {"a":3}',
    'INSERT INTO events SELECT 3, \'\', \'\'',
    `INSERT INTO events FROM INFILE ${FILE} FORMAT LineAsString`,
    'WITH 1 AS x INSERT INTO events SELECT x, \'\', \'\'',
    'DROP TABLE events', 'TRUNCATE TABLE events', 'ALTER TABLE events DELETE WHERE 1', 'DELETE FROM events WHERE 1',
    "UPDATE events SET url = '' WHERE 1", 'OPTIMIZE TABLE events', 'RENAME TABLE events TO e', 'DETACH TABLE events',
    'EXCHANGE TABLES events AND e', 'CREATE TABLE x (a UInt8) ENGINE Memory', 'CREATE TEMPORARY TABLE x (a UInt8)',
    'CREATE DATABASE x', 'CREATE VIEW v AS SELECT 1', 'CREATE FUNCTION f AS x -> x', 'CREATE USER u',
    'GRANT SELECT ON *.* TO analyst', 'ATTACH TABLE x', 'UNDROP TABLE events', 'CREATE DICTIONARY d (a UInt8) PRIMARY KEY a'
  ],
  'changes of the session': [
    'SET readonly = 0', 'SET max_execution_time = 1000', 'SET final = 0', 'SELECT 1 SETTINGS readonly = 0',
    'SELECT 1 SETTINGS max_memory_usage = 0', 'USE system', 'USE `system`',
    'USE chdb_server'
  ],
  'several statements': [
    'SELECT 1; DROP TABLE events', 'SELECT 1;;DROP TABLE events', '/* ; */ SELECT 1; SET readonly = 0',
    "SELECT ';'; SELECT 2", 'SELECT 1;\n\nDROP TABLE events'
  ],
  'files of the machine': [
    `SELECT file(${FILE})`, `SELECT \`file\`(${FILE})`, `SELECT "file" (${FILE})`, `SELECT file/**/(${FILE})`,
    `SELECT arrayMap(file, [${FILE}])`, `SELECT * APPLY(file) FROM (SELECT ${FILE})`, `SELECT “file”(${FILE})`,
    `SELECT * FROM file(${FILE}, LineAsString)`, `DESCRIBE file(${FILE}, LineAsString)`, `DESC TABLE file(${FILE})`,
    `EXPLAIN SELECT * FROM file(${FILE}, LineAsString)`, `SELECT * FROM view(SELECT * FROM file(${FILE}, LineAsString))`,
    `SELECT * FROM eval('SELECT file(${FILE.replaceAll("'", "\\'")})')`, `SELECT 1 INTO OUTFILE '${secretPath}.out'`,
    `SELECT 1 INTO/**/OUTFILE '${secretPath}.out'`, `SELECT 1 into\noutfile '${secretPath}.out' FORMAT TSV`,
    `(SELECT 1) INTO OUTFILE '${secretPath}.out' TRUNCATE`, `EXPLAIN SELECT 1 INTO OUTFILE '${secretPath}.out'`,
    `SHOW DATABASES INTO OUTFILE '${secretPath}.out'`, `SELECT * FROM filesystem(${FILE})`, `SELECT * FROM sqlite(${FILE}, 'a')`,
    'SELECT * FROM executable(\'cat\', TSV, \'a String\')', `SELECT * FROM icebergLocal(${FILE})`,
    `DESCRIBE deltaLakeLocal(${FILE})`, `SELECT * FROM fileCluster('default', ${FILE}, LineAsString)`
  ],
  'names with escapes': [
    `SELECT \`\\x66ile\`(${FILE})`, `SELECT "\\x66ile"(${FILE})`, `SELECT \`\\146ile\`(${FILE})`, `SELECT \`f\\ile\`(${FILE})`,
    `SELECT arrayMap(\`f\\x69le\`, [${FILE}])`, `SELECT * APPLY \`f\\x69le\` FROM (SELECT ${FILE})`,
    'SELECT * FROM `shop\\x5ffront`.query_log', 'SELECT * FROM `s\\x79stem`.processes', 'SELECT * FROM system.`pro\\x63esses`',
    "DESCRIBE `\\x75rl`('http://127.0.0.1:1/')", "DESCRIBE TABLE `\\x75rl`('http://127.0.0.1:1/')", 'USE `s\\x79stem`',
    'USE `shop\\x5ffront`', "SELECT `\\x66ile`('/proc/self/environ')", 'SHOW TABLES FROM `shop\\x5ffront`',
    'SELECT 1 AS `\\x61`', 'SELECT * FROM `defau\\x6ct`.`/etc/passwd`'
  ],
  'files that look like tables': [
    `SELECT * FROM ${FILE}`, `SELECT * FROM \`${secretPath}\``, `SELECT * FROM default.\`${secretPath}\``,
    `SELECT * FROM "default"."${secretPath}"`, `DESCRIBE default.\`${secretPath}\``, `EXISTS default.\`${secretPath}\``,
    `SELECT 1 IN default.\`${secretPath}\``, 'USE default', 'SHOW TABLES FROM default', 'SELECT * FROM `default.x`'
  ],
  'what settings and formats of a statement reach': [
    `SELECT 1 SETTINGS format_schema = ${FILE} FORMAT Protobuf`, `SELECT 1 SETTINGS output_format_schema = ${FILE}`,
    'SELECT * FROM (SELECT 1 SETTINGS max_execution_time = 0)', 'SELECT (SELECT 1 SETTINGS readonly = 0)',
    'WITH x AS (SELECT 1 SETTINGS allow_ddl = 1) SELECT * FROM x', 'SELECT 1 FORMAT Template', 'SELECT 1 FORMAT Protobuf',
    'SELECT 1 FORMAT CapnProto',
    "SELECT formatRow('Protobuf', 1)", "SELECT formatRow(concat('Proto', 'buf'), 1)", "SELECT groupFormat('Template')(number) FROM numbers(2)", 'EXPLAIN SELECT 1 SETTINGS profile = 1'
  ],
  'formats, aggregate functions and types named by other than a literal in its place': [
    "WITH 'Protobuf' AS x SELECT formatRow(x, 1)", "WITH 'Protobuf' AS CSV SELECT formatRow(CSV, 1)", "SELECT formatRow('Protobuf'::String, 1)",
    "SELECT formatRow(('Protobuf' AS y), 1)", "SELECT 'Protobuf' AS CSV, formatRowNoNewline(CSV, 1)", "SELECT formatRow(if(1, 'Protobuf', 'CSV'), 1)",
    "SELECT groupFormatIf('Protobuf')(number, 1) FROM numbers(2)", "SELECT groupFormatArray('Protobuf')([number]) FROM numbers(2)",
    "SELECT hex(groupFormatState('Protobuf')(number)) FROM numbers(2)", "SELECT groupFormatOrNullIf('Protobuf')(number, 1) FROM numbers(2)",
    "SELECT GROUPFORMATIF('Protobuf')(number, 1) FROM numbers(2)", "SELECT * APPLY groupFormatIf('Protobuf') FROM numbers(2)",
    "SELECT arrayReduce('groupFormat(\\'Protobuf\\')', [1])", "SELECT arrayReduce('groupFormatIf(\\'Protobuf\\')', [1], [1])",
    "SELECT arrayReduceInRanges('groupFormat(\\'Protobuf\\')', [(1, 2)], [1, 2])", "SELECT initializeAggregation('groupFormatState(\\'Protobuf\\')', 1)",
    "WITH 'groupFormat(\\'Protobuf\\')' AS sum SELECT arrayReduce(sum, [1])", "SELECT arrayMap(formatRow, ['Protobuf'], [1])", "SELECT arrayMap(arrayReduce, ['sum'], [[1]])",
    "SELECT finalizeAggregation(CAST(unhex('00'), 'AggregateFunction(groupFormat(\\'Protobuf\\'), UInt8)'))",
    "SELECT unhex('00')::AggregateFunction(groupFormatIf('Protobuf'), UInt8, UInt8)", "SELECT CAST(unhex('00'), concat('Aggregate', 'Function(sum, UInt8)'))",
    "SELECT accurateCastOrNull(unhex('00'), concat('Aggregate', 'Function(sum, UInt8)'))", "SELECT * FROM values('a AggregateFunction(1, groupFormat(\\'Protobuf\\'), UInt8)', '')",
    "SELECT url('http://127.0.0.1:1/')", "WITH 'http://127.0.0.1:1/' AS x SELECT * FROM url(x, LineAsString)", `WITH ${FILE} AS x SELECT file(x)`, `SELECT * FROM file(concat(${FILE}, ''), LineAsString)`
  ],
  'the network': [
    "SELECT * FROM url('http://127.0.0.1:1/', LineAsString)", "DESCRIBE url('http://127.0.0.1:1/x.json')",
    "DESCRIBE TABLE `url`('http://127.0.0.1:1/x.json')", "SELECT * FROM s3('http://127.0.0.1:1/bucket/x', 'TSV', 'a String')",
    "DESCRIBE s3('http://127.0.0.1:1/bucket/x.csv')", "SELECT * FROM remote('127.0.0.1:9', system.one)",
    "SELECT * FROM remoteSecure('127.0.0.1:9', system.one)", "SELECT * FROM mysql('127.0.0.1:1', 'a', 'b', 'c', 'd')",
    "SELECT * FROM postgresql('127.0.0.1:1', 'a', 'b', 'c', 'd')", "SELECT * FROM redis('127.0.0.1:1', 'k', 'k String')",
    "SELECT * FROM mongodb('127.0.0.1:1', 'a', 'b', 'c', 'd', 'e String')", "SELECT * FROM cluster('default', system.one)",
    "SELECT * FROM hdfs('hdfs://127.0.0.1:1/x', 'TSV', 'a String')", "SELECT reverseDNSQuery('1.1.1.1')",
    "SELECT aiGenerate('x')", "BACKUP TABLE events TO S3('http://127.0.0.1:1/bucket/x')"
  ],
  'the machine and other people': [
    'SELECT * FROM system.query_log', 'SELECT * FROM chdb_server.all_processes', 'SELECT * FROM chdb_server.running_queries', 'SELECT * FROM system.disks', 'SELECT * FROM `system`.`disks`', 'SELECT * FROM "system"."disks"',
    'SELECT * FROM system.server_settings', 'SELECT * FROM system.stack_trace', 'SELECT * FROM system.detached_parts',
    'SELECT * FROM system.build_options', 'SELECT * FROM system /* x */ . disks', 'SELECT * FROM system.merges',
    'SELECT count() FROM events WHERE 1 IN (SELECT 1 FROM system.query_log)', "SELECT * FROM merge('system', 'disks')",
    'DESCRIBE system.disks', 'SHOW CREATE TABLE system.disks', 'SELECT * FROM chdb_server.query_log',
    'SELECT * FROM loop(system.disks)', "SELECT * FROM dictionary('x')", 'SELECT * FROM system.query_log'
  ],
  commands: [
    'KILL QUERY WHERE 1', "KILL QUERY WHERE query_id = 'x'", 'SYSTEM FLUSH LOGS', 'SYSTEM SHUTDOWN', 'SYSTEM STOP MERGES',
    "BACKUP TABLE events TO File('x')", 'CHECK TABLE events', 'BEGIN TRANSACTION', 'exit', 'quit;', ':q', '\\q', ''
  ]
}

for (const [what, queries] of Object.entries(REFUSED)) {
  t.test(`refuses ${what}`, async (t) => {
    for (const query of queries) {
      const answer = await ask(query)
      t.ok([46, 60, 164, 497, 62, 344, 48].includes(answer.code), `${query} => ${answer.code}`, { answer: answer.text })
      t.notMatch(answer.text, 'the secret')
    }
  })
}

t.test('refuses what is hidden in parameters, settings and the database', async (t) => {
  const hidden = [
    await ask('SELECT * FROM {d:Identifier}.{t:Identifier}', { param_d: 'system', param_t: 'disks' }),
    await ask('SELECT * FROM system.{t:Identifier}', { param_t: 'query_log' }),
    await ask('SELECT * FROM disks', { database: 'system' }),
    await ask('SELECT * FROM {t:Identifier}', { param_t: secretPath, database: 'default' }),
    await ask('SELECT {f:Identifier}({p:String})', { param_f: 'file', param_p: secretPath }),
    await ask('SELECT arrayMap({f:Identifier}, [{p:String}])', { param_f: 'file', param_p: secretPath }),
    await ask('SELECT * FROM {d:Identifier}.disks', { param_d: 's\\x79stem' }),
    await ask('SELECT 1', { default_format: 'Template' }),
    await ask('SELECT formatRow({f:String}, 1)', { param_f: 'Protobuf' }),
    await ask("SELECT finalizeAggregation({s:AggregateFunction(groupFormat('Protobuf'), UInt8)})", { param_s: 'x' }),
    await ask('SELECT 1', { default_format: 'CapnProto', output_format_schema: `${secretPath}.out` }),
    await ask('SELECT 1', { format_schema: secretPath }),
    await ask('SELECT 1', { final: '0', readonly: '0' }),
    await ask('SELECT 1', { log_comment: 'x', allow_ddl: '1' })
  ]
  for (const answer of hidden) t.ok([60, 62, 164, 497].includes(answer.code), answer.text)
  const masked = await ask('SELECT max(path) FROM {d:Identifier}.{t:Identifier}', { param_d: 'system', param_t: 'parts' })
  t.equal(masked.text, '\n')
})

t.test('takes the filters by table that a dashboard adds', async (t) => {
  const filtered = async (filters: string, query = 'SELECT a FROM events ORDER BY a'): Promise<string> => (await ask(`${query} settings additional_table_filters={${filters}}`)).text
  await server.ask('CREATE VIEW shop.shown AS SELECT a, url FROM shop.events')
  t.teardown(async () => await server.ask('DROP VIEW shop.shown'))

  t.equal(await filtered("'events' : ' url = \\'u\\' '"), '1\n')
  t.equal(await filtered("'shop.events' : ' a >= 1 AND url ILIKE \\'%u%\\' '"), '1\n')
  t.equal(await filtered("'events' : 'outfile = \\'INTO OUTFILE\\' OR url IN (\\'größe\\', \\'it\\\\\\'s\\')', 'shown': 'a = 5'"), '1\n')
  t.equal(await filtered("'shown' : 'a = 2'", 'SELECT a FROM shown'), '2\n')
  t.equal(await filtered("'events' : '(a IS DISTINCT FROM 2) AND (url = \\'u\\')'"), '1\n')
  t.equal(await filtered("'events' : 'a IS NOT DISTINCT FROM 2 -- the second'"), '2\n')
  t.equal(await filtered(''), '1\n2\n')
  t.equal((await ask("SELECT a FROM events SETTINGS max_threads = 1, additional_table_filters = {'events': 'a = 2'}, final = 1 FORMAT TSV")).text, '2\n')
})

t.test('refuses filters by table that are more than a condition on a table of the owner', async (t) => {
  const conditions = [
    `file(${FILE}) != ''`, 'a IN (SELECT 1 FROM system.query_log)', '1) FORMAT Protobuf --', 'a = 1 SETTINGS final = 0', 'a = 1) UNION ALL SELECT (1', "formatRow('Protobuf', a) = ''",
    'sleep(3) = 0', 'a = {x:UInt8}', 'nonsense(a)', '1; SELECT 2', 'editDistance(url, url) = 0', "dictGet('x', 'y', a) = 1", ')(',
    'a = 1) OR (1 = 1', 'a = 1] OR [1 = 1', 'a = 1) OR [1 = 1', 'a IN (SELECT DISTINCT a FROM system.query_log)'
  ].map((condition) => `{'events': '${condition.replaceAll(/['\\]/g, '\\$&')}'}`)
  const maps = [
    ...conditions, "{'system.tables': 'data_paths[1] != \\'\\''}", "{'chdb_server.query_log': '1'}", "{'default.x': '1'}", "{'a b': '1'}", "{'events': concat('1', '')}",
    "'{\\'events\\': \\'1\\'}'", "{'events': 1}", "map('events', '1')"
  ]
  maps.push(`{${"'events':'1',".repeat(100)}'events':'1'}`)
  for (const map of maps) t.ok([497, 62, 46].includes((await ask(`SELECT a FROM events SETTINGS additional_table_filters = ${map}`)).code), map)
  t.match(await ask("SELECT * FROM (SELECT a FROM events SETTINGS additional_table_filters = {'events': '0'})"), { code: 497 })
  t.match(await ask('SELECT a FROM events', { additional_table_filters: "{'events': '1'}" }), { code: 164 })
})

t.test('leaves nothing behind that a refused statement would have made', async (t) => {
  const tables = await server.ask("SELECT name FROM system.tables WHERE database = 'shop' ORDER BY name")
  const rows = await server.ask('SELECT count() FROM shop.events')

  t.equal(tables.text, 'events\n')
  t.equal(rows.text, '3\n')
})

t.test('still serves the analyst after all that', async (t) => {
  t.equal((await ask('SELECT count() FROM events')).text, '2\n')
})
