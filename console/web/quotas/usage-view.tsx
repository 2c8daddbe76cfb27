import { request } from '../api-client.ts'
import { formatCount, formatCounted } from '../format.ts'
import { useLoaded } from '../load.ts'
import { projectId, query, setQuery } from '../router.ts'
import { Select, Show } from '../states.tsx'
import { buildBars, type Usage } from './quota.ts'

const DAYS = [7, 30, 90, 365]
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
        Days of receipt, UTC, from the books: each event once. Events in quarantine of a schema count when they are replayed.{' '}
        Drops and refusals are known for 90 days.
      </p>
      <div class='toolbar'>
        <Select label='In' value={days} options={DAYS.map((each) => [each, `${each} days`] as const)} onChange={(value) => setQuery({ days: value })} />
      </div>
      <Show of={usage} what='Usage'>
        {(value) => (
          <>
            <p><strong>{formatCount(value.events)}</strong> {value.events === 1 ? 'event' : 'events'} stored from {value.from} to {value.to}.</p>
            {value.results.some(({ events, dropped, dead_lettered: dead }) => events + dropped + dead > 0) && <Bars usage={value} />}
            <Days usage={value} />
          </>
        )}
      </Show>
    </>
  )
}

/** Coordinates of the picture: it is stretched to the width that there is. */
const HEIGHT = 100

function Bars ({ usage }: { usage: Usage }) {
  const { bars, most } = buildBars(usage.results)
  return (
    <figure class='usage'>
      <figcaption class='hint'>
        At most {formatCount(most)} on a day. <span class='stored'>■</span> stored, <span class='lost'>■</span> dropped or dead letters
      </figcaption>
      <svg
        role='img' aria-label={`${formatCounted(usage.events, 'event')} in ${formatCounted(bars.length, 'day')}, at most ${formatCount(most)} on a day`}
        viewBox={`0 0 ${bars.length} ${HEIGHT}`} preserveAspectRatio='none'
      >
        {bars.map(({ day, stored, lost, label }, index) => {
          // What is there can be seen.
          const tall = stored === 0 ? 0 : Math.max(1, stored * HEIGHT)
          const above = lost === 0 ? 0 : Math.max(1, lost * HEIGHT)
          return (
            <g key={day}>
              <title>{label}</title>
              <rect class='space' x={index} y={0} width={1} height={HEIGHT} />
              <rect class='stored' x={index + 0.08} y={HEIGHT - tall} width={0.84} height={tall} />
              <rect class='lost' x={index + 0.08} y={Math.max(0, HEIGHT - tall - above)} width={0.84} height={above} />
            </g>
          )
        })}
      </svg>
      <div class='ends hint'><span>{usage.from}</span><span>{usage.to}</span></div>
    </figure>
  )
}

function Days ({ usage: { results } }: { usage: Usage }) {
  return (
    <div class='scroll days' role='region' aria-label='Usage by day' tabIndex={0}>
      <table>
        <thead>
          <tr>
            <th scope='col'>Day</th><th scope='col' class='number'>Stored</th><th scope='col' class='number'>Duplicates</th><th scope='col' class='number'>Dead letters</th>
            <th scope='col' class='number'>Dropped</th><th scope='col' class='number'>Of them beyond the quota</th><th scope='col' class='number'>Requests refused</th>
          </tr>
        </thead>
        <tbody>
          {results.map((day) => (
            <tr key={day.day}>
              <td class='numbers'>{day.day}</td><td class='number'>{formatCount(day.events)}</td><td class='number'>{formatCount(day.duplicates)}</td>
              <td class='number'>{formatCount(day.dead_lettered)}</td><td class='number'>{formatCount(day.dropped)}</td>
              <td class='number'>{formatCount(day.quota_sampled)}</td><td class='number'>{formatCount(day.refused_requests)}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  )
}
