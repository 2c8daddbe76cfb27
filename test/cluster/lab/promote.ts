/** A property with a column of its own, as analysts of the cluster see it. */
import { ALL, type Ask, expect } from './compare-nodes.ts'
import type { LabNode } from './start-lab.ts'

const TABLES = ['events', 'events_with_person']

/** Promotes and demotes a property by the command line, and asks every node for it. */
export async function promote (
  nodes: readonly LabNode[], ask: Ask, millrace: (...args: string[]) => Promise<{ code: number, out: string }>
): Promise<string> {
  const sum = async (node: LabNode, database: string, table: string): Promise<number> => {
    const user = database === ALL ? 'analyst' : 'default'
    const [row] = await ask<{ n: number }>(node, `SELECT sum(p_amount) AS n FROM ${table}`, { user, database })
    return Number(row?.n)
  }
  const promoted = await millrace('properties', 'promote', 'amount', '--type', 'Float64')
  expect(promoted.code === 0, promoted.out)
  const sums = new Set<number>()
  for (const node of nodes) {
    for (const table of TABLES) {
      sums.add(await sum(node, ALL, table))
      await sum(node, 'millrace', table)
    }
  }
  expect(sums.size === 1 && !sums.has(0), `nodes add up to ${[...sums].join(', ')}`)
  const demoted = await millrace('properties', 'demote', 'amount')
  expect(demoted.code === 0, demoted.out)
  for (const node of nodes) {
    for (const table of TABLES) {
      const isThere = await sum(node, ALL, table).then(() => true, () => false)
      expect(!isThere, `${node.name} still has the column in ${table}`)
      await ask(node, `SELECT * FROM ${table} LIMIT 1`, { user: 'analyst', database: ALL })
    }
  }
  return `${[...sums].join()} on every node`
}
