import { randomUUID } from 'node:crypto'
import type { Command } from 'commander'
import { type ClickHouse, connectClickHouse, onCluster, queryRows, systemTable } from '../../platform/clickhouse/connect-clickhouse.ts'
import { readStackState } from '../../embedded/data-dir/stack-access.ts'
import { loadSettings } from '../../platform/load-settings.ts'
import { OLDEST_NATS_SERVER } from '../../platform/nats/nats-server-floor.ts'
import { findOldServers, judgeOldServers } from '../../platform/nats/server-versions.ts'
import {
  askEachNode, COUNT_UNREPLICATED, LIST_NODES, listTablesOfNodes, listUnflushed, NODE_DEFINITION, NODE_KEEPER,
  NODE_MACROS, NODE_REPLICAS, NODE_VERSION, type NodeQuestion, probeStatements, READ_QUORUM
} from '../../schema/check-statements.ts'
import { pathInKeeper } from '../../schema/migrate/clickhouse-topology.ts'
import { type CliContext, findAddress } from '../cli-context.ts'
import { collectStrings } from '../read-arguments.ts'
import { CHECKED_LOGINS, findLoginFaults, type FindLoginFaultsOptions, variableOf } from './check-logins.ts'
import { JSON_OPTION, type Output } from '../terminal-output.ts'

/** `millrace check`: whether servers of one's own can be trusted with events. */
export function addCheckCommands (program: Command, context: CliContext): void {
  const check = program.command('check').description('look at servers of your own before they are trusted, and after each change')

  check.command('clickhouse')
    .description('look at ClickHouse with an administrator\'s login (CLICKHOUSE_URL, MILLRACE_CLICKHOUSE_CLUSTER): nodes, replicas, tokens,\n' +
      'logins. Inserts into a scratch database only. Exits with 1 when something is wrong.\n' +
      `Tries the logins whose password is set: ${CHECKED_LOGINS.map(variableOf).join(', ')}`)
    .option('--node <url>', 'address of a further node with the same login; separate several by commas', collectStrings)
    .option(...JSON_OPTION)
    .action(async ({ node = [], json }: Output & { node?: string[] }) => {
      const passwords = new Map(CHECKED_LOGINS.flatMap((login) => {
        const password = context.env[variableOf(login)] ?? ''
        return password === '' ? [] : [[login, password] as const]
      }))
      const findings = await checkClickHouse({
        url: await findAddress(context.env, 'CLICKHOUSE_URL'), client: await context.clickhouse(), cluster: await context.cluster(), nodes: node, passwords
      })
      report(context, findings, json)
    })
  check.command('nats')
    .description('look at the nats-servers of NATS_URL and their cluster: whether each nats-server is a version that keeps what it acknowledged when\n' +
      'the power is cut')
    .option(...JSON_OPTION)
    .action(async ({ json }: Output) => {
      const { NATS_URL: url, MILLRACE_DATA_DIR: dataDir } = loadSettings(context.env, ['NATS_URL', 'MILLRACE_DATA_DIR'])
      const isDefault = (context.env.NATS_URL ?? '') === '' && (await readStackState(dataDir)).kind === 'none'
      if (isDefault) context.stderr.write(`NATS_URL is not set, and no stack was started on ${dataDir}: asking ${url}\n`)
      const { refused } = judgeOldServers(await findOldServers(await context.nats()), 'refuse')
      const found = refused === null ? ok(`every server that answers is ${OLDEST_NATS_SERVER} or newer`) : wrong(refused)
      report(context, [{ ...found, subject: 'versions' }], json)
    })
}

function report (context: CliContext, findings: readonly Finding[], json = false): void {
  const lines = findings.map(({ level, subject, text }) => `${level.padEnd(6)}${subject.padEnd(12)}${text}\n`)
  context.stdout.write(json ? `${JSON.stringify(findings, null, 2)}\n` : lines.join(''))
  if (findings.some(({ level }) => level === 'wrong')) context.exitCode = 1
}

/** What one look at a ClickHouse found. */
export interface Finding {
  /** `wrong`: the promise of stored events or an answer depends on it. `note`: worth knowing. */
  level: 'ok' | 'note' | 'wrong'
  /** What was looked at. */
  subject: string
  /** What is, and what to do about it. */
  text: string
}

/** `url` is that of an administrator. */
interface CheckClickHouseOptions extends FindLoginFaultsOptions {
  client: ClickHouse
  /** Addresses of further nodes with the same login, for what is inserted through each. */
  nodes: readonly string[]
}

