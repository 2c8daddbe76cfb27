import { request } from '../api-client.ts'
import { formatCount } from '../format.ts'
import { Rows } from '../frame/lists.tsx'
import { useLoaded } from '../load.ts'
import { projectId, query, setQuery } from '../router.ts'
import { SelectDays, Show } from '../states.tsx'
import { Chart } from '../sql/result-chart.tsx'
import type { Usage, UsageDay } from './quota.ts'

const DAY_MS = 86_400_000

/** Counted again so often, in milliseconds. */
const EVERY_MS = 30_000

export function UsageView () {
  const days = Number(query.value.get('days') ?? 30)
  const usage = useLoaded(`usage ${projectId.value} ${days}`, async (signal) => await request<Usage>(`/api/projects/${projectId.value}/usage/`, {
    query: { from: new Date(Date.now() - (days - 1) * DAY_MS).toISOString() }, signal
  }), { everyMs: EVERY_MS })
  return (
    <>
      <h2>Usage by day</h2>
      <p class='hint'>
        By UTC day of receipt, from the ledger: each event once. Events quarantined by a schema count once replayed.{' '}
        Drops and refusals are kept for 90 days.
      </p>
      <div class='toolbar'>
        <SelectDays label='In' value={days} of={[7, 30, 90, 365]} onChange={(value) => setQuery({ days: String(value) })} />
      </div>
      <Show of={usage} what='Usage'>
        {(value) => (
          <>
            <p><strong>{formatCount(value.events)}</strong> {value.events === 1 ? 'event' : 'events'} stored from {value.from} to {value.to}.</p>
            {value.results.some(({ events, dropped, dead_lettered: dead }) => events + dropped + dead > 0) && <Course days={value.results} />}
            <Days usage={value} />
          </>
        )}
      </Show>
    </>
  )
}

const COLUMNS = [{ name: 'day', type: 'Date' }, ...['stored', 'dropped or dead letters'].map((name) => ({ name, type: 'UInt64' }))]

function Course ({ days }: { days: readonly UsageDay[] }) {
  const rows = days.toReversed().map(({ day, events, dropped, dead_lettered: dead }) => [day, events, dropped + dead])
  return <Chart columns={COLUMNS} rows={rows} along='time' chosen={{ kind: 'line', x: 0, y: [1, 2] }} />
}

function Days ({ usage: { results } }: { usage: Usage }) {
  return (
    <Rows
      label='Usage by day' class='days' of={results} columns={[
        ['Day', ({ day }) => <time dateTime={day}>{day}</time>], ['#Stored', ({ events }) => events], ['#Duplicates', ({ duplicates }) => duplicates],
        ['#Dead letters', ({ dead_lettered: dead }) => dead], ['#Dropped', ({ dropped }) => dropped],
        ['#Of them beyond the quota', ({ quota_sampled: beyond }) => beyond], ['#Requests refused', ({ refused_requests: refused }) => refused]
      ]}
    />
  )
}
