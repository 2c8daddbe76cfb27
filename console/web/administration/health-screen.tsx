import type { Scope } from '../../../schema/scopes.ts'
import type { Status } from '../../api-types.ts'
import { describeProblems } from '../../describe-problems.ts'
import { describeAssurances, describeStages, describeWhole, type Stage } from '../../describe-status.ts'
import { formatBytes, formatMs, formatZoned } from '../format.ts'
import { useAnswer } from '../load.ts'
import { linkTo } from '../router.ts'
import { may } from '../session.ts'
import { shownProject } from '../shown-project.ts'
import { LateNotice, Show, Table, Time } from '../states.tsx'

/** How often the status is fetched, in milliseconds. */
const EVERY_MS = 2000

/** The life of an event, drawn with what passes and waits at each stage, now. */
export function HealthScreen () {
  const status = useAnswer<Status>('/api/status', {}, { everyMs: EVERY_MS })
  return (
    <section>
      <h1>Health</h1>
      <Show of={status} what='Health'>{(value) => <Health status={value} />}</Show>
      {status.value === undefined && status.error === undefined && (
        // While the first reading waits for a process that is silent: it is given four seconds, twice.
        <LateNotice afterMs={SLOW_MS} text='A process is slow to answer. It will be shown here within ten seconds.' />
      )}
    </section>
  )
}

/** Healthy processes answer within milliseconds. Beyond this, one probably does not answer. */
const SLOW_MS = 2000

function Health ({ status }: { status: Status }) {
  const whole = describeWhole(status)
  return (
    <>
      <div class={`verdict ${whole.state}`} role='status'>
        <strong>{whole.word}.</strong> <span>{whole.sentence}</span>
      </div>
      <Problems status={status} />
      <dl class='facts assurances'>
        {describeAssurances(status, formatZoned).map(({ name, state, sentence }) => <div key={name} class={state}><dt>{name}</dt><dd>{sentence}</dd></div>)}
      </dl>
      <h2>Life of an event</h2>
      <p class='hint'>
        Looking for one event? <Leads name='find'>Find an event</Leads> shows where it is, or why it is missing.{' '}
        <Leads name='warnings'>Warnings</Leads> says what was dropped or refused, and why.
      </p>
      <ol class='stages'>{describeStages(status).map((stage) => <StageBox key={stage.name} stage={stage} />)}</ol>
      <h2>Processes</h2>
      <Table label='Processes' head={['Tier', 'Address', 'Status', '#Memory', '#Event loop, p99']}>
        {status.tiers.map(({ tier, url, status: word, memoryBytes, eventLoopP99Ms }) => (
          <tr key={`${tier} ${url}`}>
            <td>{tier}</td><td><code>{url}</code></td><td>{word}</td>
            <td class='number'>{formatBytes(memoryBytes)}</td><td class='number'>{formatMs(eventLoopP99Ms)}</td>
          </tr>
        ))}
      </Table>
      <p class='hint'>Millrace {status.version}, <Time at={status.time} isZoned />. In a terminal: <code>npx millrace status</code>.</p>
    </>
  )
}

/** Stuck or delayed parts, each with a remedy. */
function Problems ({ status }: { status: Status }) {
  const problems = describeProblems(status)
  if (problems.length === 0) return null
  return (
    <ul class='problems'>
      {problems.map(({ what, remedy, command, screen }) => (
        <li key={what}>
          <strong>{what}</strong> {remedy}{command !== null && <> <code>{command}</code></>}
          {screen !== undefined && <> <Leads name={screen} scope='dead_letter:read'>See them</Leads></>}
        </li>
      ))}
    </ul>
  )
}

/** A link to a screen of the current project; plain text if it is not accessible. */
function Leads ({ name, scope = 'event:read', children }: { name: string, scope?: Scope, children: string }) {
  const project = shownProject.value
  return project === undefined || !may(scope) ? <>{children}</> : <a {...linkTo(`/projects/${project}/${name}`)}>{children}</a>
}

/** A stage that an event passes, with what passes and waits there. */
function StageBox ({ stage }: { stage: Stage }) {
  return (
    <li class={`stage ${stage.state}`}>
      <h3>{stage.name} <span class='state'>{stage.state === 'ok' ? 'working' : stage.state}</span></h3>
      <p class='headline'>{stage.headline}</p>
      <dl>
        {stage.details.map(({ label, value }) => <div key={label}><dt>{label}</dt><dd>{value}</dd></div>)}
      </dl>
    </li>
  )
}