/** Clocks of nodes may differ by so much, in milliseconds: ingest sets times of events, nodes those of their parts. */
const MAX_CLOCK_DIFFERENCE_MS = 2000
/** Distributed tables leave out a replica that is behind by more (`max_replica_delay_for_distributed_queries`). */
const MAX_DELAY_SECONDS = 300
/** An insert costs some ten requests to Keeper one after the other, in milliseconds. */
const SLOW_INSERT_MS = 1000
const SLOW_KEEPER_MS = 100

type Check = (options: CheckClickHouseOptions) => Promise<Finding[]>

/** Looks at a ClickHouse before it is trusted; writes to a scratch table of its own and nothing else. */
async function checkClickHouse (options: CheckClickHouseOptions): Promise<Finding[]> {
  const checks: [subject: string, check: Check][] = options.cluster === ''
    ? [['tables', checkFlush], ['tokens', checkTokens], ['logins', checkLogins]]
    : [
        ['nodes', checkNodes], ['definition', checkDefinition], ['macros', checkMacros], ['tables', checkTables],
        ['replicas', checkReplicas], ['tables', checkFlush], ['keeper', checkKeeper], ['tokens', checkTokens],
        ['logins', checkLogins], ['quorum', checkQuorum]
      ]
  const findings: Finding[] = []
  for (const [subject, check] of checks) {
    if (check === checkReplicas && findings.some(({ level, subject }) => level === 'wrong' && subject === 'macros')) continue
    const found = await check(options).catch((error: unknown) => [wrong(`cannot be checked: ${messageOf(error)}`)])
    findings.push(...found.map((finding) => ({ ...finding, subject })))
  }
  return findings
}

const ok = (text: string): Finding => ({ level: 'ok', subject: '', text })
const note = (text: string): Finding => ({ level: 'note', subject: '', text })
const wrong = (text: string): Finding => ({ level: 'wrong', subject: '', text })
const messageOf = (error: unknown): string => (error instanceof Error ? error.message : String(error)).slice(0, 300)

/** The complaints, or what is fine when there is none. */
const unless = (complaints: readonly Finding[], fine: string): Finding[] =>
  complaints.length > 0 ? [...complaints] : [ok(fine)]

/** Every node by its place in the cluster's definition. */
async function readDefinition ({ client, cluster }: CheckClickHouseOptions) {
  return await queryRows<{ shard: number, node: string }>(client, LIST_NODES, { cluster })
}

/** Rows of a query of every node that answers; `place` counts from 1 as the definition does. */
async function askNodes<T> (
  { client, cluster }: CheckClickHouseOptions, question: NodeQuestion
): Promise<(T & { place: number })[]> {
  return await queryRows(client, askEachNode(question, systemTable(cluster, question.table)), { cluster })
}

const checkNodes: Check = async (options) => {
  const definition = await readDefinition(options)
  if (definition.length === 0) return [wrong(`no cluster ${options.cluster} in remote_servers of this node: add it, or set MILLRACE_CLICKHOUSE_CLUSTER to its name`)]
  const answering = await askNodes<{ version: string, now: number }>(options, NODE_VERSION)
  const silent = definition.filter((_, index) => answering.every(({ place }) => place !== index + 1))
  const versions = [...new Set(answering.map(({ version }) => version))]
  const clocks = answering.map(({ now }) => now)
  const difference = Math.max(...clocks) - Math.min(...clocks)
  return [
    ...unless(silent.map(({ node }) => wrong(`${node} does not answer: start it, or take it out of remote_servers of all nodes`)),
      `${answering.length} nodes answer`),
    versions.length === 1 ? ok(`all run ${versions[0]}`) : note(`they run ${versions.join(' and ')}: fine during an upgrade, otherwise run one version`),
    difference > MAX_CLOCK_DIFFERENCE_MS ? wrong(`their clocks differ by ${Math.round(difference)} ms: run NTP on every node`) : ok('their clocks agree')
  ]
}

const checkDefinition: Check = async (options) => {
  const definition = await readDefinition(options)
  const seen = await askNodes<{ nodes: string, internal: number }>(options, NODE_DEFINITION)
  const own = definition.map(({ shard, node }) => `${shard}/${node}`).join(' ')
  return unless(seen.flatMap(({ place, nodes, internal }) => {
    const node = definition[place - 1]?.node
    return [
      ...internal === 1 ? [] : [wrong(`${node}: internal_replication is not true for every shard: rows would be written to each replica and copied as well; set it`)],
      ...nodes === own ? [] : [wrong(`${node} has the shards and replicas ${nodes}, the node that is asked ${own}: give every node the same remote_servers in the same order, or repeated inserts go to other shards`)]
    ]
  }), 'every node has the same remote_servers in the same order, with internal_replication')
}

