/** Persons on the cluster: merged, split, counted in a cohort, anonymised and erased; every node says the same. */
import { randomUUID } from 'node:crypto'
import { waitFor } from '../../support/wait-for.ts'
import { ALL, type Ask, expect } from './compare-nodes.ts'
import type { LabProduct, Traffic } from './open-product.ts'
import type { LabNode } from './start-lab.ts'

const PROJECT = '/api/projects/1'
const SOON = { timeoutMs: 120_000, everyMs: 500 }
/** In each distinct id of the persons here. */
const MARK = 'lab-4f9c'
const [FIRST, SECOND] = [`${MARK}-first`, `${MARK}-second`]
const EVENT = 'repaired on the cluster'
const TREND = { kind: 'trend', version: 1, range: { last: 30, unit: 'day' }, series: [{ event: EVENT, measure: 'people' }] }
const DID = { type: 'behavioral', value: 'performed_event', key: EVENT, time_value: 30, time_interval: 'day' }

interface Persons { nodes: readonly LabNode[], ask: Ask, product: LabProduct, traffic: Traffic }

/** @returns what was seen. @throws naming the node that differs. */
export async function repairAndErase ({ nodes, ask, product, traffic }: Persons): Promise<string> {
  const call = async (method: string, path: string, body?: unknown): Promise<any> => {
    const answer = await product.call(method, `${PROJECT}${path}`, body)
    expect(answer.status < 300, `${method} ${path} is answered with ${answer.status}: ${JSON.stringify(answer.body).slice(0, 300)}`)
    return answer.body
  }
  const countPeople = async (where: readonly object[] = []): Promise<number> => {
    const definition = { ...TREND, series: [{ ...TREND.series[0], where }] }
    const { answer: { lines: [line] } } = await call('POST', '/questions/answer', { definition })
    return line.total
  }
  const settled = async (people: number, where?: readonly object[]): Promise<void> => {
    await waitFor(async () => {
      const counted = await countPeople(where)
      expect(counted === people, `${counted} of ${people} people`)
      return true
    }, SOON)
  }
  const everywhere = async (sql: string, database?: string): Promise<number> => {
    const as = database === undefined ? {} : { database }
    const counts = await Promise.all(nodes.map(async (node) => Number((await ask<{ n: string }>(node, sql, as))[0]?.n)))
    expect(new Set(counts).size === 1, `nodes count ${counts.join(', ')} by ${sql}`)
    return counts[0] ?? NaN
  }
  const onAll = async (sql: string, wanted: number, database?: string): Promise<void> => {
    await waitFor(async () => {
      const count = await everywhere(sql, database)
      expect(count === wanted, `${count}, not ${wanted}, by ${sql}`)
      return true
    }, SOON)
  }
  const send = async (events: readonly Record<string, unknown>[]): Promise<void> => {
    await product.send(events)
    traffic.acknowledged += events.length
  }

  const history = [FIRST, SECOND].flatMap((id) => [1, 2].map(() => eventOf(id)))
  await send(history)
  await settled(2)
  await send([eventOf(FIRST, { event: '$merge_dangerously', properties: { index: 0, alias: SECOND } })])
  await settled(1)
  const { results: [person] } = await call('GET', `/persons/?distinct_id=${FIRST}`)
  await call('POST', `/persons/${person.uuid ?? person.id}/split`, { distinct_ids: [SECOND] })
  await settled(2)

  const { id: cohort } = await call('POST', '/cohorts', { name: EVENT, filters: { type: 'AND', values: [DID] } })
  await waitFor(async () => (await call('GET', `/cohorts/${cohort}`)).people === 2, SOON)
  // Two members, and the row that every version has.
  await onAll(`SELECT count() AS n FROM cohort_members WHERE cohort_id = ${cohort}`, 3)
  await settled(2, [{ type: 'cohort', value: cohort, operator: 'in' }])
  await settled(0, [{ type: 'cohort', value: cohort, operator: 'not_in' }])

  const events = `SELECT count() AS n FROM events WHERE event = '${EVENT}' SETTINGS final = 0`
  await call('POST', '/erasures', { distinct_ids: [SECOND], anonymise: true })
  await onAll(`SELECT count() AS n FROM events WHERE distinct_id = '${SECOND}' SETTINGS final = 0`, 0, ALL)
  expect(await everywhere(events, ALL) === history.length, 'anonymising changed a count')
  await settled(2)

  await call('POST', '/erasures', { distinct_ids: [FIRST] })
  // Two events, and the one that merged.
  traffic.acknowledged -= 3
  await product.send(history.map((event) => ({ ...event, uuid: randomUUID() })))
  for (const table of ['events', 'persons', 'person_distinct_ids']) {
    await onAll(`SELECT count() AS n FROM ${table} WHERE position(toString(tuple(*)), '${MARK}') > 0 SETTINGS final = 0`, 0, ALL)
  }
  await settled(1)
  return `${await everywhere(events, ALL)} of ${history.length} events are left, ${nodes.length} nodes`
}

function eventOf (id: string, more: Record<string, unknown> = {}): Record<string, unknown> {
  return {
    event: EVENT, distinct_id: id, uuid: randomUUID(), timestamp: new Date(Date.now() - 60_000).toISOString(),
    properties: { index: 0, $set: { plan: id } }, ...more
  }
}
