import { gzipSync } from 'node:zlib'
import { decodeBody } from '../../engines/body/decode-body.ts'
import { createTakeEvent } from '../../ingest/capture/take-event.ts'
import { findEvents } from '../../ingest/capture/find-events.ts'
import { type Admission, type EventSink, takeBody } from '../../ingest/capture/take-parsed-body.ts'
import { FrameEncoder, isFull } from '../../ingest/frames/frame-encoder.ts'
import { compileDefinitions } from '../../platform/directory/active-schemas.ts'
import type { Project } from '../../platform/directory/read-keys.ts'
import { compileRules } from '../../platform/directory/active-rules.ts'
import { createPlainNormaliser } from '../../test/support/plain-normaliser.ts'
import { ruleOf, RULES, schemaOf, SCHEMAS } from '../load/edge-definitions.ts'
import { createEventSource } from '../load/prepare-events.ts'
import { type BenchContext, type Figure, median, type Question } from '../question.ts'

const EVENTS_PER_BODY = 100
const EVENTS_PER_ROUND = 4000

/** Lists of bodies, taken in turns. */
const LISTS = 6

/** Rounds until the compilers of V8 are done. */
const FIRST_ROUNDS = 12

const HINTS = { contentType: 'application/json', contentEncoding: undefined, compression: undefined }

/**
 * What schemas and rules cost where nothing else differs: the way of a batch through ingest, from its bytes to a
 * compressed frame, in this process. Less noisy than `edge`, and less true: caches hold more of what it reads.
 */
export const alone: Question = {
  name: 'alone',
  asks: `a batch from its bytes to a frame in one process, in turns with nothing, ${SCHEMAS} schemas, ${RULES} rules and both`,
  isLong: true,
  async answer ({ quick }: BenchContext) {
    const projects = buildProjects()
    const takeRound = createTakeRound()
    const lists = Array.from({ length: LISTS }, (_, seed) => prepareBodies(15_000 + seed))
    const costs = projects.map((): number[] => [])
    for (let round = 0; round < FIRST_ROUNDS + (quick ? 12 : 60); round++) {
      const turn = projects.map((_, at) => (at + round) % projects.length)
      for (const at of turn) {
        const cost = takeRound(projects[at]!.project, lists[round % LISTS]!)
        if (round >= FIRST_ROUNDS) costs[at]!.push(cost)
      }
      // The stack beside it and its client have to be answered.
      await new Promise((resolve) => setImmediate(resolve))
    }
    return projects.flatMap(({ name }, at) => figuresOf(name, costs[at]!, costs[0]!))
  }
}

function figuresOf (name: string, costs: readonly number[], none: readonly number[]): Figure[] {
  const cost: Figure = { name, value: median(costs), unit: 'us/event' }
  if (costs === none) return [cost]
  return [
    { ...cost, reference: { name: 'nothing active', value: median(none) } },
    {
      name: `${name}: more than nothing active`,
      value: median(costs.map((value, round) => value - none[round]!)),
      unit: 'us/event',
      ...name === `${SCHEMAS} schemas` && { target: { atMost: 1 } }
    }
  ]
}

function buildProjects (): { name: string, project: Project }[] {
  const schemas = compileDefinitions(Array.from({ length: SCHEMAS }, (_, index) => {
    const { event, schema } = schemaOf(index)
    return { id: index + 1, event, version: 1, mode: 'observe', text: JSON.stringify(schema) }
  }))
  const definitions = Array.from({ length: RULES }, (_, index) => {
    const { name, condition, actions } = ruleOf(index)
    return { id: index + 1, name, version: 1, text: JSON.stringify({ condition, actions }) }
  })
  const rules = compileRules({ secret: Buffer.alloc(32, 1), rules: definitions }, 1)
  const plain: Project = { id: 1, anonymizeIps: false }
  return [
    { name: 'nothing active', project: plain },
    { name: `${SCHEMAS} schemas`, project: { ...plain, schemas } },
    { name: `${RULES} rules`, project: { ...plain, rules } },
    { name: `${SCHEMAS} schemas and ${RULES} rules`, project: { ...plain, schemas, rules } }
  ]
}

function prepareBodies (seed: number): Buffer[] {
  const nextEvent = createEventSource(seed, { names: SCHEMAS })
  return Array.from({ length: EVENTS_PER_ROUND / EVENTS_PER_BODY }, () =>
    gzipSync(JSON.stringify({ api_key: 'phc_alone', batch: Array.from({ length: EVENTS_PER_BODY }, nextEvent) })))
}

/** Returns a function that takes bodies for a project, and says the CPU of an event in microseconds. */
function createTakeRound (): (project: Project, bodies: readonly Buffer[]) => number {
  const encoder = new FrameEncoder(() => null)
  const sink: EventSink = {
    add ({ kind, row }) {
      if (kind === 'quarantined') throw new Error('no schema of this question quarantines')
      encoder.append(row)
      if (isFull(encoder)) encoder.take()
    }
  }
  const takeEvent = createTakeEvent({
    normaliseEvent: createPlainNormaliser(), isAnnounced: () => true, maxPayloadBytes: () => 1e6,
    onUnexpected: (error) => { throw error }
  })
  const visitor = { address: '127.0.0.1', userAgent: '', host: '' }

  return function takeRound (project, bodies) {
    const before = process.cpuUsage()
    for (const body of bodies) {
      const sent = findEvents(decodeBody(body, HINTS, 1e8))
      const request = { requestId: 'alone', query: {}, isEngage: false, receivedAt: Date.now() }
      const admission: Admission = { project, ip: visitor.address, visitor }
      const taken = takeBody(sent, request, { admit: () => admission, takeEvent, sink })
      if (taken instanceof Promise || taken.received !== EVENTS_PER_BODY) throw new Error('a body was not taken at once')
    }
    encoder.take()
    const { user, system } = process.cpuUsage(before)
    return (user + system) / EVENTS_PER_ROUND
  }
}
