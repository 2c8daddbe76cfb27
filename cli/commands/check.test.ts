import t from 'tap'
import { createTestClickHouse } from '../../test/support/test-stores.ts'
import { startNatsOfVersion } from '../../test/support/nats-of-version.ts'
import { startTestNats } from '../../test/support/test-processes.ts'
import {
  compareDefinitions, compareMacros, compareNodes, compareReplicas, compareTables, type Definition, type Finding,
  judgeQuorum, type ReplicaRow
} from '../../schema/check-clickhouse.ts'
import { compareLogins } from './check-logins.ts'
import { runCaptured } from '../testing/run-captured.ts'

t.test('one node is looked at: what it flushes, what it does with a repeated insert, and its logins', async (t) => {
  const { client, url } = await createTestClickHouse(t)
  const env = { CLICKHOUSE_URL: url }

  const fine = await runCaptured(['check', 'clickhouse', '--json'], env)
  t.equal(fine.code, 0, fine.out)
  const findings = JSON.parse(fine.out) as Finding[]
  t.match(findings.filter(({ level }) => level === 'ok').map(({ subject }) => subject), ['tables', 'tokens', 'tokens'])
  t.match(findings.find(({ text }) => text.startsWith('events is not replicated')), { level: 'note', subject: 'tables' })
  t.match(findings.find(({ text }) => text.startsWith('millrace_api')), { level: 'note', text: /set CLICKHOUSE_API_PASSWORD/ })

  await client.command({ query: 'ALTER TABLE persons MODIFY SETTING fsync_after_insert = 0' })
  const other = new URL(url)
  other.hostname = 'localhost'
  const bad = await runCaptured(['check', 'clickhouse', '--node', other.href], { ...env, CLICKHOUSE_API_PASSWORD: 'not the password' })
  t.equal(bad.code, 1)
  t.match(bad.out, /^wrong +tables +persons answers before its rows are on the disk: run "millrace migrate"/m)
  for (const { host } of [new URL(url), other]) t.ok(bad.out.includes(`millrace_api at ${host} is refused "SELECT `), host)
})

t.test('the cluster that is asked for has to be there', async (t) => {
  const { url } = await createTestClickHouse(t)
  const { code, out } = await runCaptured(['check', 'clickhouse'], {
    CLICKHOUSE_URL: url, MILLRACE_CLICKHOUSE_CLUSTER: 'nowhere'
  })
  t.equal(code, 1)
  t.match(out, /^wrong +nodes +no cluster nowhere in remote_servers of this node/m)
})

t.test('without a stack and an address, the output names the default address', async (t) => {
  const { err } = await runCaptured(['--timeout', '1s', 'check', 'nats'], { MILLRACE_DATA_DIR: t.testdir() })
  t.match(err, /^NATS_URL is not set, and no stack was started on .*: asking nats:\/\/127\.0\.0\.1:4222$/m)
})

t.test('nats-servers are named that may lose events when the power is cut', async (t) => {
  const nats = await startTestNats(t)
  const old = await startNatsOfVersion(t, nats.port, '2.12.15')

  const fine = await runCaptured(['check', 'nats', '--json'], { NATS_URL: nats.url })
  t.equal(fine.code, 0, fine.out)
  t.match(JSON.parse(fine.out), [{ level: 'ok', subject: 'versions' }])

  const bad = await runCaptured(['check', 'nats'], { NATS_URL: old.url })
  t.equal(bad.code, 1)
  t.match(bad.out, /^wrong +versions +nats-server 2\.12\.15 at .* may lose acknowledged events when the power is cut\. Replace it by 2\.15\.1/)
})

const NODES = ['a', 'b', 'c', 'd'].map((name, index) => ({ shard: index < 2 ? 1 : 2, node: `${name}:9000` }))
const FOUR: Definition = { nodes: NODES, answering: [1, 2, 3, 4] }
const SHARDS = '1/a:9000 1/b:9000 2/c:9000 2/d:9000'

/** The same answer of each node but for what one of them answers. */
function answers<T> (same: T, other: Partial<Record<number, Partial<T>>> = {}): (T & { place: number })[] {
  return FOUR.answering.map((place) => ({ ...same, ...other[place], place }))
}

/** What a comparison complains about; of one that is fine, nothing. */
const complaints = (findings: readonly Finding[]): string[] =>
  findings.flatMap(({ level, text }) => level === 'ok' ? [] : [`${level}: ${text}`])

