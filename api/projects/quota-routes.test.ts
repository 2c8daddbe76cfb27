import t from 'tap'
import { monthOf } from '../../schema/project-quotas.ts'
import { dayOf } from './count-usage.ts'
import { toWarningRow, WARNINGS_TABLE } from '../../schema/wire/ingestion-warnings.ts'
import { LEDGER_TABLE, ledgerKey, toLedgerRow } from '../../schema/wire/ledger.ts'
import { createTestClickHouse } from '../../test/support/test-stores.ts'
import { createTestApi } from '../testing/create-test-api.ts'

/** Noon of yesterday: warnings are kept for 90 days. */
const NOW = dayOf(Date.now()) - 43_200_000

/** Today minus a number of days, `YYYY-MM-DD`. */
function day (before: number): string {
  return new Date(NOW - before * 86_400_000).toISOString().slice(0, 10)
}

const { client } = await createTestClickHouse(t)
const api = await createTestApi(t, { clickhouse: client, now: () => NOW })

const NONE = {
  events_per_second: null, burst: null, events_per_month: null, beyond: 'reject', sample_rate: 0.1, updated_at: null, month: null
}

t.test('a project has no quota, is given one, changes it by parts, and loses it', async (t) => {
  const { call, projectId, sql } = await api.inNewProject()

  t.strictSame((await call('GET', '~/quota/')).body, NONE)
  t.match((await call('PATCH', '~/quota/', { events_per_second: 50 })).body, { ...NONE, events_per_second: 50, burst: 500, updated_at: String })
  t.match((await call('PATCH', '~/quota/', { events_per_month: 1000, burst: 80, beyond: 'sample', sample_rate: 0.25 })).body, {
    events_per_second: 50, burst: 80, events_per_month: 1000, beyond: 'sample', sample_rate: 0.25, month: null
  })
  t.match((await call('PATCH', '~/quota/', { events_per_second: 60 })).body, { events_per_second: 60, burst: 600 }, 'a limit takes its burst along')
  t.match((await call('PATCH', '~/quota/', { burst: 70 })).body, { events_per_second: 60, burst: 70 })
  t.match((await call('PATCH', '~/quota/', { beyond: 'reject' })).body, { events_per_second: 60, burst: 70, beyond: 'reject' })
  t.match((await call('PATCH', '~/quota/', { burst: null })).body, { burst: 600 })

  const monthBegin = monthOf(NOW)
  await sql`INSERT INTO project_usage (project_id, month, events, counted_through)
    VALUES (${projectId}, ${new Date(monthBegin)}, 1000, ${new Date(NOW - 10_000)})`
  t.same((await call('GET', '~/quota/')).body.month, {
    begin: new Date(monthBegin).toISOString(), events: 1000, counted_through: `${day(0)}T11:59:50.000Z`, exceeded: true
  })
  await sql`UPDATE project_usage SET month = month - interval '1 month', events = 9999 WHERE project_id = ${projectId}`
  t.equal((await call('GET', '~/quota/')).body.month, null, 'of a month before')

  t.match((await call('PATCH', '~/quota/', { events_per_second: null, events_per_month: null })).body, NONE)
  await call('PATCH', '~/quota/', { events_per_month: 5 })
  t.equal((await call('DELETE', '~/quota/')).status, 204)
  t.equal((await call('DELETE', '~/quota/')).status, 204)
  t.strictSame((await call('GET', '~/quota/')).body, NONE)
})

