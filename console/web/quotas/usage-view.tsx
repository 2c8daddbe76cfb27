import { request } from '../api-client.ts'
import { formatCount } from '../format.ts'
import { useLoaded } from '../load.ts'
import { projectId, query, setQuery } from '../router.ts'
import { SelectDays, Show, Table } from '../states.tsx'
import { Chart } from '../sql/result-chart.tsx'
import type { Usage, UsageDay } from './quota.ts'

const DAY_MS = 86_400_000

/** Counted again so often, in milliseconds. */
const EVERY_MS = 30_000

/** What the project sent, by day of receipt: a picture, and every number. */
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
    <Table
      label='Usage by day' class='days'
      head={['Day', '#Stored', '#Duplicates', '#Dead letters', '#Dropped', '#Of them beyond the quota', '#Requests refused']}
    >
      {results.map((day) => (
        <tr key={day.day}>
          <td><time dateTime={day.day}>{day.day}</time></td><td class='number'>{formatCount(day.events)}</td><td class='number'>{formatCount(day.duplicates)}</td>
          <td class='number'>{formatCount(day.dead_lettered)}</td><td class='number'>{formatCount(day.dropped)}</td>
          <td class='number'>{formatCount(day.quota_sampled)}</td><td class='number'>{formatCount(day.refused_requests)}</td>
        </tr>
      ))}
    </Table>
  )
}
