/** Follows what `deploy/` names, from the file to whatever reads it: variables, ports, logins, passwords, policies. */
import path from 'node:path'
import t from 'tap'
import { LOGIN_VARIABLES } from '../cli/commands/logins.ts'
import { settings } from '../platform/settings.ts'
import {
  type ComposeService, type Container, listPods, readCompose, readEnvironment, readResources, readText, type Resource,
  type Selector
} from './testing/read-deploy-files.ts'

/** Where each command reads its environment: the names stand there in quotes or as `env.NAME`. */
const READERS: Record<string, string> = {
  ingest: 'ingest/config.ts', pipeline: 'pipeline/pipeline-config.ts', api: 'api/main.ts'
}
/** Of every command that connects to stores by itself. */
const CLI_VARIABLES = ['DATABASE_URL', 'CLICKHOUSE_URL', 'NATS_URL', 'MILLRACE_CLICKHOUSE_CLUSTER', 'MILLRACE_URL']
const URLS = ['DATABASE_URL', 'CLICKHOUSE_URL', 'NATS_URL', 'MILLRACE_API_URL', 'MILLRACE_URL']
/** Postgres is not run on Kubernetes. */
const OUTSIDE = '<host>'

/** Names that the command reads; undefined: the program is not ours. */
async function readVariables (command: readonly string[]): Promise<(name: string) => boolean> {
  const [first = ''] = command
  if (first === 'logins') return (name) => LOGIN_VARIABLES.includes(name) || CLI_VARIABLES.includes(name)
  if (first in READERS) {
    const text = await readText(READERS[first]!)
    return (name) => new RegExp(`['{ ]${name}\\b`).test(text)
  }
  return (name) => CLI_VARIABLES.includes(name) && name in settings
}

/** Users by store, each with the variable that has its password where it is created. */
async function readLogins (administrators: Record<string, string>): Promise<Record<string, string>> {
  const permissions = await readText('deploy/nats/permissions.conf')
  const sql = await readText('deploy/clickhouse/users.sql') + await readText('deploy/clickhouse/analyst.sql')
  const roles = await readText('deploy/postgres/roles.sql')
  return {
    ...Object.fromEntries([...permissions.matchAll(/user: (\w+)\s+password: \$(\w+)/g)].map(([, user, variable]) => [`nats ${user}`, variable!])),
    ...Object.fromEntries([...sql.matchAll(/CREATE USER IF NOT EXISTS (\w+) .* BY '<(\w+) password>'/g)]
      .map(([, user, who]) => [`http ${user}`, `CLICKHOUSE_${who!.toUpperCase()}_PASSWORD`])),
    ...Object.fromEntries([...roles.matchAll(/CREATE USER (\w+) PASSWORD/g)]
      .map(([, user]) => [`postgres ${user}`, `POSTGRES_${user!.toUpperCase()}_PASSWORD`])),
    ...administrators
  }
}

interface Address {
  store: string
  user: string
  password: string
  host: string
  port: number
}

/** The servers of a URL, of which NATS may have several. Passwords may be placeholders, so this is no URL yet. */
function readAddresses (urls: string): Address[] {
  const parts = urls.split(',').map((url) => /^(\w+):\/\/(?:([^:@]+):(.+)@)?([^:/@]+):(\d+)/.exec(url))
  return parts.map((match) => {
    const [, store = '', user = '', password = '', host = '', port = ''] = match ?? []
    return { store, user, password, host, port: Number(port) }
  })
}

function matches (selector: Selector | undefined, labels: Record<string, string>): boolean {
  const { matchLabels = {}, matchExpressions = [] } = selector ?? { matchLabels: { none: 'none' } }
  return Object.entries(matchLabels).every(([key, value]) => labels[key] === value) &&
    matchExpressions.every(({ key, values = [] }) => values.includes(labels[key] ?? ''))
}

