import { randomUUID } from 'node:crypto'
import type { Command } from 'commander'
import { type ClickHouse, connectClickHouse, onCluster, queryRows, systemTable } from '../../platform/clickhouse/connect-clickhouse.ts'
import { readStackState } from '../../embedded/data-dir/stack-access.ts'
import { loadSettings } from '../../platform/load-settings.ts'
import { OLDEST_NATS_SERVER } from '../../platform/nats/nats-server-floor.ts'
import { explainOldServers, findOldServers } from '../../platform/nats/server-versions.ts'
import {
  askEachNode, type ClusterNode, compareDefinitions, compareKeeper, compareMacros, compareNodes, compareReplicas,
  compareTables, COUNT_UNREPLICATED, type Definition, type Finding, judgeQuorum, LIST_NODES, listTablesOfNodes,
  listUnflushed, NODE_DEFINITION, NODE_KEEPER, NODE_MACROS, NODE_REPLICAS, NODE_VERSION, type NodeQuestion, note, ok,
  probeStatements, READ_QUORUM, unless, wrong
} from '../../schema/check-clickhouse.ts'
import { type CliContext, findAddress } from '../cli-context.ts'
import { collectStrings } from '../read-arguments.ts'
import { CHECKED_LOGINS, checkLogins, type CheckLoginsOptions, variableOf } from './check-logins.ts'
import { JSON_OPTION, type Output } from '../terminal-output.ts'

/** `millrace check`: whether servers of one's own can be trusted with events. */
export function addCheckCommands (program: Command, context: CliContext): void {
  const check = program.command('check').description('check your own servers before you rely on them, and after each change')

  check.command('clickhouse')
    .description('check ClickHouse with an administrator\'s login (CLICKHOUSE_URL, MILLRACE_CLICKHOUSE_CLUSTER): nodes, replicas, tokens,\n' +
      'logins. Inserts into a scratch database only. Exits with 1 if a check fails.\n' +
      `Tries the logins whose password is set: ${CHECKED_LOGINS.map(variableOf).join(', ')}`)
    .option('--node <url>', 'address of another node with the same login; separate several by commas', collectStrings)
    .option(...JSON_OPTION)
    .action(async ({ node = [], json }: Output & { node?: string[] }) => {
      const [url, client] = [await findAddress(context.env, 'CLICKHOUSE_URL'), await context.clickhouse()]
      const cluster = await context.cluster()
      report(context, await checkClickHouse({ url, client, cluster, nodes: node, env: context.env }), json)
    })
  check.command('nats')
    .description('check the nats-servers of NATS_URL and their cluster: whether each version keeps acknowledged messages in a\n' +
      'power cut')
    .option(...JSON_OPTION)
    .action(async ({ json }: Output) => {
      const { NATS_URL: url, MILLRACE_DATA_DIR: dataDir } = loadSettings(context.env, ['NATS_URL', 'MILLRACE_DATA_DIR'])
      const isDefault = (context.env.NATS_URL ?? '') === '' && (await readStackState(dataDir)).kind === 'none'
      if (isDefault) context.stderr.write(`NATS_URL is not set, and no stack was started on ${dataDir}: asking ${url}\n`)
      const old = explainOldServers(await findOldServers(await context.nats()))
      const found = old === null ? ok(`every server that answers is ${OLDEST_NATS_SERVER} or newer`) : wrong(old)
      report(context, [{ ...found, subject: 'versions' }], json)
    })
}

function report (context: CliContext, findings: readonly Finding[], json = false): void {
  const lines = findings.map(({ level, subject, text }) => `${level.padEnd(6)}${subject.padEnd(12)}${text}\n`)
  context.stdout.write(json ? `${JSON.stringify(findings, null, 2)}\n` : lines.join(''))
  if (findings.some(({ level }) => level === 'wrong')) context.exitCode = 1
}

/** `url` is that of an administrator. */
interface CheckClickHouseOptions extends CheckLoginsOptions { client: ClickHouse }

/** An insert costs some ten requests to Keeper one after the other, in milliseconds. */
const SLOW_INSERT_MS = 1000

type Check = (options: CheckClickHouseOptions, definition: Definition) => Promise<Finding[]>

const ON_ONE_NODE: [string, Check][] = [['tables', checkFlush], ['tokens', checkTokens], ['logins', checkLogins]]

const ON_A_CLUSTER: [string, Check][] = [
  ['definition', async (options, of) => compareDefinitions(of, await askNodes(options, NODE_DEFINITION))],
  ['macros', async (options, of) => compareMacros(of, await askNodes(options, NODE_MACROS))],
  ['tables', async ({ client, cluster }, of) => compareTables(of, await queryRows(client, listTablesOfNodes(systemTable(cluster, 'tables'))))],
  ['replicas', async (options, of) => compareReplicas(of, await askNodes(options, NODE_REPLICAS), databaseOf(options.url))],
  ['tables', checkFlush],
  ['keeper', async (options, of) => compareKeeper(of, await askNodes(options, NODE_KEEPER))],
  ['tokens', checkTokens],
  ['logins', checkLogins],
  ['quorum', async ({ client }, of) => judgeQuorum(of, await queryRows<{ quorum: string }>(client, READ_QUORUM))]
]

