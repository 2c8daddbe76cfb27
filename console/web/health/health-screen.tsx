import type { Status } from '../../../platform/status/build-status.ts'
import { request } from '../api-client.ts'
import { formatBytes, formatCount, formatMs, formatSeconds, formatTime } from '../format.ts'
import { useLoaded } from '../load.ts'
import { Show } from '../states.tsx'
import { LifeOfEvent } from './life-of-event.tsx'
import { describeAssurances, describeWhole } from './stages.ts'

/** How often the status is fetched, in milliseconds. */
const EVERY_MS = 2000

/** The life of an event, drawn with what passes and waits at each stage, now. */
export function HealthScreen () {
  const status = useLoaded('status', async (signal) => await request<Status>('/console/status', { signal }), { everyMs: EVERY_MS })
  return (
    <section>
      <h1>Health</h1>
      <Show of={status} what='Health'>{(value) => <Health status={value} />}</Show>
    </section>
  )
}

function Health ({ status }: { status: Status }) {
  const whole = describeWhole(status)
  const dropped = Object.entries(status.ingest.dropped).sort(([, one], [, other]) => other - one)
  return (
    <>
      <div class={`verdict ${whole.state}`} role='status'>
        <strong>{whole.word}</strong> <span>{whole.sentence}</span>
      </div>
      <Problems status={status} />
      <dl class='facts assurances'>
        {describeAssurances(status).map(({ name, state, sentence }) => <div key={name} class={state}><dt>{name}</dt><dd>{sentence}</dd></div>)}
      </dl>
      <h2>Life of an event</h2>
      <LifeOfEvent status={status} />
      {dropped.length > 0 && (
        <>
          <h2>Dropped since the start of ingest</h2>
          <table>
            <thead><tr><th scope='col'>Reason</th><th scope='col' class='number'>Events</th></tr></thead>
            <tbody>{dropped.map(([reason, count]) => <tr key={reason}><td><code>{reason}</code></td><td class='number'>{formatCount(count)}</td></tr>)}</tbody>
          </table>
        </>
      )}
      <h2>Processes</h2>
      <div class='scroll' role='region' aria-label='Processes' tabIndex={0}>
        <table>
          <thead>
            <tr><th scope='col'>Tier</th><th scope='col'>Address</th><th scope='col'>Status</th><th scope='col' class='number'>Memory</th><th scope='col' class='number'>Event loop, p99</th></tr>
          </thead>
          <tbody>
            {status.tiers.map(({ tier, url, status: word, memoryBytes, eventLoopP99Ms }) => (
              <tr key={`${tier} ${url}`}>
                <td>{tier}</td><td><code>{url}</code></td><td>{word}</td>
                <td class='number'>{formatBytes(memoryBytes)}</td><td class='number'>{formatMs(eventLoopP99Ms)}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      <p class='hint'>Millrace {status.version}, {formatTime(status.time)} UTC. The same in a terminal: <code>npx millrace status</code>.</p>
    </>
  )
}

/** What is stuck or old, each with where to look. */
function Problems ({ status }: { status: Status }) {
  if (status.stuck.length + status.behind.length === 0) return null
  return (
    <ul class='problems'>
      {status.stuck.map((part) => <li key={part}><strong>{part}</strong> is stuck. See the logs of the process, and docs/operations.md.</li>)}
      {status.behind.map(({ part, lagSeconds }) => <li key={part}><strong>{part}</strong> is behind by {formatSeconds(lagSeconds)}.</li>)}
    </ul>
  )
}
