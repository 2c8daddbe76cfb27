import { formatCounted, formatSeconds, showText } from '../engines/figures.ts'
import type { Status } from './api-types.ts'

/** Something that is stuck or late, and where its reason is found. */
export interface Problem {
  what: string
  /** A sentence; empty when waiting is all there is to do. */
  remedy: string
  /** A command that shows more, if any. */
  command: string | null
  /** A screen of the project that shows more. */
  screen?: 'dead-letters'
}

/** Stores as people write them, and the process that has the log of each in the embedded stack. */
const STORES: Record<string, [name: string, log: string]> = {
  clickhouse: ['ClickHouse', 'clickhouse'], nats: ['NATS', 'nats-server'], postgres: ['Postgres', 'postgres']
}

/** Processes whose log `millrace logs` shows. */
const LOGS = new Set(['ingest', 'pipeline', 'api', ...Object.values(STORES).map(([, log]) => log)])

/** Problems in the status that need action: stuck parts first, then backlogs, then dead letters. */
export function describeProblems (
  { stuck, behind, pipeline: { deadLetters } }: Pick<Status, 'stuck' | 'behind'> & { pipeline: Pick<Status['pipeline'], 'deadLetters'> }
): Problem[] {
  return [
    ...stuck.map(describeStuck),
    ...behind.map(({ part, lagSeconds }) =>
      ({ what: `${showText(part)} is behind by ${formatSeconds(lagSeconds)}.`, remedy: 'It is working and will catch up.', command: null })),
    ...(deadLetters ?? 0) === 0 ? [] : [waitingLetters(deadLetters ?? 0)]
  ]
}

function waitingLetters (count: number): Problem {
  return {
    what: `${formatCounted(count, 'dead letter')} ${count === 1 ? 'waits' : 'wait'}.`,
    remedy: 'Events that could not be stored are kept until you replay or purge them.',
    command: null,
    screen: 'dead-letters'
  }
}

/** A part is `<tier>: <what>`, or a store that does not answer. */
function describeStuck (part: string): Problem {
  const [tier = '', what = ''] = part.split(/: (.*)/s)
  const silent = /^no answer from (\S+)$/.exec(what)?.[1]
  const store = what === 'no answer' ? STORES[tier] : undefined
  if (silent !== undefined) return { what: `The ${tier} process at ${silent} does not answer.`, ...lookAt(tier) }
  if (store !== undefined) return { what: `${store[0]} does not answer.`, ...lookAt(store[1]) }
  return { what: `${showText(part)} is stuck.`, ...lookAt(tier) }
}

function lookAt (process: string): Pick<Problem, 'remedy' | 'command'> {
  const remedy = 'Nothing that was answered with 200 is lost.'
  return LOGS.has(process) ? { remedy: `${remedy} Its log says why; beside npm start:`, command: `npx millrace logs ${process}` } : { remedy, command: null }
}