/** Whether a policy lets pods of one app reach a port of another's. */
function isAllowed (policies: readonly Resource[], client: string, target: string, port: number): boolean {
  return policies.filter(({ spec }) => matches(spec!.podSelector, { app: target })).some(({ spec }) =>
    (spec!.ingress ?? []).some(({ from, ports }) =>
      (from === undefined || from.some((peer) =>
        peer.namespaceSelector === undefined && matches(peer.podSelector, { app: client }))) &&
      (ports === undefined || ports.some((each) => each.port === port))))
}

t.test('Kubernetes: a container gets only the variables it reads, and reaches every address as a user who exists', async (t) => {
  const resources = await readResources()
  const pods = listPods(resources)
  const services = new Map(resources.filter(({ kind }) => kind === 'Service').map((each) => [each.metadata.name, each.spec!]))
  const policies = resources.filter(({ kind }) => kind === 'NetworkPolicy')
  const secret = (name: string): Record<string, string> =>
    resources.find(({ kind, metadata }) => kind === 'Secret' && metadata.name === name)!.stringData!
  const passwords = { ...secret('login-passwords'), ...secret('nats-passwords'), ...secret('clickhouse-passwords') }
  const logins = await readLogins({ 'http administrator': 'CLICKHOUSE_PASSWORD' })
  const clickhouse = pods.find(({ app }) => app === 'clickhouse')!.pod.containers[0]!
  t.match(clickhouse.env, [{ name: 'CLICKHOUSE_USER', value: 'administrator' }])

  let addresses = 0
  for (const { app, pod } of pods) {
    for (const container of [...pod.initContainers ?? [], ...pod.containers].filter(({ image }) => image === 'millrace')) {
      const env = readEnvironment(container, resources)
      const reads = await readVariables(container.args ?? ['cli'])
      t.same(Object.keys(env).filter((name) => name !== 'MILLRACE_HOST' && !reads(name)), [], `${app}: it reads every variable it gets`)
      const urls = URLS.flatMap((name) => env[name] === undefined ? [] : readAddresses(env[name]))
      for (const { store, user, password, host, port } of urls) {
        addresses++
        // The further servers of NATS take the login of the first.
        if (store !== 'http' || user !== '') checkLogin(app, { store, user, password })
        if (host === OUTSIDE) continue
        const spec = services.get(host.split('.').at(-1)!)
        t.ok(spec?.ports?.some((each) => each.port === port), `${app}: ${host}:${port} is a service`)
        const target = spec!.selector!.app!
        t.ok(listens(pods.find((each) => each.app === target)!.pod.containers, port), `${target} listens on ${port}`)
        t.ok(isAllowed(policies, app, target, port), `${app} may reach ${target}:${port}`)
      }
    }
  }
  t.ok(addresses > 12)
  t.notOk(isAllowed(policies, 'ingest', 'clickhouse', 8123), 'who has no business there may not')
  t.notOk(isAllowed(policies, 'pipeline', 'api', 8001))

  function checkLogin (app: string, { store, user, password }: Pick<Address, 'store' | 'user' | 'password'>): void {
    if (store === 'nats' && user === '') return
    if (store === 'postgres' && user === 'owner') return
    const variable = logins[`${store} ${user}`]
    t.ok(variable, `${app}: ${store} has a user ${user}`)
    t.equal(password, passwords[variable ?? '']?.replaceAll('"', ''), `${app}: the password of ${store} ${user} is the one it is created with`)
  }
})

/** Whether a container has the port; a port without a name is not exposed to services by name. */
function listens (containers: readonly Container[], port: number): boolean {
  return containers.some(({ ports = [] }) => ports.some(({ containerPort }) => containerPort === port))
}

