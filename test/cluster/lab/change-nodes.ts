/** Adds nodes to the cluster and takes them away as `docs/run/scaling.md` says, and restores a backup of all of it. */
import { setTimeout as delay } from 'node:timers/promises'
import { readPositions } from '../../../pipeline/accounting/partition-positions.ts'
import type { ClickHouse } from '../../../platform/clickhouse/connect-clickhouse.ts'
import { createLogger } from '../../../platform/logger.ts'
import { connectNats } from '../../../platform/nats/connect-nats.ts'
import type { SupervisedPart } from '../../faults/system/supervise.ts'
import { waitFor } from '../../support/wait-for.ts'
import { ALL, type Ask, compareTables, expect } from './compare-nodes.ts'
import { type ClickHouseLab, LAB_CLUSTER, type LabNode } from './start-lab.ts'
import type { Traffic } from './open-product.ts'

interface Changes {
  lab: ClickHouseLab
  ask: Ask
  connect: (url: string) => ClickHouse
  /** @returns the migrations that were applied. */
  migrate: (node: LabNode) => Promise<string[]>
  pipeline: SupervisedPart
  natsUrl: string
  traffic: Traffic
  /** Waits until each node counts the events of the traffic, its views too. */
  auditAll: () => Promise<string>
}

const SOON = { timeoutMs: 120_000, everyMs: 500 }

/** Spread over the shards; the other tables are whole on every node. */
const SHARDED = ['events', 'event_traces', 'ingestion_warnings_by_source', 'ledger_by_source', 'watermark_reached']

/** Long enough for an insert to begin, which comes every half second under load. */
const BEGIN_MS = 3000

/** Stops the pipeline while the second shard hangs, so that an insert is left unfinished, which ends without it. */
async function stopWithinInsert ({ lab, ask, pipeline, natsUrl }: Changes): Promise<() => Promise<void>> {
  const hung = lab.nodes.filter(({ shard }) => shard === 2)
  for (const node of hung) await node.pause()
  await delay(BEGIN_MS)
  const start = await pipeline.keepStopped()
  for (const node of hung) await node.resume()
  const connection = await connectNats({ url: natsUrl, name: 'lab', logger: createLogger({ component: 'lab', level: 'silent' }) })
  const underWay = [...(await readPositions(connection)).values()].flatMap((each) => each.underWay)
  await connection.close()
  expect(underWay.length > 0, 'no insert is unfinished')
  await waitFor(async () => {
    const running = await Promise.all(lab.nodes.map(async (node) => await ask(node, "SELECT 1 FROM system.processes WHERE query_kind = 'Insert'")))
    return running.flat().length === 0
  }, SOON)
  return start
}

/** Adds a node under load, migrated through itself; a shard while an insert is unfinished. */
export async function addNode (changes: Changes, shard: number): Promise<string> {
  const { lab, ask, migrate, pipeline, traffic, auditAll } = changes
  const isNewShard = lab.nodes.every((node) => node.shard !== shard)
  const going = traffic.start()
  const node = await lab.add(shard)
  const applied = await migrate(node)
  // Its views name their inserts as those of the others only after a restart.
  await node.restart()
  const startPipeline = isNewShard ? await stopWithinInsert(changes) : await pipeline.keepStopped()
  await lab.join(node)
  await startPipeline()
  await traffic.send(500)
  await going.stop()
  expect(applied.length === 0, `it applied ${applied.join(', ')} again`)
  expect((await migrate(lab.nodes[0] as LabNode)).length === 0, 'an old node applied something')
  const said = await auditAll()
  const [own] = await ask<{ n: string }>(node, 'SELECT count() AS n FROM events SETTINGS final = 0')
  expect(Number(own?.n) > 0, 'the new node has no event')
  return `${await waitFor(async () => await compareTables(lab.nodes, ask), SOON)}, ${said}, ${own?.n} on the new node`
}