t.test('every node has the same remote_servers, in the same order', (t) => {
  const compare = (other = {}): string[] =>
    complaints(compareDefinitions(FOUR, answers({ nodes: SHARDS, internal: 1, own: 1 }, other)))
  t.same(compare(), [])
  for (const [what, nodes] of [
    ['shards', '1/c:9000 1/d:9000 2/a:9000 2/b:9000'], ['hosts of a shard', '1/b:9000 1/a:9000 2/c:9000 2/d:9000'],
    ['a node less', '1/a:9000 1/b:9000 2/c:9000'], ['ports', '1/a:9000 1/b:9000 2/c:9000 2/d:9001']
  ] as const) {
    const [first = '', ...more] = compare({ 3: { nodes } })
    t.same(more, [], what)
    t.ok(first.startsWith(`wrong: c:9000 has the shards and replicas ${nodes}, the node that is asked ${SHARDS}: give every node the same`), first)
  }
  t.match(compare({ 2: { internal: 0 } }), [/^wrong: b:9000: internal_replication is not true for every shard/])
  t.match(compare({ 4: { own: 0 } }), [/^wrong: d:9000 does not find itself in remote_servers, and statements ON CLUSTER pass it by/])
  const three = answers({ nodes: SHARDS, internal: 1, own: 1 }).filter(({ place }) => place !== 4)
  t.match(complaints(compareDefinitions(FOUR, three)), [/^wrong: d:9000 has the shards and replicas none,/], 'a node that does not know the cluster')
  t.same(complaints(compareDefinitions({ ...FOUR, answering: [1, 2, 3] }, three)), [], 'one that is down is named elsewhere')
  t.end()
})

t.test('nodes that are silent, of another version or with another clock are named', (t) => {
  const compare = (other = {}, tookMs = 0): string[] =>
    complaints(compareNodes(FOUR, answers({ version: '26.7', now: 1_800_000_000_000 }, other), tookMs))
  t.same(compare(), [])
  t.same(compare({ 2: { now: 1_800_000_002_000 } }), [])
  t.match(compare({ 2: { now: 1_800_000_002_100 } }), ['wrong: their clocks differ by 2100 ms: run NTP on every node'])
  t.match(compare({ 3: { now: 1_799_999_940_000 } }), ['wrong: their clocks differ by 60000 ms: run NTP on every node'])
  t.same(compare({ 2: { now: 1_800_000_002_100 } }, 200), [], 'a node that was asked later')
  t.match(compare({ 4: { version: '26.8' } }), [/^note: they run 26\.7 and 26\.8: fine during an upgrade/])
  const rows = answers({ version: '26.7', now: 0 }).slice(1)
  t.match(complaints(compareNodes({ ...FOUR, answering: [2, 3, 4] }, rows, 0)), [/^wrong: a:9000 does not answer: start it/])
  t.end()
})

t.test('a macro that is wrong is named, and to drop something is no advice', (t) => {
  const compare = (shards: readonly string[], { replicas = ['a', 'b', 'c', 'd'], answering = FOUR.answering } = {}): string[] => {
    const rows = answering.flatMap((place) => [['shard', shards], ['replica', replicas]].flatMap(([macro, all]) => {
      const substitution = all?.[place - 1] ?? ''
      return substitution === '' ? [] : [{ place, macro: String(macro), substitution }]
    }))
    return complaints(compareMacros({ nodes: NODES, answering }, rows))
  }
  t.same(compare(['1', '1', '2', '2']), [])
  t.same(compare(['east', 'east', 'west', 'west']), [], 'names are free')
  t.same(compare(['1', '', '2', '2'], { answering: [1, 3, 4] }), [], 'a node that is down')
  for (const shards of [['1', '1', '1', '2'], ['1', '1', '2', '3'], ['1', '1', '1', '1']]) {
    const [first = '', ...more] = compare(shards)
    t.same(more, [], shards.join())
    t.match(first, /^wrong: the macro shard does not follow remote_servers: .*take the node away as docs\/run\/scaling\.md says/)
    t.ok(first.includes(`${shards[2]} on c:9000 of shard 2, ${shards[3]} on d:9000 of shard 2`), first)
    t.notMatch(first, /DROP/)
  }
  t.match(compare(['1', '1', '2', '2'], { replicas: ['a', 'a', 'c', 'd'] }), [/^wrong: b:9000 and a:9000 have the same shard and replica/])
  t.match(compare(['1', '1', '2', ''])[0], /^wrong: d:9000 lacks the macro shard/)
  t.match(compare(['1', '1', '2', ''], { replicas: ['a', 'b', 'c', ''] })[0], /^wrong: d:9000 lacks the macro shard/, 'a node without macros')
  t.end()
})

