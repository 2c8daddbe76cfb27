import { waitFor } from '../../support/wait-for.ts'
import { ALL, type Ask, expect } from './compare-nodes.ts'
import type { LabProduct, Traffic } from './open-product.ts'
import type { LabNode } from './start-lab.ts'

/** A document of OpenAPI, as far as it is read here. */
interface Operation { parameters?: Parameter[] }
interface Parameter { name: string, in: string, required?: boolean, schema?: { type?: string, format?: string } }

/** Ends only with its client; is for the key of a link; is called below. */
const LEFT_OUT = /\/events\/live$|\/shared_board|\/answers\/|\/persons\/export$|\/holdouts\//

/**
 * Makes one of everything that the API knows, reads every path of its document, and runs what computes from stored
 * events.
 *
 * @returns how many paths answered.
 * @throws naming each path that answered with a failure.
 */
export async function walkApi (product: LabProduct): Promise<string> {
  const failed: string[] = []
  const call = async (method: string, path: string, body?: unknown): Promise<any> => {
    const answer = await product.call(method, path, body)
    if (answer.status >= 400) failed.push(`${method} ${path}: ${answer.status} ${JSON.stringify(answer.body).slice(0, 200)}`)
    return answer.body
  }
  const project = '/api/projects/1'
  const { id: experiment } = await call('POST', `${project}/experiments/`, {
    name: 'walked', feature_flag_key: 'walked', filters: { insight: 'FUNNELS', events: [{ id: 'visited' }, { id: 'paid' }] },
    secondary_metrics: [{ metric: { kind: 'mean', event: 'paid', property: 'amount' } }]
  })
  await call('PATCH', `${project}/experiments/${experiment}/`, { start_date: new Date(Date.now() - 3_600_000).toISOString() })
  await call('POST', `${project}/event_schemas`, { event: 'paid', schema: { type: 'object', required: ['amount'] } })
  await call('POST', `${project}/rules`, {
    name: 'walked', condition: { type: 'AND', values: [{ type: 'event', value: 'never' }] }, actions: [{ type: 'drop' }]
  })
  await call('POST', `${project}/feature_flags`, { key: 'held', filters: { groups: [{ properties: [] }], holdout: { id: 7, exclusion_percentage: 10 } } })
  await call('GET', `${project}/experiments/holdouts/7?metric=${encodeURIComponent('{"kind":"funnel","event":"paid"}')}`)
  await call('GET', `${project}/persons/export?distinct_id=person%201`)
  const { id: savedQuery } = await call('POST', `${project}/saved_queries`, { name: 'walked', query: 'SELECT count() FROM events' })
  const { id: question } = await call('POST', `${project}/questions`, { name: 'walked', definition: { kind: 'trend', version: 1, series: [{ event: 'paid' }] } })
  const tiles = [{ kind: 'question', id: question }, { kind: 'saved_query', id: savedQuery }]
  const { id: board } = await call('POST', `${project}/boards`, { name: 'walked', tiles })
  for (const { kind, id } of tiles) await call('GET', `${project}/boards/${board}/answers/${kind}/${id}`)
  const { results: [event] } = await readEvents(product)
  const { paths } = await call('GET', '/api/schema') as { paths: Record<string, Record<string, Operation>> }
  let answered = 0
  for (const [path, { get }] of Object.entries(paths)) {
    if (get === undefined || LEFT_OUT.test(path) || !path.startsWith('/api/')) continue
    const target = await fill(call, path, event?.uuid ?? '')
    if (target === undefined) continue
    const query = (get.parameters ?? []).filter((parameter) => parameter.in === 'query' && parameter.required === true)
      .map((parameter) => `${parameter.name}=${encodeURIComponent(valueOf(parameter))}`).join('&')
    await call('GET', `${target}${query === '' ? '' : `?${query}`}`)
    answered++
  }
  await call('GET', `${project}/experiments/${experiment}/results?refresh=true`)
  await call('GET', `${project}/experiments/${experiment}/secondary_results?refresh=true`)
  await call('POST', `${project}/event_schemas/infer`, { event: 'paid' })
  const rows = await call('POST', '/api/sql', { query: 'SELECT count() FROM events WHERE distinct_id IN (SELECT distinct_id FROM events)' })
  if (String(rows).includes('"error"')) failed.push(`SQL of the console: ${String(rows).slice(0, 300)}`)
  if (failed.length > 0) throw new Error(failed.map((line) => `\n        ${line}`).join(''))
  return `${answered} paths`
}

