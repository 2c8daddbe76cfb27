import { waitFor } from '../../support/wait-for.ts'
import { ALL, type Ask, expect } from './compare-nodes.ts'
import type { LabProduct } from './open-product.ts'
import type { LabNode } from './start-lab.ts'
import type { Traffic } from './traffic.ts'

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
       WHERE database = 'millrace' AND table LIKE 'person%' GROUP BY table, command`)
    const repeated = mutations.find(({ n }) => Number(n) !== 1)
    expect(mutations.length > 0, `${node.name} has no mutation`)
    expect(repeated === undefined, `${node.name} has ${repeated?.n} mutations of ${repeated?.table} with one command`)
  }
  return `${before?.n} events`
}