const checkMacros: Check = async (options) => {
  const definition = await readDefinition(options)
  const rows = await askNodes<MacroRow>(options, NODE_MACROS)
  const macros = definition.map((node, index) => ({
    ...node, ...Object.fromEntries(rows.filter(({ place }) => place === index + 1).map(({ macro, substitution }) => [`{${macro}}`, substitution]))
  } as typeof node & Record<'{shard}' | '{replica}', string | undefined>))
  const answering = macros.filter((_, index) => rows.some(({ place }) => place === index + 1))
  const complaints = macros.flatMap(({ node, '{shard}': shard, '{replica}': replica }, index) => {
    if (shard === undefined || replica === undefined) {
      return rows.some(({ place }) => place === index + 1) ? [wrong(`${node} lacks the macro ${shard === undefined ? 'shard' : 'replica'}: its tables would have no path`)] : []
    }
    const twin = macros.slice(0, index).find((other) => other['{shard}'] === shard && other['{replica}'] === replica)
    return twin === undefined ? [] : [wrong(`${node} and ${twin.node} have the same shard and replica: they would take turns as one; give each its own replica`)]
  })
  const shards = [...Map.groupBy(answering, ({ shard }) => shard).values()].map((nodes) => new Set(nodes.map((node) => node['{shard}'])))
  if (shards.some((names) => names.size > 1) || new Set(shards.map((names) => [...names][0])).size < shards.length) {
    complaints.push(wrong('the macro shard does not follow remote_servers: replicas of a shard must share it, and no two shards may. It is ' +
      answering.map((node) => `${node['{shard}']} on ${node.node} of shard ${node.shard}`).join(', ')))
  }
  return unless(complaints, 'each node has its shard and replica')
}

const checkTables: Check = async (options) => {
  const definition = await readDefinition(options)
  const tables = await queryRows<{ name: string, places: number[] }>(options.client, listTablesOfNodes(systemTable(options.cluster, 'tables')))
  if (tables.length === 0) return [wrong('no node has a table: run "millrace migrate"')]
  const answering = new Set((await askNodes(options, NODE_VERSION)).map(({ place }) => place))
  return unless([...answering].flatMap((place) => {
    const missing = tables.filter(({ places }) => !places.includes(place)).map(({ name }) => name)
    const some = missing.slice(0, 3).join(', ')
    return missing.length === 0 ? [] : [wrong(`${definition[place - 1]?.node} lacks ${missing.length} tables (${some}): run "millrace migrate"`)]
  }), `every node has ${tables.length} tables and views`)
}

interface MacroRow { macro: string, substitution: string }
interface ReplicaRow { name: string, path: string, all: number, active: number, delay: number, frozen: number }

const checkReplicas: Check = async (options) => {
  const definition = await readDefinition(options)
  const rows = await askNodes<ReplicaRow>(options, NODE_REPLICAS)
  const macros = await askNodes<MacroRow>(options, NODE_MACROS)
  return unless(rows.flatMap(({ place, name, path, all, active, delay, frozen }) => {
    const { node, shard } = definition[place - 1] ?? { node: '?', shard: 0 }
    const wanted = path.startsWith('/clickhouse/tables/all/') ? definition.length : definition.filter((other) => other.shard === shard).length
    const own = macros.find((macro) => macro.place === place && macro.macro === 'shard')?.substitution ?? ''
    const right = pathInKeeper(new URL(options.url).pathname.slice(1), name, own)
    if (path !== right) return [wrong(`${node} has ${name} at ${path} in Keeper instead of ${right}, where the other replicas are: DROP TABLE ${name} SYNC on that node, then "millrace migrate"`)]
    return [
      ...all >= wanted ? [] : [wrong(`${node}: ${name} has ${all} replicas, remote_servers says ${wanted}: run "millrace migrate" on the node that lacks it, or look for one that has it at another path`)],
      ...all <= wanted ? [] : [wrong(`${node}: ${name} has ${all} replicas, ${active} of them at work, and remote_servers says ${wanted}: name a node that was added there, SYSTEM DROP REPLICA for one that is gone`)],
      ...active === all ? [] : [wrong(`${node}: ${name} has ${active} of ${all} replicas at work: start the other ones`)],
      ...frozen === 0 ? [] : [wrong(`${node}: ${name} is read-only: it has no session with Keeper, or its path is missing there (SYSTEM RESTORE REPLICA)`)],
      ...delay <= MAX_DELAY_SECONDS ? [] : [wrong(`${node}: ${name} is ${delay} s behind: let it catch up before it is asked`)]
    ]
  }), `${rows.length} replicas of tables are complete, at work and not behind`)
}

