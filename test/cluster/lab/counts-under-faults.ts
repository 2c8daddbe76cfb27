/** What is counted when replicas die in the middle of inserts, and when one shard refuses what another one stores. */
import { randomUUID } from 'node:crypto'
import type { ClickHouse } from '../../../platform/clickhouse/connect-clickhouse.ts'
import { waitFor } from '../../support/wait-for.ts'
import { expect } from './compare-nodes.ts'
import type { LabProduct } from './open-product.ts'
import type { LabNode } from './start-lab.ts'
import type { Traffic } from './traffic.ts'

/** So many that some kills meet an insert in which the other shard has stored its rows already. */
const KILLS = 8
const REFUSED_EVENTS = 20
const SOON = { timeoutMs: 120_000, everyMs: 500 }

export interface CountsDeps {
  nodes: readonly LabNode[]
  traffic: Traffic
  /** Waits until each node counts the events of the traffic, its views too. */
  auditAll: () => Promise<string>
}

/** Kills replicas one after the other while events come in. Each is back and has caught up before the next one dies. */
export async function countThroughKills ({ nodes, traffic, auditAll }: CountsDeps): Promise<string> {
  const going = [traffic.start(), traffic.start()]
  for (let kills = 0; kills < KILLS; kills++) {
    const node = nodes[kills % nodes.length]
    await node?.kill()
    await waitFor(() => node?.isRunning() === true, SOON)
    await traffic.send(200)
  }
  for (const each of going) await each.stop()
  return `${KILLS} kills, ${await auditAll()}`
}

interface RefusalDeps extends CountsDeps {
  product: LabProduct
  connect: (url: string) => ClickHouse
}

/** One shard gets a constraint that the other one lacks: its rows are dead letters, which are replayed without it. */
export async function countRefusals ({ nodes, traffic, auditAll, product, connect }: RefusalDeps): Promise<string> {
  const node = nodes.at(-1) as LabNode
  const alter = async (what: string): Promise<void> => {
    await connect(node.url('default')).command({ query: `ALTER TABLE events ${what}` })
  }
  await alter("ADD CONSTRAINT lab_refusal CHECK event != 'refused by a shard'")
  const events = Array.from({ length: REFUSED_EVENTS }, () => ({
    event: 'refused by a shard', distinct_id: 'person 1', uuid: randomUUID(), properties: { index: 0 }
  }))
  await product.send(events)
  traffic.acknowledged += events.length
  await traffic.send(100)
  const refused = await waitFor(async () => {
    const { body } = await product.call('GET', '/api/projects/1/dead_letters/?limit=100')
    const [row] = await connect(node.url('default', 'millrace_all')).query({
      query: "SELECT toUInt32(count()) AS stored FROM events WHERE event = 'refused by a shard'", format: 'JSONEachRow'
    }).then(async (result) => await result.json<{ stored: number }>())
    expect(body.count > 0 && body.count + row?.stored === events.length,
      `${body.count} dead letters and ${row?.stored} stored events of ${events.length}`)
    return body.count as number
  }, SOON)
  await alter('DROP CONSTRAINT lab_refusal')
  const { status } = await product.call('POST', '/api/projects/1/dead_letters/replay', {})
  expect(status === 200, `the replay was answered with ${status}`)
  return `${refused} dead letters, ${await auditAll()}`
}
