import path from 'node:path'
import t from 'tap'
import { loadStackSettings } from './stack-settings.ts'

t.test('says how a time of day is written', async (t) => {
  t.throws(() => loadStackSettings({ MILLRACE_BACKUP_TIME: '2:30' }),
    { message: /MILLRACE_BACKUP_TIME must be a time of day in UTC with four digits, such as 02:30, but is "2:30"/ })
})

t.test('replaces an embedded part only by a URL that is set', async (t) => {
  const settings = loadStackSettings({ NATS_URL: '', DATABASE_URL: 'postgres://db.example/millrace' })

  t.same(settings.external, {
    natsUrl: undefined, clickhouseUrl: undefined, databaseUrl: 'postgres://db.example/millrace'
  })
})

t.test('takes free ports for what only the origin talks to, unless they are chosen', async (t) => {
  t.match(loadStackSettings({}).ports, { origin: 8000, api: 0, pipeline: 0, clickhouse: 8123 })
  t.match(loadStackSettings({ MILLRACE_API_PORT: '9001' }).ports, { api: 9001, pipeline: 0 })
})

t.test('reports a wrong setting of a tier before anything starts, together with all others', async (t) => {
  const load = () => loadStackSettings({ MILLRACE_PARTITIONS: 'many', MILLRACE_PORT: '70000', MILLRACE_PROT: '1' })

  t.throws(load, { code: 'MILLRACE_SETTINGS_INVALID', problems: { length: 3 } })
})

t.test('keeps keys and passwords from the tiers', async (t) => {
  const { env } = loadStackSettings({ MILLRACE_PERSONAL_API_KEY: 'phx_secret', MILLRACE_PARTITIONS: '2' })

  const folders = { MILLRACE_IMPORT_FOLDER: path.resolve('.millrace/imports'), MILLRACE_EXPORT_FOLDER: path.resolve('.millrace/exports') }
  t.same(env, { MILLRACE_PARTITIONS: '2', ...folders })
})

t.test('gives its processes, which run in another folder, the paths as they are seen from here', async (t) => {
  const { env, backups, natsServer } = loadStackSettings({ MILLRACE_BACKUP_FOLDER: 'backups', MILLRACE_GEOIP_PATH: './geo.mmdb', MILLRACE_NATS_SERVER: 'bin/nats-server' })

  t.match(env, { MILLRACE_BACKUP_FOLDER: path.resolve('backups'), MILLRACE_GEOIP_PATH: path.resolve('geo.mmdb') })
  t.match({ backups, natsServer }, { backups: { folder: path.resolve('backups') }, natsServer: path.resolve('bin/nats-server') })
  t.equal(loadStackSettings({ MILLRACE_NATS_SERVER: 'nats-server' }).natsServer, 'nats-server', 'a name is looked for on PATH')
})

t.test('refuses a personal key that looks like one of a project', async (t) => {
  t.throws(() => loadStackSettings({ MILLRACE_PERSONAL_API_KEY: 'phc_wrong' }), { message: /MILLRACE_PERSONAL_API_KEY must not begin with phc_/ })
})

t.test('refuses a project key that looks like a personal one', async (t) => {
  t.throws(() => loadStackSettings({ MILLRACE_PROJECT_API_KEY: 'phx_wrong' }), { message: /phx_/ })
})

t.test('refuses replicas and a cluster that the embedded servers do not have, together', async (t) => {
  const env = { MILLRACE_STREAM_REPLICAS: '3', MILLRACE_CLICKHOUSE_CLUSTER: 'main' }

  t.throws(() => loadStackSettings(env), { message: /MILLRACE_STREAM_REPLICAS is 3, .* NATS_URL.*\n.*MILLRACE_CLICKHOUSE_CLUSTER .* CLICKHOUSE_URL/ })
  t.doesNotThrow(() => loadStackSettings({ ...env, NATS_URL: 'nats://a,nats://b,nats://c', CLICKHOUSE_URL: 'http://a/millrace' }))
})

t.test('refuses memory for ClickHouse that was given in another unit', async (t) => {
  const load = (text: string): number =>
    loadStackSettings({ MILLRACE_CLICKHOUSE_MEMORY_BYTES: text }).clickhouseMemoryBytes

  t.throws(() => load('512'), { message: /MILLRACE_CLICKHOUSE_MEMORY_BYTES is in bytes: with 512 nothing could be stored/ })
  t.equal(load('0'), 0)
  t.equal(load('600000000'), 600_000_000)
})
