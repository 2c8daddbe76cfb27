import t from 'tap'
import { LEDGER_TABLE, ledgerKey, toLedgerRow } from '../../schema/wire/ledger.ts'
import { createTestClickHouse } from '../../test/support/test-stores.ts'
import { type Captured, startApi } from '../testing/run-captured.ts'

const clickhouse = await createTestClickHouse(t)
const api = await startApi(t, { clickhouse: clickhouse.client })

async function run (line: string): Promise<Captured> {
  return await api.run(...`projects ${line}`.split(' '))
}

t.test('a quota is set by parts, shown and cleared', async (t) => {
  t.match(JSON.parse((await run('quota show 1 --json')).out), { events_per_second: null, events_per_month: null, beyond: 'reject', month: null })
  t.match((await run('quota set 1 --per-second 50 --per-month 1000000')).out, /events_per_second +50\nburst +500\nevents_per_month +1000000\nbeyond +reject\n/)
  t.match(JSON.parse((await run('quota set 1 --per-second none --beyond sample --sample-rate .25 --json')).out), {
    events_per_second: null, burst: null, events_per_month: 1_000_000, beyond: 'sample', sample_rate: 0.25
  })
  t.match((await run('quota clear 1')).out, /events_per_month +-\n/)
  for (const [line, why] of [
    ['quota show 9', /no project 9/],
    ['quota set 9 --per-second 1', /no project 9/],
    ['quota clear 9', /no project 9/],
    ['quota set 1', /at least one of/],
    ['quota set 1 --beyond sample', /beyond needs events_per_second or events_per_month/],
    ['quota set 1 --per-month none --sample-rate 0.5', /sample_rate needs/],
    ['quota set 1 --burst 5', /burst needs events_per_second/],
    ['quota set 1 --per-second 0', /at least 1/],
    ['quota set 1 --per-second 99999999', /at most 10000000/],
    ['quota set 1 --per-month 5 --beyond stop', /reject or sample/],
    ['quota set 1 --per-month 5 --sample-rate 1', /below 1/],
    ['usage 9', /no project 9/]
  ] as const) {
    const { code, err } = await run(line)
    t.not(code, 0, line)
    t.match(err, why, line)
  }
})

t.test('usage by day', async (t) => {
  const minute = Math.floor(Date.now() / 60_000)
  const entry = { source: 'a', accepted: 9, replayed: 0, duplicates: 2, deadLettered: 1 }
  await clickhouse.client.insert({
    table: LEDGER_TABLE, format: 'JSONEachRow', values: [toLedgerRow(ledgerKey(1, minute), entry)]
  })

  const days = JSON.parse((await run('usage 1 --days 2 --json')).out) as { events: number }[]
  t.equal(days.length, 2)
  t.equal(days.reduce((sum, { events }) => sum + events, 0), 6)
  t.match((await run('usage 1 --days 2')).out, /^day +events +duplicates +dead-lettered/)
})