t.test('Kubernetes: the nodes of NATS, ClickHouse and Keeper name each other, and may reach each other', async (t) => {
  const resources = await readResources()
  const replicas = new Map(resources.filter(({ kind }) => kind === 'StatefulSet').map(({ metadata, spec }) => [metadata.name, spec!.replicas!]))
  const services = new Map(resources.filter(({ kind }) => kind === 'Service').map(({ metadata, spec }) => [metadata.name, spec!]))
  const policies = resources.filter(({ kind }) => kind === 'NetworkPolicy')
  const texts = { nats: 'nats.conf', clickhouse: 'cluster.xml', 'clickhouse-keeper': 'keeper.xml' }
  for (const [app, file] of Object.entries(texts)) {
    const text = resources.find(({ kind, metadata }) => kind === 'ConfigMap' && metadata.name === app)!.data![file]!
    const named = [...text.matchAll(/([a-z-]+)-(\d)\.([a-z-]+)(?::|<\/\w+><port>)(\d+)/g)]
    t.ok(named.length >= 3, `${app} names others`)
    for (const [, target = '', index, service = '', port] of named) {
      t.ok(Number(index) < replicas.get(target)!, `${app}: ${target}-${index} is there`)
      t.equal(services.get(service)?.selector?.app, target)
      t.ok(services.get(service)!.ports!.some((each) => each.port === Number(port)), `${service}:${port}`)
      t.ok(isAllowed(policies, app, target, Number(port)), `${app} may reach ${target}:${port}`)
    }
    const members = new Set(named.filter(([, target]) => target === app).map(([, , index]) => index))
    t.equal(members.size, replicas.get(app), `${app} knows all of its kind`)
  }
})

t.test('Kubernetes: one machine that dies takes one node of a store along, and a replica that is behind is not asked', async (t) => {
  const stores = (await readResources()).filter(({ kind, spec }) => kind === 'StatefulSet' && spec!.replicas! > 1)
  for (const app of ['nats', 'clickhouse', 'clickhouse-keeper']) {
    const store = stores.find(({ metadata }) => metadata.name === app)
    t.match(store?.spec?.template?.spec.affinity?.podAntiAffinity, {
      requiredDuringSchedulingIgnoredDuringExecution: [{ topologyKey: 'kubernetes.io/hostname', labelSelector: { matchLabels: { app } } }]
    }, app)
  }
  const [clickhouse] = stores.find(({ metadata }) => metadata.name === 'clickhouse')?.spec?.template?.spec.containers ?? []
  t.match(clickhouse?.readinessProbe, { httpGet: { path: '/replicas_status' } })
})

t.test('compose: a service gets only the variables it reads, reaches every address as a user who exists, and only after it is there', async (t) => {
  const { services } = await readCompose()
  const logins = await readLogins({ 'postgres millrace': 'POSTGRES_PASSWORD', 'http millrace': 'CLICKHOUSE_PASSWORD' })
  t.equal(services.postgres?.environment?.POSTGRES_USER, 'millrace')
  t.equal(services.clickhouse?.environment?.CLICKHOUSE_USER, 'millrace')
  const { MILLRACE_API_PORT: api, MILLRACE_PORT: ingest } = settings
  const ports: Record<string, number> = {
    postgres: 5432, clickhouse: 8123, nats: 4222, api: api.default, ingest: ingest.default
  }

  const ours = Object.entries(services).filter(([, { image }]) => image === 'millrace:tiers')
  t.equal(ours.length, 6)
  for (const [name, { command = ['cli'], environment = {} }] of ours) {
    const reads = await readVariables(command)
    t.same(Object.keys(environment).filter((variable) => !reads(variable)), [], `${name}: it reads every variable it gets`)
    for (const url of URLS.flatMap((variable) => environment[variable] ?? [])) {
      const [{ store, user, password, host, port }] = readAddresses(String(url)) as [Address]
      t.equal(port, ports[host], `${name}: ${host} listens there`)
      if (!['api', 'ingest'].includes(host)) t.equal(password, `\${${logins[`${store} ${user}`]}:?}`, `${name}: the login ${user} of ${store}`)
      if (services[name]!.profiles === undefined) t.ok(comesAfter(services, name, host), `${name} starts after ${host}`)
    }
  }
  t.match(await readText('deploy/nats/nats.conf'), 'listen: "0.0.0.0:4222"')
})

function comesAfter (services: Record<string, ComposeService>, name: string, other: string): boolean {
  const before = Object.keys(services[name]?.depends_on ?? {})
  return before.includes(other) || before.some((each) => comesAfter(services, each, other))
}