/** Takes the last node away, which is the only one of its shard. */
export async function removeShard (changes: Changes): Promise<string> {
  const { lab, ask, connect, traffic, auditAll } = changes
  const node = lab.nodes.at(-1) as LabNode
  const first = lab.nodes[0] as LabNode
  const going = traffic.start()
  const startPipeline = await stopWithinInsert(changes)
  await lab.leave(node)
  const [own] = await ask<{ n: string }>(node, 'SELECT count() AS n FROM events SETTINGS final = 0')
  for (const table of SHARDED) {
    // Twice, as after an answer that got lost.
    for (let times = 0; times < 2; times++) {
      await connect(first.url('default', ALL)).command({
        query: `INSERT INTO ${table} SELECT * FROM remote('127.0.0.1:${node.tcpPort}', millrace, ${table}) ORDER BY ALL
          SETTINGS final = 0, distributed_foreground_insert = 1, max_threads = 1, insert_deduplication_token = 'shard 3 ${table}',
            deduplicate_insert_select = 'enable_when_possible'`
      })
    }
  }
  await endNode(changes, node)
  await startPipeline()
  await going.stop()
  return `${own?.n} events copied, ${await auditAll()}`
}

/** Takes the last replica of the second shard away. */
export async function removeReplica (changes: Changes): Promise<string> {
  const { lab, pipeline, traffic, auditAll } = changes
  const node = lab.nodes.findLast(({ shard }) => shard === 2) as LabNode
  const going = traffic.start()
  const startPipeline = await pipeline.keepStopped()
  await lab.leave(node)
  await endNode(changes, node)
  await startPipeline()
  await going.stop()
  return await auditAll()
}

/** Ends a node that nobody inserts through any more, once another one has what it confirmed. */
async function endNode ({ lab, ask, connect }: Changes, node: LabNode): Promise<void> {
  const replica = `clickhouse-${node.index}`
  const other = lab.nodes.find(({ shard }) => shard === node.shard) ?? lab.nodes[0] as LabNode
  for (const { name } of await ask<{ name: string }>(other, "SELECT table AS name FROM system.replicas WHERE database = 'millrace'")) {
    await connect(other.url('default')).command({ query: `SYSTEM SYNC REPLICA ${name}` })
  }
  const paths = await ask<{ path: string }>(node, `SELECT zookeeper_path AS path FROM system.replicas
    WHERE database = 'millrace' AND replica_name = '${replica}'`)
  await node.stop()
  await waitFor(async () => {
    for (const name of [replica, `${node.shard}-${replica}`]) {
      await connect(other.url('default')).command({ query: `SYSTEM DROP REPLICA '${name}'` })
    }
    // No other node has the tables of a shard that is gone.
    for (const { path } of other.shard === node.shard ? [] : paths) {
      await connect(other.url('default')).command({ query: `SYSTEM DROP REPLICA '${replica}' FROM ZKPATH '${path}'` })
    }
    return true
  }, SOON)
  await waitFor(async () => await compareTables(lab.nodes, ask), SOON)
}

/** Backs all nodes up, drops the tables on all of them, and restores them. */
export async function restoreBackup (changes: Changes): Promise<string> {
  const { lab, ask, connect, traffic, auditAll } = changes
  const going = traffic.start()
  const startPipeline = await stopWithinInsert(changes)
  const client = connect((lab.nodes[0] as LabNode).url('default', 'system'))
  const everywhere = `ON CLUSTER '${LAB_CLUSTER}'`
  const count = async (): Promise<number> =>
    Number((await ask<{ n: string }>(lab.nodes[1] as LabNode, 'SELECT count() AS n FROM events SETTINGS final = 0', { database: ALL }))[0]?.n)
  const before = await count()
  await client.command({ query: `BACKUP DATABASE millrace ${everywhere} TO File('lab')` })
  await client.command({ query: `DROP DATABASE millrace ${everywhere} SYNC` })
  await client.command({ query: `RESTORE DATABASE millrace ${everywhere} FROM File('lab')` })
  const after = await count()
  await startPipeline()
  await going.stop()
  expect(after === before, `${after} of ${before} events are restored`)
  return `${before} events, ${await auditAll()}`
}