/** Values of parameters that have to be there. */
const REQUIRED: Record<string, string> = {
  q: 'person 1', event: 'paid', property: 'amount', distinct_id: 'person 1', days: '7',
  from: new Date(Date.now() - 3_600_000).toISOString(), to: new Date(Date.now() + 60_000).toISOString()
}

function valueOf ({ name, schema }: Parameter): string {
  if (schema?.format === 'date') return new Date().toISOString().slice(0, 10)
  return REQUIRED[name] ?? (schema?.type === 'integer' ? '0' : 'paid')
}

/** The path with the id of something that is there; undefined when there is nothing. */
async function fill (
  call: (method: string, path: string) => Promise<any>, path: string, uuid: string
): Promise<string | undefined> {
  let filled = path.replace('{project_id}', '1').replace('{uuid}', uuid)
  const [, list, name] = /^(.*)\/\{(\w+)\}/.exec(filled) ?? []
  if (list === undefined || name === undefined) return filled
  const { results } = await call('GET', `${list}?limit=1`) as { results?: Record<string, unknown>[] }
  const value = results?.[0]?.[name]
  if (value === undefined) return undefined
  filled = filled.replace(`{${name}}`, encodeURIComponent(String(value)))
  return filled
}

async function readEvents ({ call }: LabProduct): Promise<{ results: { uuid: string }[] }> {
  const { body } = await call('POST', '/api/sql', { query: "SELECT toString(uuid) FROM events WHERE event = 'paid' LIMIT 1" })
  const uuid = /"rows":\s*\[\["([\da-f-]{36})"\]\]/.exec(typeof body === 'string' ? body : JSON.stringify(body))?.[1]
  return { results: uuid === undefined ? [] : [{ uuid }] }
}

interface DeletePerson { nodes: readonly LabNode[], ask: Ask, product: LabProduct, traffic: Traffic }

/** Deletes a person with its events, and looks at every node. @returns how many events it had. */
export async function deletePerson ({ nodes, ask, product, traffic }: DeletePerson): Promise<string> {
  const { body: found } = await product.call('GET', '/api/projects/1/persons/?distinct_id=person%200')
  const id = found.results?.[0]?.id ?? found.id
  const [before] = await ask<{ n: string }>(nodes[0] as LabNode,
    "SELECT count() AS n FROM events WHERE distinct_id = 'person 0' SETTINGS final = 0", { database: ALL })
  const answer = await product.call('DELETE', `/api/projects/1/persons/${id}?delete_events=true`)
  expect(answer.status < 300, `the API answered ${answer.status}: ${JSON.stringify(answer.body).slice(0, 300)}`)
  await waitFor(async () => {
    for (const node of nodes) {
      const [row] = await ask<{ n: string }>(node, `SELECT
        (SELECT count() FROM events WHERE distinct_id = 'person 0')
          + (SELECT count() FROM persons WHERE person_id = '${id}') AS n SETTINGS final = 0`)
      expect(Number(row?.n) === 0, `${node.name} still has ${row?.n} rows`)
    }
    return true
  }, { timeoutMs: 120_000, everyMs: 500 })
  traffic.acknowledged -= Number(before?.n)
  for (const node of nodes) {
    const mutations = await ask<{ table: string, command: string, n: string }>(node,
      `SELECT table, command, count() AS n FROM system.mutations
       WHERE database = 'millrace' AND table LIKE 'person%' AND position(command, 'deletion:') > 0 GROUP BY table, command`)
    const repeated = mutations.find(({ n }) => Number(n) !== 1)
    expect(mutations.length > 0, `${node.name} has no mutation`)
    expect(repeated === undefined, `${node.name} has ${repeated?.n} mutations of ${repeated?.table} with one command`)
  }
  return `${before?.n} events`
}