t.test('a node that lacks a table or has it elsewhere, and a replica too few or too many, are named', (t) => {
  const path = (shard: number | 'all', table = 'events'): string => `/clickhouse/tables/${shard}/millrace/${table}`
  const fine = { name: 'events', all: 2, active: 2, delay: 0, frozen: 0 }
  const [first, second] = [{ path: path(1), own: '1' }, { path: path(2), own: '2' }]
  const compare = (place: number, other: Partial<ReplicaRow>): string[] => {
    const rows = answers<ReplicaRow>({ ...fine, ...first }, { 3: second, 4: second })
    return complaints(compareReplicas(FOUR, rows.map((row) => row.place === place ? { ...row, ...other } : row), 'millrace'))
  }
  t.same(compare(1, {}), [])
  const persons = { ...fine, name: 'persons', path: path('all', 'persons'), own: '1', all: 4, active: 4 }
  t.same(complaints(compareReplicas(FOUR, answers(persons, { 3: { own: '2' } }), 'millrace')), [])
  for (const other of ['/clickhouse/tables/2/millrace/events/', '/clickhouse/tables/2/other/events', '/clickhouse/2/millrace/events', path(1)]) {
    const [first = '', ...more] = compare(3, { path: other, all: 1, active: 1 })
    t.same(more, [], other)
    t.ok(first.startsWith(`wrong: c:9000 has events at ${other} in Keeper instead of ${path(2)}`), first)
    t.match(first, /no other node has its rows: copy them .*, then DROP TABLE events SYNC/)
  }
  t.match(compare(2, { all: 3 }), [
    /^wrong: b:9000: events has 3 replicas, 2 of them at work, and remote_servers says 2: name a node that was added there, SYSTEM DROP REPLICA for one that is gone/,
    /^wrong: b:9000: events has 2 of 3 replicas at work/
  ], 'a surplus replica')
  t.match(compare(4, { all: 1, active: 1 }), [/^wrong: d:9000: events has 1 replicas, remote_servers says 2: run "millrace migrate"/])
  t.match(compare(1, { active: 1 }), [/^wrong: a:9000: events has 1 of 2 replicas at work/])
  t.match(compare(1, { frozen: 1 }), [/^wrong: a:9000: events is read-only/])
  t.match(compare(1, { delay: 301 }), [/^wrong: a:9000: events is 301 s behind/])

  const tables = [{ name: 'millrace.events', places: [1, 2, 3, 4] }, { name: 'millrace.persons', places: [1, 2, 4] }]
  t.match(complaints(compareTables(FOUR, tables)), ['wrong: c:9000 lacks 1 tables (millrace.persons): run "millrace migrate"'])
  t.same(complaints(compareTables({ ...FOUR, answering: [1, 2, 4] }, tables)), [])
  t.match(complaints(compareTables(FOUR, [])), [/^wrong: no node has a table/])
  t.end()
})

t.test('a login that another node refuses, or does not have, is named with that node', (t) => {
  const at = (host: string, faults: string[] | undefined) => ({ login: 'millrace_api', at: host, faults })
  t.same(complaints(compareLogins([at('a', []), at('b', [])])), [])
  t.same(complaints(compareLogins([at('a', []), at('b', ['is refused "SELECT 1"', 'lacks a right'])])),
    ['wrong: millrace_api at b is refused "SELECT 1"', 'wrong: millrace_api at b lacks a right'])
  t.match(complaints(compareLogins([at('a', undefined), at('b', undefined)])), [/^note: millrace_api was not tried: set CLICKHOUSE_API_PASSWORD/])
  const others = [at('a', []), at('b', ['is refused']), { login: 'analyst', at: 'a', faults: [] }, { login: 'analyst', at: 'b', faults: [] }]
  t.same(complaints(compareLogins(others)), ['wrong: millrace_api at b is refused'])
  t.end()
})

t.test('what one dead node stops depends on the quorum', (t) => {
  const judge = (quorum: string, nodes = NODES): string[] => complaints(judgeQuorum({ ...FOUR, nodes }, quorum === '' ? [] : [{ quorum }]))
  t.match(judge(''), [/^note: an insert is confirmed by one replica/])
  t.match(judge('auto'), [/of the 2 replicas of shard 1 is away/, /of the 2 replicas of shard 2 is away/])
  t.same(judge('2', [1, 1, 1].map((shard, index) => ({ shard, node: String(index) }))), [])
  t.match(judge('', NODES.slice(0, 3))[1], /^note: shard 2 has one replica/)
  t.end()
})