t.test('compose: every variable stands in compose.env.example and is used, every file is there, ports are the defaults', async (t) => {
  const compose = await readText('deploy/compose.yaml')
  const used = new Set([...compose.matchAll(/\$\{(\w+)/g)].map(([, name]) => name!))
  const given = new Set([...(await readText('deploy/compose.env.example')).matchAll(/^(\w+)=/gm)].map(([, name]) => name!))
  t.same([...used].toSorted(), [...given].toSorted())

  const { services } = await readCompose()
  for (const volume of Object.values(services).flatMap(({ volumes = [] }) => volumes).filter((each) => each.startsWith('.'))) {
    t.ok(await readText(path.posix.join('deploy', volume.split(':')[0]!)), volume)
  }
  t.match(services.postgres?.healthcheck?.test.join(' '), '--host 127.0.0.1', 'not the server of the first start, which has a socket only')
  const published = Object.entries(services).flatMap(([name, { ports = [] }]) => ports.map((port) => `${name} ${port}`))
  t.same(published.toSorted(), [
    'clickhouse 127.0.0.1:8123:8123',
    `ingest \${MILLRACE_PUBLISH_ADDRESS:-127.0.0.1}:${settings.MILLRACE_PORT.default}:${settings.MILLRACE_PORT.default}`
  ], 'this machine reaches ingest and, as an analyst, ClickHouse; another machine nothing, unless an address is named')
  t.match(await readText('deploy/compose.env.example'), /^MILLRACE_PUBLISH_ADDRESS=$/m, 'which the example does not')
  const checked = {
    ingest: settings.MILLRACE_PORT, pipeline: settings.MILLRACE_PIPELINE_PORT, api: settings.MILLRACE_API_PORT
  }
  for (const [tier, { default: port }] of Object.entries(checked)) t.match(services[tier]?.healthcheck?.test.join(' '), `127.0.0.1:${port}/_liveness`)
})

t.test('ingest and the API are given the same file of places, in a folder that they cannot write to', async (t) => {
  const { services } = await readCompose()
  const resources = await readResources()
  const pods = listPods(resources)
  for (const tier of ['ingest', 'api']) {
    const { environment = {}, volumes = [] } = services[tier]!
    t.match(environment.MILLRACE_GEOIP_PATH, /^\$\{MILLRACE_GEOIP_PATH:-\}$/, `compose: ${tier} gets the path of the file`)
    t.match(volumes.join('\n'), /^\$\{MILLRACE_GEOIP_FOLDER:-.*\}:\/geoip:ro$/m, `compose: ${tier} sees its folder`)
    const { pod } = pods.find(({ app }) => app === tier)!
    t.equal(readEnvironment(pod.containers[0]!, resources).MILLRACE_GEOIP_PATH, '', `Kubernetes: ${tier} gets the path of the file`)
    t.match(pod.containers[0]!.volumeMounts, [{}, {}, { name: 'geoip', mountPath: '/geoip', readOnly: true }])
  }
  t.match(await readText('deploy/compose.env.example'), '/geoip/')
  const names = ['settings', 'ingest', 'api'].map(async (name) => await readText(`deploy/kubernetes/${name}.yaml`))
  for (const text of await Promise.all(names)) t.match(text, 'geoip')
})

t.test('the login of a tier in ClickHouse may read every system table that the tier reads', async (t) => {
  const users = await readText('deploy/clickhouse/users.sql')
  const granted = [...users.matchAll(/GRANT SELECT ON system\.(\w+) TO millrace_pipeline/g)].map(([, table]) => table!)
  const sources = await Promise.all(['pipeline/health/watch-clickhouse.ts', 'pipeline/apply-retention.ts'].map(readText))
  const read = sources.flatMap((text) => [...text.matchAll(/systemTable\(cluster, '(\w+)'\)/g)].map(([, table]) => table!))

  t.same([...new Set(read)].filter((table) => !granted.includes(table)), [])
  t.ok(read.length >= 4)
})
