/**
 * Runs Millrace on a real ClickHouse cluster of 2 shards with 2 replicas each, adds a replica and a shard, and compares
 * what every node says:
 *
 *     npm run check:cluster [-- --keep]     # Linux on x64 with java, gcc, apt-get and dpkg; about ten minutes
 *
 * Each step stands for a promise of `docs/run/scaling.md`; prints one line each and exits with 1 when one does not
 * hold. `--keep` leaves the folder with the logs; `--until 'persons are merged'` ends after the step with these words.
 * What the cluster is and is not: `start-lab.ts`.
 */
import { randomUUID } from 'node:crypto'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { parseArgs } from 'node:util'
import { type ClickHouse, connectClickHouse, queryRows } from '../../../platform/clickhouse/connect-clickhouse.ts'
import { CHECKED_LOGINS, variableOf } from '../../../cli/commands/check-logins.ts'
import { runCli } from '../../../cli/run-cli.ts'
import { migrateClickHouse } from '../../../schema/migrate/migrate-clickhouse.ts'
import { supervise, type Supervise, type SupervisedPart } from '../../faults/system/supervise.ts'
import { waitFor } from '../../support/wait-for.ts'
import { addNode, removeReplica, removeShard, restoreBackup } from './change-nodes.ts'
import { compareHttp } from './compare-http.ts'
import { ALL, type Ask, audit, compareTables, expect } from './compare-nodes.ts'
import { moveIntoCluster } from './move-into-cluster.ts'
import { countKeeperRequests, countRefusals, countThroughKills, insertWithToken, readCounts } from './counts-under-faults.ts'
import { LAB_PASSWORD } from './lab-logins.ts'
import { deletePerson, walkApi } from './walk-api.ts'
import { createTraffic, openProduct } from './open-product.ts'
import { repairAndErase } from './repair-and-erase.ts'
import { recordStatements, type RefusedStatement } from './record-statements.ts'
import { LAB_CLUSTER, type LabNode, startLab } from './start-lab.ts'

const { values: { keep: keepsLogs, until } } = parseArgs({ options: { keep: { type: 'boolean', default: false }, until: { type: 'string' } } })
const TOPOLOGY = { cluster: LAB_CLUSTER }
const OWNER = 'millrace_owner'
const WAIT_MS = 120_000
/** The roll-up, the watch of disks and the copies of parts follow within seconds. */
const SOON = { timeoutMs: WAIT_MS, everyMs: 500 }

const dataDir = await mkdtemp(path.join(tmpdir(), 'millrace-check-cluster-'))
const giveUp = new AbortController()
const parts: SupervisedPart[] = []
const surprises: string[] = []
const keep: Supervise = async (name, start) => {
  const part = await supervise({ name, start, giveUp: giveUp.signal, onSurprise: (what) => surprises.push(what) })
  parts.push(part)
  return part
}
const closers: (() => Promise<unknown>)[] = []
let failures = 0
let isOver = false
process.once('SIGINT', () => giveUp.abort())
try {
  await walk()
} catch (error) {
  failures++
  process.stderr.write(`${error instanceof Error ? error.stack ?? error.message : String(error)}\n`)
}
for (const part of parts.reverse()) await part.stop()
for (const close of closers.reverse()) await close()
if (keepsLogs) process.stdout.write(`logs: ${dataDir}\n`)
else await rm(dataDir, { recursive: true, force: true })
process.stdout.write(failures > 0 ? `${failures} steps failed\n` : `the cluster does what docs/run/scaling.md says${isOver ? ', as far as was asked' : ''}\n`)
process.exit(failures === 0 ? 0 : 1)