const ALONE = 'events is not replicated: a kill -9 of this server in the middle of an insert may lose its token and store a repetition twice (docs/decisions/0008); a cluster of one node does not'
const NOT_OF_CLUSTER = 'events is of one server, not of the cluster: name another database, and bring the events there by "millrace move clickhouse"'

const checkFlush: Check = async ({ client, cluster }) => {
  const rows = await queryRows<{ name: string }>(client, listUnflushed(systemTable(cluster, 'tables')))
  const alone = await queryRows<{ n: number }>(client, COUNT_UNREPLICATED)
  return [
    ...unless(rows.map(({ name }) => wrong(`${name} answers before its rows are on the disk: run "millrace migrate", or set fsync_after_insert = 1`)),
      'every table flushes what it confirms'),
    ...Number(alone[0]?.n) === 0 ? [] : [cluster === '' ? note(ALONE) : wrong(NOT_OF_CLUSTER)]
  ]
}

/** Of each address that is named: each node has logins and rights of its own. */
const checkLogins: Check = async (options) => {
  const found = await Promise.all([options.url, ...options.nodes].map(async (url) =>
    (await findLoginFaults({ ...options, url })).map((each) => ({ ...each, at: new URL(url).host }))))
  const byLogin = [...Map.groupBy(found.flat(), ({ login }) => login)]
  return byLogin.flatMap(([login, nodes]) => nodes.every(({ faults }) => faults === undefined)
    ? [note(`${login} was not tried: set ${variableOf(login)}`)]
    : unless(nodes.flatMap(({ at, faults = [] }) => faults.map((fault) => wrong(`${login} at ${at} ${fault}`))),
      `${login} has each right of deploy/clickhouse at ${nodes.length} addresses, and may ask what it asks`))
}

/** Requests of all nodes to Keeper since their start, and how long one waited. */
const checkKeeper: Check = async (options) => {
  const definition = await readDefinition(options)
  const rows = await askNodes<{ ms: number }>(options, NODE_KEEPER)
  const slow = rows.filter(({ ms }) => ms > SLOW_KEEPER_MS)
  return unless(slow.map(({ place, ms }) => wrong(`${definition[place - 1]?.node} waits ${Math.round(ms)} ms for an answer of Keeper: an insert takes some ten of them; look at its disks and network`)),
    `Keeper answers in ${Math.max(...rows.map(({ ms }) => ms)).toFixed(1)} ms, the mean since the start of a node`)
}

/** One insert, repeated through every node that is named, is stored once. */
const checkTokens: Check = async ({ url, client, cluster, nodes }) => {
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
      row?.rows === 100 ? ok(`an insert repeated through ${reached} addresses is stored once`) : wrong(`100 rows that were inserted ${clients.length + 2} times under one token count as ${row?.rows}: repeated inserts would be stored twice`),
      ms > SLOW_INSERT_MS ? wrong(`an insert takes ${Math.round(ms)} ms: look at the disks and the network of Keeper`) : ok(`an insert takes ${Math.round(ms)} ms, Keeper included`),
      ...cluster !== '' && nodes.length === 0 ? [note('only one address was tried: name the others with --node')] : []
    ]
  } finally {
    await client.command({ query: probe.drop }).catch(() => {})
    await Promise.all(clients.map(async (each) => { await each.close() }))
  }
}

const checkQuorum: Check = async (options) => {
  const definition = await readDefinition(options)
  const [row] = await queryRows<{ quorum: string }>(options.client, READ_QUORUM)
  const isOn = (row?.quorum ?? '') !== '' && row?.quorum !== '0'
  const shards = [...Map.groupBy(definition, ({ shard }) => shard)]
  return [
    isOn
      ? ok(`an insert of the pipeline is confirmed by ${row?.quorum} replicas`)
      : note('an insert is confirmed by one replica, and what it had not copied yet is lost with its disk: see deploy/clickhouse/quorum.sql'),
    ...unless(shards.flatMap(([shard, { length: replicas }]) => {
      const needed = !isOn ? 1 : row?.quorum === 'auto' ? Math.floor(replicas / 2) + 1 : Number(row?.quorum)
      if (replicas === 1) return [note(`shard ${shard} has one replica: while it is away no event is stored and no query answered`)]
      return replicas > needed ? [] : [note(`while one of the ${replicas} replicas of shard ${shard} is away, the events of all shards wait in the stream`)]
    }), 'one dead node stops nothing')
  ]
}