t.test('what cannot be is refused with the name of the field', async (t) => {
  const { call } = await api.inNewProject()
  const cases: [body: unknown, attr: string][] = [
    [{ events_per_second: 0 }, 'events_per_second'],
    [{ events_per_second: 1.5 }, 'events_per_second'],
    [{ events_per_second: '5' }, 'events_per_second'],
    [{ events_per_second: 10_000_001 }, 'events_per_second'],
    [{ events_per_month: -1 }, 'events_per_month'],
    [{ events_per_month: 1e16 }, 'events_per_month'],
    [{ burst: 5 }, 'burst'],
    [{ events_per_second: null, burst: 5 }, 'burst'],
    [{ beyond: 'block' }, 'beyond'],
    [{ beyond: 'sample' }, 'beyond'],
    [{ beyond: 'sample', sample_rate: 0.5 }, 'beyond'],
    [{ beyond: 'sample', events_per_month: null }, 'beyond'],
    [{ sample_rate: 0.5 }, 'sample_rate'],
    [{ sample_rate: 0 }, 'sample_rate'],
    [{ sample_rate: 1 }, 'sample_rate'],
    [{ per_day: 1 }, 'per_day']
  ]
  for (const [body, attr] of cases) {
    t.match(await call('PATCH', '~/quota/', body), { status: 400, body: { type: 'validation_error', attr } }, JSON.stringify(body))
  }
  t.strictSame((await call('GET', '~/quota/')).body, NONE)

  const { updated_at: _at, month: _month, ...fields } = NONE
  t.match(await call('PATCH', '~/quota/', fields), { status: 200, body: NONE }, 'what was answered may be sent back')
  await call('PATCH', '~/quota/', { events_per_month: 5, beyond: 'sample', sample_rate: 0.5 })
  t.match(await call('PATCH', '~/quota/', { events_per_month: null, sample_rate: 0.25 }), { status: 400, body: { attr: 'sample_rate' } })
  t.match((await call('GET', '~/quota/')).body, { events_per_month: 5, sample_rate: 0.5 }, 'nothing of it is written')
  t.match(await call('PATCH', '~/quota/', { events_per_month: null, beyond: 'sample', sample_rate: 0.5 }), { status: 200, body: NONE })
})

t.test('usage by day adds up the books and the warnings of the project', async (t) => {
  const { call, projectId } = await api.inNewProject()
  const minute = (iso: string): number => Date.parse(iso) / 60_000
  const entry = { source: 'a', accepted: 10, replayed: 2, duplicates: 3, deadLettered: 1 }
  await client.insert({
    table: LEDGER_TABLE,
    format: 'JSONEachRow',
    values: [
      toLedgerRow(ledgerKey(projectId, minute(`${day(1)}T23:59:00Z`)), { ...entry, accepted: 7 }),
      toLedgerRow(ledgerKey(projectId, minute(`${day(1)}T23:59:00Z`)), entry),
      toLedgerRow(ledgerKey(projectId, minute(`${day(1)}T23:59:00Z`)), { ...entry, source: 'b' }),
      toLedgerRow(ledgerKey(projectId, minute(`${day(0)}T00:00:00Z`)), entry),
      toLedgerRow(ledgerKey(projectId, minute(`${day(3)}T00:00:00Z`)), entry),
      toLedgerRow(ledgerKey(projectId + 1, minute(`${day(0)}T00:00:00Z`)), entry)
    ]
  })
  const warning = (reason: 'rule_dropped' | 'quota_sampled' | 'rate_limited' | 'quota_exceeded' | 'uuid_invalid', count: number) =>
    toWarningRow('p', { projectId, minute: Date.parse(`${day(0)}T01:00:00Z`), reason, count, samples: [] })
  await client.insert({
    table: WARNINGS_TABLE,
    format: 'JSONEachRow',
    values: [warning('rule_dropped', 4), warning('quota_sampled', 5), warning('quota_sampled', 6), warning('rate_limited', 2), warning('quota_exceeded', 3), warning('uuid_invalid', 8)]
  })

  const { body } = await call('GET', `~/usage/?from=${day(2)}T18:00:00Z`)
  t.strictSame(body, {
    from: day(2),
    to: day(0),
    events: 24,
    results: [
      { day: day(0), events: 8, duplicates: 3, dead_lettered: 1, dropped: 10, quota_sampled: 6, refused_requests: 5 },
      { day: day(1), events: 16, duplicates: 6, dead_lettered: 2, dropped: 0, quota_sampled: 0, refused_requests: 0 },
      { day: day(2), events: 0, duplicates: 0, dead_lettered: 0, dropped: 0, quota_sampled: 0, refused_requests: 0 }
    ]
  })
  t.equal((await call('GET', '~/usage/')).body.results.length, 30)
  t.match((await call('GET', '~/usage/?from=2020-01-01')).body, { attr: 'from' })
  t.match((await call('GET', '~/usage/?from=2026-02-02&to=2026-02-01')).body, { attr: 'from' })
  t.match((await call('GET', '~/usage/?to=9999-01-01&from=9998-12-31')).status, 200)
})