/** Looks at a ClickHouse before it is trusted; writes to a scratch table of its own and nothing else. */
async function checkClickHouse (options: CheckClickHouseOptions): Promise<Finding[]> {
  const findings: Finding[] = []
  const add = async (subject: string, look: Promise<Finding[]>): Promise<void> => {
    const found = await look.catch((error: unknown) => [wrong(`check failed: ${String(error).slice(0, 300)}`)])
    findings.push(...found.map((finding) => ({ ...finding, subject })))
  }
  const definition: Definition = { nodes: [], answering: [] }
  if (options.cluster !== '') {
    await add('nodes', checkNodes(options, definition))
    // Nobody else can be asked about a cluster.
    if (definition.answering.length === 0) return findings
  }
  for (const [subject, check] of options.cluster === '' ? ON_ONE_NODE : ON_A_CLUSTER) {
    if (subject === 'replicas' && findings.some((each) => each.level === 'wrong' && each.subject === 'macros')) continue
    await add(subject, check(options, definition))
  }
  return findings
}

async function askNodes<T> (
  { client, cluster }: CheckClickHouseOptions, question: NodeQuestion<T>
): Promise<(T & { place: number })[]> {
  return await queryRows(client, askEachNode(question, systemTable(cluster, question.table)), { cluster })
}

/** Completes the definition. Asked without the database, which a node may lack. */
async function checkNodes (options: CheckClickHouseOptions, definition: Definition): Promise<Finding[]> {
  const { url, cluster } = options
  const system = connectClickHouse({ url: new URL('/system', url).href, cluster })
  const nodes = await queryRows<ClusterNode>(system, LIST_NODES, { cluster, database: databaseOf(url) })
    .finally(async () => { await system.close() })
  if (nodes.length === 0) return [wrong(`no cluster ${cluster} in remote_servers of this node: add it, or set MILLRACE_CLICKHOUSE_CLUSTER to its name`)]
  if (nodes.every(({ own }) => own === 0)) return [wrong(`remote_servers of this node does not list it in ${cluster}, so ON CLUSTER statements skip it: use the address of a listed node, or add this one with its own address and tcp_port`)]
  if (nodes[0]?.migrated === 0) return [wrong(`no database ${databaseOf(url)}: run "millrace migrate"`)]
  const startedAt = performance.now()
  const rows = await askNodes(options, NODE_VERSION)
  Object.assign(definition, { nodes, answering: rows.map(({ place }) => place) } satisfies Definition)
  return compareNodes(definition, rows, performance.now() - startedAt)
}

const databaseOf = (url: string): string => new URL(url).pathname.slice(1)

const ALONE = 'events is not replicated: a kill -9 of this server in the middle of an insert may lose its token and store a repetition twice (docs/decisions/0008); a cluster of one node does not'
const NOT_OF_CLUSTER = 'the events table belongs to one server, not to the cluster: use another database, and copy the events there with "millrace move clickhouse"'

async function checkFlush ({ client, cluster }: CheckClickHouseOptions): Promise<Finding[]> {
  const rows = await queryRows<{ name: string }>(client, listUnflushed(systemTable(cluster, 'tables')))
  const alone = await queryRows<{ n: number }>(client, COUNT_UNREPLICATED)
  return [
    ...unless(rows.map(({ name }) => wrong(`${name} answers before its rows are on the disk: run "millrace migrate", or set fsync_after_insert = 1`)),
      'every table flushes what it confirms'),
    ...Number(alone[0]?.n) === 0 ? [] : [cluster === '' ? note(ALONE) : wrong(NOT_OF_CLUSTER)]
  ]
}

/** One insert, repeated through every node that is named, is stored once. */
async function checkTokens ({ url, client, cluster, nodes }: CheckClickHouseOptions): Promise<Finding[]> {
  const database = `millrace_check_${randomUUID().slice(0, 8)}`
  const probe = probeStatements(database, onCluster(cluster))
  const clients = nodes.map((node) => connectClickHouse({ url: node, cluster }))
  const insert = async (through: ClickHouse): Promise<void> => {
    await through.command({ query: probe.insert, clickhouse_settings: { insert_deduplication_token: database } })
  }
  try {
    await client.command({ query: probe.createDatabase })
    await client.command({ query: probe.createTable })
    const startedAt = performance.now()
    for (const each of [client, ...clients, client]) await insert(each)
    const ms = (performance.now() - startedAt) / (clients.length + 2)
    const [row] = await queryRows<{ rows: number }>(client, probe.count)
    const reached = new Set([url, ...nodes].map((node) => new URL(node).host)).size
    return [
      row?.rows === 100 ? ok(`an insert repeated through ${reached} addresses is stored once`) : wrong(`100 rows inserted ${clients.length + 2} times under one token are stored as ${row?.rows}: repeated inserts would be stored twice`),
      ms > SLOW_INSERT_MS ? wrong(`an insert takes ${Math.round(ms)} ms: check Keeper's disks and network`) : ok(`an insert takes ${Math.round(ms)} ms, Keeper included`),
      ...cluster !== '' && nodes.length === 0 ? [note('only one address was checked: pass the others with --node')] : []
    ]
  } finally {
    await client.command({ query: probe.drop }).catch(() => {})
    await Promise.all(clients.map(async (each) => { await each.close() }))
  }
}
