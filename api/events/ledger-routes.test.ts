import { randomUUID } from 'node:crypto'
import t from 'tap'
import { connectClickHouse } from '../../platform/clickhouse/connect-clickhouse.ts'
import { toWarningRow, WARNINGS_TABLE } from '../../schema/wire/ingestion-warnings.ts'
import { LEDGER_TABLE, ledgerKey, toLedgerRow } from '../../schema/wire/ledger.ts'
import { freePort } from '../../test/support/local-ports.ts'
import { createTestClickHouse } from '../../test/support/test-stores.ts'
import { createTestApi } from '../testing/create-test-api.ts'

const MINUTE = Math.floor(Date.now() / 60_000) - 10

t.test('lists the books of the project by minute, newest first, beside the stored rows', async (t) => {
  const { client } = await createTestClickHouse(t)
  const api = await createTestApi(t, { clickhouse: client })
  const entry = { source: 'a', accepted: 9, replayed: 1, duplicates: 3, deadLettered: 2 }
  const at = (minute: number): string => new Date(minute * 60_000).toISOString()
  await client.insert({
    table: LEDGER_TABLE,
    format: 'JSONEachRow',
    values: [
      toLedgerRow(ledgerKey(api.projectId, MINUTE), { ...entry, accepted: 7 }),
      toLedgerRow(ledgerKey(api.projectId, MINUTE), entry),
      toLedgerRow(ledgerKey(api.projectId, MINUTE), { ...entry, source: 'b' }),
      toLedgerRow(ledgerKey(api.projectId, MINUTE + 1), entry),
      toLedgerRow(ledgerKey(api.projectId + 1, MINUTE), entry)
    ]
  })
  const dropped = { projectId: api.projectId, minute: MINUTE * 60_000, count: 4, samples: [] }
  await client.insert({
    table: WARNINGS_TABLE,
    format: 'JSONEachRow',
    values: [
      toWarningRow('p', { ...dropped, reason: 'missing_event_name' }), toWarningRow('p', { ...dropped, reason: 'uuid_invalid' })
    ]
  })
  await client.insert({
    table: 'events',
    format: 'JSONEachRow',
    values: [0, 59_999].map((ms) => new Date(MINUTE * 60_000 + ms).toISOString().slice(0, 23)).map((time) => ({
      project_id: api.projectId, uuid: randomUUID(), event: 'e', distinct_id: 'u', timestamp: time, received_at: time
    }))
  })

  const { body } = await api.call('GET', '~/ledger/')
  t.strictSame(body, {
    count: 2,
    next: null,
    previous: null,
    results: [
      {
        minute: at(MINUTE + 1),
        ...{ accepted: 9, replayed: 1, duplicates: 3, dead_lettered: 2, deleted: 0, balance: 5, stored: 0, dropped: 0 }
      },
      {
        minute: at(MINUTE),
        ...{ accepted: 18, replayed: 2, duplicates: 6, dead_lettered: 4, deleted: 0 },
        ...{ balance: 10, stored: 2, dropped: 4 }
      }
    ]
  })
  const minutes = async (query: string): Promise<unknown> =>
    (await api.call('GET', `~/ledger/?${query}`)).body.results.map(({ minute }: { minute: string }) => minute)
  t.strictSame(await minutes(`from=${at(MINUTE + 1)}`), [at(MINUTE + 1)])
  t.strictSame(await minutes(`to=${at(MINUTE + 1)}`), [at(MINUTE)])
  t.strictSame(await minutes('limit=1&offset=1'), [at(MINUTE)])
  t.strictSame(await minutes('to=1000-01-01'), [])
  const { body: newest } = await api.call('GET', '~/ledger/?limit=1')
  await client.insert({ table: LEDGER_TABLE, format: 'JSONEachRow', values: [toLedgerRow(ledgerKey(api.projectId, MINUTE + 2), entry)] })
  const { body: next } = await api.call('GET', newest.next.replace(/^https?:\/\/[^/]+/, ''))
  t.match(next, { count: 3, next: null, results: [{ minute: at(MINUTE), stored: 2 }] }, 'no minute twice when another one begins')
  t.match(await api.call('GET', '~/ledger/?after=W10'), { status: 400, body: { attr: 'after' } })
  t.match(await api.call('GET', '~/ledger/?from=soon'), { status: 400, body: { attr: 'from' } })
})

t.test('says that ClickHouse is unavailable', async (t) => {
  const clickhouse = connectClickHouse({ url: `http://127.0.0.1:${await freePort()}/none` })
  t.teardown(async () => await clickhouse.close())
  const api = await createTestApi(t, { clickhouse })

  t.match(await api.call('GET', '~/ledger/'), { status: 503, body: { code: 'clickhouse_unavailable' } })
})
