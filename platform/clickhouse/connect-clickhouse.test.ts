import t from 'tap'
import { createTestClickHouse } from '../../test/support/test-stores.ts'
import { classifyClickHouseError, CLICKHOUSE_ERRORS } from './clickhouse-errors.ts'
import {
  connectClickHouse, onCluster, onEachReplica, onEachShard, queryRows, systemTable
} from './connect-clickhouse.ts'

/** A name that has to be quoted. */
const CLUSTER = "mill'race"

t.test('the engine parses what reaches every node of a cluster', async (t) => {
  const { client } = await createTestClickHouse(t)

  for (const query of [
    `DELETE FROM events ${onCluster(CLUSTER)} WHERE project_id = 1`,
    `ALTER TABLE events ${onCluster(CLUSTER)} DELETE WHERE project_id = 1`,
    `ALTER TABLE events ${onCluster(CLUSTER)} DROP PARTITION 202601`,
    `SELECT count() FROM ${onEachShard(CLUSTER, 'events')} WHERE project_id = 1 SETTINGS final = 0`,
    `SELECT count() FROM ${onEachReplica(CLUSTER, 'events')} WHERE project_id = 1 SETTINGS final = 0`,
    `SELECT partition FROM ${systemTable(CLUSTER, 'parts')}`
  ]) {
    const answer = await client.query({ query: `EXPLAIN AST ${query}`, format: 'TabSeparated' })
    t.match(await answer.text(), /\w/, query)
    t.match(query, /'mill\\'race'/)
  }
})

t.test('names every code as ClickHouse does', async (t) => {
  const { client } = await createTestClickHouse(t)
  const codes = Object.keys(CLICKHOUSE_ERRORS).filter((code) => code !== '0')

  const result = await client.query({
    query: `SELECT code, errorCodeToName(toInt32(code)) FROM (SELECT arrayJoin([${codes.join(', ')}]) AS code)`,
    format: 'JSONCompactEachRow'
  })

  for (const [code, name] of await result.json<[number, string]>()) t.equal(CLICKHOUSE_ERRORS[code]?.name, name)
})

const CASES = [
  { what: 'no answer', code: 0, text: 'connect ECONNREFUSED', action: 'retry' },
  { what: 'load', code: 202, text: 'Too many simultaneous queries', action: 'retry' },
  { what: 'memory', code: 241, text: 'Memory limit exceeded', action: 'retry' },
  { what: 'disk', code: 243, text: 'Cannot reserve 1.00 MiB, not enough space', action: 'retry' },
  { what: 'Keeper', code: 999, text: 'Coordination error: Connection loss', action: 'retry' },
  { what: 'a read-only replica', code: 242, text: 'Table is in readonly mode', action: 'retry' },
  { what: 'a missing table', code: 60, text: 'Table events does not exist', action: 'repair' },
  { what: 'rights', code: 497, text: 'Not enough privileges', action: 'repair' },
  { what: 'too many parts', code: 252, text: 'Too many parts (3000 with average size of 1 MiB)', action: 'retry' },
  {
    what: 'too many months in one insert', code: 252,
    text: 'Too many partitions for single INSERT block (more than 100)', action: 'refuse'
  },
  { what: 'a broken value', code: 27, text: 'Cannot parse input', action: 'refuse' },
  { what: 'another type', code: 53, text: 'Type mismatch', action: 'mismatch' },
  { what: 'an unknown column', code: 16, text: 'No such column', action: 'mismatch' },
  { what: 'a block that ends too early', code: 32, text: 'Attempt to read after eof', action: 'mismatch' },
  {
    what: 'a node that was killed while it stored its rows', code: 32, action: 'retry',
    text: 'Attempt to read after eof: while receiving packet from 127.0.0.1:9000, local address: 127.0.0.1:33966: Insertion status:\nWrote 1 blocks'
  },
  { what: 'a broken frame', code: 561, text: 'ZSTD stream decoding failed', action: 'mismatch' },
  { what: 'a constraint', code: 469, text: 'Constraint is violated', action: 'refuse' },
  { what: 'a defect', code: 49, text: 'Block structure mismatch', action: 'unknown' },
  { what: 'a code of the future', code: 4711, text: 'something new', action: 'unknown' }
]

for (const { what, code, text, action } of CASES) {
  t.test(`takes ${what} for: ${action}`, async (t) => {
    t.match(classifyClickHouseError(Object.assign(new Error(text), { clickhouseCode: code })), { action, code })
  })
}

t.test('reads the errors of the client, of its socket, and those that are no answer at all', async (t) => {
  const { client } = await createTestClickHouse(t)
  const nobody = connectClickHouse({ url: 'http://127.0.0.1:1/millrace' })
  t.teardown(async () => await nobody.close())
  const fail = async (asked: Promise<unknown>): Promise<unknown> => await asked.catch((error: unknown) => error)

  const missing = await fail(queryRows(client, 'SELECT * FROM nothing'))
  t.match(classifyClickHouseError(missing), { code: 60, name: 'UNKNOWN_TABLE', action: 'repair', why: /migrated/ })
  const late = await fail(queryRows(client, 'SELECT sleep(3) SETTINGS max_execution_time = 0.2'))
  t.match(classifyClickHouseError(late), { code: 159, action: 'retry' })
  t.match(classifyClickHouseError(await fail(queryRows(nobody, 'SELECT 1'))), { code: 0, action: 'retry', isDown: true })
  t.match(classifyClickHouseError(new TypeError('a is not a function')), { code: -1, action: 'unknown' })
  for (const strange of [undefined, null, 'text', new Error('proxy says no')]) {
    t.match(classifyClickHouseError(strange), { code: 0, action: 'retry' })
  }
})
