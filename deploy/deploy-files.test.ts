import { execFile } from 'node:child_process'
import { access, cp, mkdtemp, readdir, readFile, rename, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { promisify } from 'node:util'
import t from 'tap'
import { parseAllDocuments } from 'yaml'
import { HEALTH_PATHS } from '../platform/health.ts'
import { settings } from '../platform/settings.ts'
import { createTestClickHouse } from '../test/support/test-stores.ts'

const ROOT = path.join(import.meta.dirname, '..')
const PORTS = { ingest: 'MILLRACE_PORT', pipeline: 'MILLRACE_PIPELINE_PORT', api: 'MILLRACE_API_PORT' } as const
const TIERS = Object.keys(PORTS) as (keyof typeof PORTS)[]
const run = promisify(execFile)

interface Container {
  command: string[]
  ports: { name: string, containerPort: number }[]
  env?: { name: string, value?: string }[]
  envFrom?: { secretRef?: { name: string }, configMapRef?: { name: string } }[]
  [probe: `${string}Probe`]: { httpGet?: { path: string, port: string } } | undefined
}

interface Resource {
  kind: string
  metadata: { name: string }
  data?: Record<string, string>
  stringData?: Record<string, string>
  spec?: { ports?: { port: number }[], template?: { spec: { containers: Container[] } } }
}

interface Compose {
  services: Record<string, {
    command?: string[], environment?: Record<string, unknown>, ports?: string[], volumes?: string[]
  }>
}

async function readYaml (file: string): Promise<unknown[]> {
  const documents = parseAllDocuments(await readFile(path.join(ROOT, file), 'utf8'), { merge: true })
  return [...documents].map((document) => {
    const [error] = [...document.errors, ...document.warnings]
    if (error !== undefined) throw error
    return document.toJS() as unknown
  })
}

async function readResources (): Promise<Resource[]> {
  const files = (await readdir(path.join(ROOT, 'deploy', 'kubernetes'))).filter((file) => file.endsWith('.yaml'))
  return (await Promise.all(files.map(async (file) => await readYaml(`deploy/kubernetes/${file}`)))).flat() as Resource[]
}

t.test('every YAML file of deploy/ parses without a warning', async (t) => {
  const files = (await readdir(path.join(ROOT, 'deploy'), { recursive: true })).filter((file) => file.endsWith('.yaml'))
  t.ok(files.length > 12)
  for (const file of files) t.ok((await readYaml(`deploy/${file}`)).length > 0, file)
})

t.test('compose.yaml names settings, files, ports and entry points that exist', async (t) => {
  const [{ services }] = await readYaml('deploy/compose.yaml') as [Compose]
  for (const [name, { command, environment = {}, volumes = [] }] of Object.entries(services)) {
    if (command?.[0] === 'node') {
      await access(path.join(ROOT, command[1]!))
      for (const variable of Object.keys(environment)) t.ok(variable in settings, `${name}: ${variable}`)
    }
    for (const volume of volumes.filter((each) => each.startsWith('.'))) {
      await access(path.join(ROOT, 'deploy', volume.split(':')[0]!))
    }
  }
  t.same(services.ingest?.ports, [`${settings.MILLRACE_PORT.default}:${settings.MILLRACE_PORT.default}`])
  t.equal(services.ingest?.environment?.MILLRACE_API_URL, `http://api:${settings.MILLRACE_API_PORT.default}`)
  // What a process of the tiers must agree on comes from one place.
  for (const tier of ['ingest', 'pipeline']) t.equal(services[tier]?.environment?.MILLRACE_STREAM_REPLICAS, 1)
  const text = await readFile(path.join(ROOT, 'deploy', 'compose.yaml'), 'utf8')
  const example = await readFile(path.join(ROOT, 'deploy', 'compose.env.example'), 'utf8')
  for (const [, variable] of text.matchAll(/\$\{(\w+)/g)) t.match(example, `${variable}=`)
})

t.test('docker compose accepts compose.yaml, where there is one', async (t) => {
  const hasCompose = await run('docker', ['compose', 'version']).then(() => true, () => false)
  if (!hasCompose) return t.comment('NOT RUN: there is no docker compose here')
  const passwords = ['POSTGRES', 'CLICKHOUSE', 'NATS_INGEST', 'NATS_PIPELINE', 'NATS_API'].map((name) => [`${name}_PASSWORD`, 'x'])
  await run('docker', ['compose', '--file', path.join(ROOT, 'deploy', 'compose.yaml'), 'config', '--quiet'], {
    env: { ...process.env, ...Object.fromEntries(passwords) as Record<string, string> }
  })
})

t.test('the Kubernetes files name settings, probes, ports and entry points that exist', async (t) => {
  const resources = await readResources()
  const find = (kind: string, name: string): Resource | undefined =>
    resources.find((each) => each.kind === kind && each.metadata.name === name)
  for (const tier of TIERS) {
    const [container] = find('Deployment', tier)!.spec!.template!.spec.containers
    const { command, ports, env = [], envFrom = [] } = container!
    const defaultPort = settings[PORTS[tier]].default
    await access(path.join(ROOT, command[1]!))
    const names = [
      ...env.map(({ name }) => name),
      ...envFrom.flatMap(({ secretRef, configMapRef }) => Object.keys(
        find('Secret', secretRef?.name ?? '')?.stringData ?? find('ConfigMap', configMapRef?.name ?? '')?.data ?? {}))
    ]
    for (const name of names) t.ok(name in settings, `${tier}: ${name}`)
    t.equal(new Set(names).size, names.length, `${tier} is told nothing twice`)
    t.same(ports, [{ name: 'http', containerPort: defaultPort }])
    const service = find('Service', tier)
    if (tier !== 'pipeline') t.match(service?.spec?.ports, [{ port: defaultPort, targetPort: 'http' }])
    t.ok(find('PodDisruptionBudget', tier))

    for (const probe of ['startupProbe', 'livenessProbe', 'readinessProbe'] as const) {
      t.ok(HEALTH_PATHS.some((known) => known === container![probe]?.httpGet?.path), `${tier} answers its ${probe}`)
    }
  }
  t.equal(find('ConfigMap', 'millrace-clickhouse')?.data?.MILLRACE_CLICKHOUSE_CLUSTER, 'millrace')
  t.match(find('ConfigMap', 'clickhouse')?.data?.['cluster.xml'], /<millrace>/)
  t.match(find('ConfigMap', 'nats')?.data?.['nats.conf'], /sync_interval: always/)
})

t.test('kustomize builds all of it, where there is kubectl', async (t) => {
  const hasKubectl = await run('kubectl', ['version', '--client']).then(() => true, () => false)
  if (!hasKubectl) return t.comment('NOT RUN: there is no kubectl here')
  const folder = await mkdtemp(path.join(tmpdir(), 'millrace-deploy-'))
  t.teardown(async () => { await rm(folder, { recursive: true, force: true }) })
  await cp(path.join(ROOT, 'deploy'), folder, { recursive: true })
  await rename(path.join(folder, 'kubernetes', 'secrets.example.yaml'), path.join(folder, 'kubernetes', 'secrets.yaml'))
  const { stdout } = await run('kubectl', ['kustomize', folder], { maxBuffer: 4_194_304 })
  t.ok([...parseAllDocuments(stdout)].length > 25)
})

t.test('the engine parses every statement of the logins for a ClickHouse server', async (t) => {
  const { client } = await createTestClickHouse(t)
  const text = await readFile(path.join(ROOT, 'deploy', 'clickhouse', 'users.sql'), 'utf8')
  const statements = text.replaceAll(/^--.*$/gm, '').split(';').map((part) => part.trim()).filter(Boolean)
  t.ok(statements.length > 10)
  for (const statement of statements) {
    const parsed = client.query({ query: `EXPLAIN AST ${statement}`, format: 'TabSeparated' })
    await t.resolves(parsed.then(async (answer) => await answer.text()), statement.slice(0, 60))
  }
})
