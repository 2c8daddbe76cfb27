import type { Answer } from '../../api-types.ts'
import { formatAgo, formatCount, formatCounted, formatUtc, showText, zoneLabel } from '../format.ts'
import { Rows } from '../frame/lists.tsx'
import { useAnswer } from '../load.ts'
import { UUID } from '../receipts/explain-receipt.ts'
import { explainWarning, isOfRequests } from '../receipts/warning-words.ts'
import { linkTo, projectId, query, setQuery } from '../router.ts'
import { session } from '../session.ts'
import { Empty, Select, Show, Sparkline, Time } from '../states.tsx'

type Warnings = Answer<'/api/projects/{project_id}/ingestion_warnings/summary'>

/** Requests that were refused before their project was known: of the whole installation. */
const OF_NO_PROJECT = new Set(['wrong_key', 'body_too_large', 'body_unreadable', 'unknown_path'])

const PERIODS = { 1: 'the last hour', 24: 'the last day', 168: 'the last week', 720: 'the last 30 days' }

/** What of the project was not stored as it was sent: how often, since when, and some cases. */
export function WarningsScreen () {
  const hours = query.value.get('hours') ?? '24'
  const warnings = useAnswer<Warnings>(`/api/projects/${projectId.value}/ingestion_warnings/summary/`,
    { hours, unassigned: session.value?.all_projects === true || undefined }, { everyMs: 10_000 })
  return (
    <section>
      <h1>Warnings</h1>
      <p class='hint'>Events and requests that were refused, dropped or stored differently than sent.</p>
      <div class='toolbar'>
        <Select label='In' value={hours} options={Object.entries(PERIODS)} onChange={(value) => setQuery({ hours: value })} />
      </div>
      <Show of={warnings} what='Warnings'>
        {({ results }) => results.length === 0
          ? <Empty><p>There are no warnings.</p></Empty>
          : results.map((warning) => <Reason key={warning.reason} warning={warning} />)}
      </Show>
    </section>
  )
}

function Reason ({ warning }: { warning: Warnings['results'][number] }) {
  const { reason, effect, count, first_minute: first, last_minute: last, by_minute: minutes, samples } = warning
  const inHour = minutes.reduce((sum, each) => sum + each, 0)
  return (
    <details class='reason'>
      <summary>
        <span class='what'>
          <strong>{reason.replaceAll('_', ' ')}</strong>{' '}
          <span class='hint'>{explainWarning(reason)}{OF_NO_PROJECT.has(reason) && ' Of no known project.'}</span>
        </span>
        <span><span class={`tag ${effect}`}>{effect}</span></span>
        <span class='number'>{formatCounted(count, isOfRequests(reason) ? 'request' : 'event')}</span>
        <Sparkline values={minutes} label={`${formatCount(inHour)} in the last hour`} />
        <span class='hint' title={`${formatUtc(first)} to ${formatUtc(last)}`}>last {formatAgo(last, Date.now())}</span>
      </summary>
      <p class='hint'>
        Between <Time at={first} /> and <Time at={last} isZoned />, {formatCount(inHour)} of them in the last hour.{' '}
        {samples.length === 0 ? 'No samples were kept.' : 'Samples:'}
      </p>
      {samples.length > 0 && (
        <Rows
          label={`Cases of ${reason}`} of={samples} columns={[
            [`Received (${zoneLabel()})`, ({ received_at: at }) => <Time at={at} />], ['Event', ({ event }) => showText(event), 'wide'],
            ['Distinct id', ({ distinct_id: id }) => showText(id), 'wide'],
            ['SDK', ({ lib, lib_version: version }) => showText(`${lib} ${version}`.trim(), 40)],
            ['Value at fault', ({ value }) => <code>{showText(value)}</code>, 'wide'],
            ['Uuid', ({ uuid }) => UUID.test(uuid) ? <a {...linkTo(`/projects/${projectId.value}/find?uuid=${uuid}`)}>{uuid}</a> : showText(uuid, 40)]
          ]}
        />
      )}
    </details>
  )
}