/** Runs one step; later steps run even if it fails. It returns a remark. */
async function step (name: string, run: () => Promise<string | undefined>): Promise<void> {
  if (isOver) return
  const startedAt = performance.now()
  giveUp.signal.throwIfAborted()
  const outcome = await run().then((said) => `ok    ${name}${said === undefined ? '' : `: ${said}`}`, (error: unknown) => {
    failures++
    return `FAIL  ${name}: ${error instanceof Error ? error.message : String(error)}`
  })
  process.stdout.write(`${((performance.now() - startedAt) / 1000).toFixed(1).padStart(6)} s  ${outcome}\n`)
  isOver = until !== undefined && name.includes(until)
}

interface Health { parts: { name: string, answering?: number, all?: number }[] }

async function waitUntilDone (run: () => Promise<void>): Promise<void> {
  await waitFor(async () => {
    await run()
    return true
  }, SOON)
}

async function walk (): Promise<void> {
  await step('the embedded server answers as ClickHouse does, but for what its README lists', async () =>
    await compareHttp(path.join(dataDir, 'alone'), giveUp.signal))
  const lab = await startLab({ dataDir, shards: [1, 1, 2, 2] }, keep)
  closers.push(lab.close)
  const clients = new Map<string, ClickHouse>()
  closers.push(async () => await Promise.all([...clients.values()].map(async (client) => { await client.close() })))
  const connect = (url: string): ClickHouse => {
    const client = clients.get(url) ?? connectClickHouse({ url, cluster: LAB_CLUSTER })
    clients.set(url, client)
    return client
  }
  const ask: Ask = async (node, query, { user = 'default', database = 'millrace' } = {}) =>
    await queryRows(connect(node.url(user, database)), query)
  const migrate = async (node: LabNode): Promise<string[]> => await migrateClickHouse(node.url(OWNER), TOPOLOGY)
  const [first, second, third] = lab.nodes as [LabNode, LabNode, LabNode]

  await step('migrations run through one node, and no node has any left', async () => {
    await migrateClickHouse(first.url('default'), TOPOLOGY)
    for (const node of lab.nodes) {
      const applied = await migrate(node)
      expect(applied.length === 0, `${node.name} applied ${applied.join(', ')} again`)
    }
    return undefined
  })
  await step('every node has every table, at a path that follows from names', async () => await compareTables(lab.nodes, ask))

  const recorder = await recordStatements(lab.url('default'))
  closers.push(recorder.close)
  const product = await openProduct({
    dataDir,
    cluster: LAB_CLUSTER,
    urls: {
      pipeline: recorder.throughRecorder(lab.url('millrace_pipeline')),
      api: recorder.throughRecorder(lab.url('millrace_api', ALL)),
      analyst: recorder.throughRecorder(lab.url('analyst', ALL))
    }
  }, keep)
  closers.push(product.close)
  const traffic = createTraffic(product)
  const auditAll = async (): Promise<string> =>
    await waitFor(async () => await audit(lab.nodes, ask, traffic.acknowledged), SOON)

  await step('events are stored once, and every node counts them, their views too', async () => {
    await traffic.send(2000)
    return await auditAll()
  })
  const runMillrace = async (user: string, ...args: string[]): Promise<{ code: number, out: string }> => {
    let out = ''
    const write = (text: string): void => { out += text }
    const env = {
      CLICKHOUSE_URL: first.url(user),
      MILLRACE_CLICKHOUSE_CLUSTER: LAB_CLUSTER,
      ...Object.fromEntries(CHECKED_LOGINS.map((login) => [variableOf(login), LAB_PASSWORD]))
    }
    return { code: await runCli(args, { env, now: Date.now, stdout: { write }, stderr: { write } }), out }
  }
  const check = async (): Promise<{ code: number, out: string }> => {
    const others = lab.nodes.filter((node) => node !== first && node.isRunning()).map((node) => node.url('default'))
    return await runMillrace('default', 'check', 'clickhouse', '--node', others.join(','))
  }
  await step('"millrace check clickhouse" finds nothing wrong', async () => {
    const { code, out } = await check()
    expect(code === 0 && !/^wrong/m.test(out), `it ends with ${code}: ${out}`)
    return `${out.split('\n').length} lines`
  })
  await step('definitions are rolled up', async () => await waitFor(async () => {
    const { body } = await product.call('GET', '/api/projects/1/event_definitions/?limit=100')
    const { results } = body as { results: { volume_30_day: number }[] }
    const volumes = results.reduce((sum, { volume_30_day: volume }) => sum + volume, 0)
    expect(volumes === traffic.acknowledged, `definitions count ${volumes} of ${traffic.acknowledged} events`)
    return `${volumes} events of ${body.count} definitions`
  }, SOON))
  await step('the status counts each event once, whatever the number of replicas', async () => {
    const { status, body } = await product.call('GET', '/api/status')
    const text = JSON.stringify(body)
    expect(status === 200 && text.includes(`"events":${traffic.acknowledged}`), `status ${status}: ${text.slice(0, 600)}`)
    return undefined
  })
  await step('an analyst compares a table with itself', async () => {
    const [row] = await ask<{ n: string }>(second, `SELECT count() AS n FROM events
      WHERE distinct_id IN (SELECT distinct_id FROM events WHERE event = 'paid')`, { user: 'analyst', database: ALL })
    expect(Number(row?.n) > 0, 'no row')
    const skipping = await ask(second, "SELECT volume FROM event_volumes_by_day WHERE project_id = 1 AND event = 'paid' SETTINGS optimize_skip_unused_shards = 1",
      { user: 'analyst', database: ALL }).then(() => 'answered', String)
    expect(skipping.includes('should not be changed'), `a query that leaves out shards is ${skipping}`)
    return `${row?.n} rows`
  })
  await step('the management API answers on every path', async () => await walkApi(product))
  await step('a person and its events are deleted on every node, by one mutation of each table', async () =>
    await deletePerson({ nodes: lab.nodes, ask, product, traffic }))
  await step('persons are merged, split, counted in a cohort, anonymised and erased on every node', async () =>
    await repairAndErase({ nodes: lab.nodes, ask, product, traffic }))
  await step('tokens are recognised by every node, with a replica dead and after restarts', async () => {
    const token = randomUUID()
    const insertThrough = async (nodes: readonly LabNode[]): Promise<void> => {
      for (const node of nodes) {
        await waitUntilDone(async () => { await insertWithToken(connect(node.url('millrace_pipeline', ALL)), token) })
      }
    }
    await insertThrough(lab.nodes)
    const revive = await second.keepStopped('kill')
    await insertThrough(lab.nodes.filter((each) => each !== second))
    await revive()
    for (const node of lab.nodes) await node.restart()
    await insertThrough(lab.nodes)
    return await waitFor(async () => await readCounts(connect(third.url('default', ALL)), token), SOON)
  })
  await step('an insert asks Keeper as often as docs/run/scaling.md says', async () =>
    await countKeeperRequests({ nodes: lab.nodes, ask, client: connect(first.url('millrace_pipeline', ALL)) }))
  await step('an insert that must reach two replicas waits for a dead one, and is stored once', async () => {
    const token = randomUUID()
    const settings = { insert_quorum: '2', insert_quorum_timeout: 5000 }
    const client = connect(first.url('millrace_pipeline', ALL))
    const revive = await second.keepStopped('kill')
    await delay(1000)
    const isRefused = await insertWithToken(client, token, settings).then(() => false, () => true)
    await revive()
    expect(isRefused, 'it was confirmed by one replica')
    await waitUntilDone(async () => { await insertWithToken(client, token, settings) })
    return await waitFor(async () => await readCounts(connect(third.url('default', ALL)), token), SOON)
  })
  const passOver = async (without: () => Promise<() => Promise<void>>): Promise<string> => {
    const revive = await without()
    try {
      const startedAt = performance.now()
      await migrate(third)
      const seconds = (performance.now() - startedAt) / 1000
      expect(seconds < 60, `the migration took ${seconds.toFixed(0)} s`)
      await waitUntilDone(async () => {
        const { parts } = await (await fetch(`${product.pipelineUrl}/_health`)).json() as Health
        const nodes = parts.find(({ name }) => name === 'clickhouse nodes')
        expect(nodes?.answering === 3 && nodes.all === 4, `health says ${JSON.stringify(nodes)}`)
        const disks = parts.filter(({ name }) => name.startsWith('clickhouse disk'))
        expect(disks.length > 0, 'health knows no disk of the other nodes')
      })
      const { code, out } = await runMillrace('default', 'check', 'clickhouse', '--node', third.url('default'))
      expect(code === 1 && out.includes(`:${second.tcpPort} does not answer`), `"millrace check clickhouse" ends with ${code}: ${out}`)
      await traffic.send(200)
      return `migrated in ${seconds.toFixed(1)} s, all in ${((performance.now() - startedAt) / 1000).toFixed(1)} s`
    } finally {
      await revive()
    }
  }
  await step('a dead replica delays no migration, and health says which nodes are left', async () =>
    await passOver(async () => await second.keepStopped('kill')))
  await step('a replica that hangs delays neither, and check names it', async () => await passOver(async () => {
    await second.pause()
    return async () => { await second.resume() }
  }))
  await step('the replica has what it missed', auditAll)
  const counts = { nodes: lab.nodes, traffic, auditAll, product, connect }
  await step('an insert in which a replica is killed counts once, in the views too', async () => await countThroughKills(counts))
  await step('what one shard refuses is a dead letter, and the rest counts once', async () => await countRefusals(counts))
  const pipeline = product.parts.find(({ name }) => name === 'pipeline') as SupervisedPart
  const changes = { lab, ask, connect, migrate, pipeline, natsUrl: product.natsUrl, traffic, auditAll }
  await step('a new replica gets every table and its rows, under load', async () => await addNode(changes, 2))
  await step('a new shard, migrated through its empty node while an insert is unfinished, misses nothing', async () => await addNode(changes, 3))
  await step('a shard is taken away while an insert is unfinished, and its rows are on the others', async () => await removeShard(changes))
  await step('a replica is taken away, under load', async () => await removeReplica(changes))
  await step('"millrace check clickhouse" finds nothing wrong with the nodes that are left', async () => {
    const { code, out } = await check()
    expect(code === 0 && !/^wrong/m.test(out), `it ends with ${code}: ${out}`)
    return undefined
  })
  await step('a single server is moved into the cluster, with kill -9 in the middle, and the sides are equal', async () =>
    await moveIntoCluster({ dataDir, target: first.url('default', 'moved'), cluster: LAB_CLUSTER, rows: 300_000 }, keep))
  await step('a backup of all nodes is restored, and what waited in the stream is stored once', async () => await restoreBackup(changes))
  await step('no statement of the product was refused', async () => {
    const refused = recorder.refused.filter((each) => !isPassing(each.code) && !isExpected(each))
    const lines = [...new Set(refused.map(({ login, code, statement, error }) =>
      `\n        ${login} ${code}: ${statement.slice(0, 160)} -- ${error.slice(0, 240).replaceAll(/\s+/g, ' ')}`))]
    expect(lines.length === 0, lines.join(''))
    return [...recorder.ran].map(([login, texts]) => `${texts.size} of ${login}`).join(', ')
  })
}

/** What a node answers while it starts, ends, or has lost ZooKeeper or another node: the product asks again. */
function isPassing (code: string): boolean {
  return ['32', '159', '202', '209', '210', '225', '236', '242', '279', '285', '286', '319', '394', '999'].includes(code)
}

/** Planted refusals of a shard, a table that the nodes lack, and a deletion that the API leaves to the pipeline. */
function isExpected ({ login, statement, error }: RefusedStatement): boolean {
  return error.includes('lab_refusal') || statement.includes('system.asynchronous_metrics') || (login === 'millrace_api' && statement.startsWith('INSERT INTO person'))
}
