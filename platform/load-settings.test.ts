import t from 'tap'
import { SettingsError } from '../engines/errors.ts'
import { loadSettings } from './load-settings.ts'
import type { SettingName } from './settings.ts'

t.test('fills in defaults and converts numbers', async (t) => {
  const settings = loadSettings({ MILLRACE_PORT: '9000', MILLRACE_PARTITIONS: '' }, ['MILLRACE_PORT', 'MILLRACE_PARTITIONS'])

  t.same(settings, { MILLRACE_PORT: 9000, MILLRACE_PARTITIONS: 1 })
  t.ok(Object.isFrozen(settings))
})

t.test('reports all problems together, by variable, with what came', async (t) => {
  const env = { MILLRACE_PORT: 'eighty', MILLRACE_PARTITIONS: '0', MILLRACE_LOG_LEVEL: 'loud', MILLRACE_PROT: '1' }

  try {
    loadSettings(env, ['MILLRACE_PORT', 'MILLRACE_PARTITIONS', 'MILLRACE_LOG_LEVEL'])
    t.fail('should have thrown')
  } catch (error) {
    t.ok(error instanceof SettingsError)
    const problems = (error as SettingsError).problems
    t.equal(problems.length, 4)
    t.match(problems.join('\n'), /MILLRACE_PROT is not a setting/)
    t.match(problems.join('\n'), /MILLRACE_PORT must be a whole number .*, but is "eighty"/)
    t.match(problems.join('\n'), /MILLRACE_PARTITIONS must be >= 1, but is "0"/)
    t.match(problems.join('\n'), /MILLRACE_LOG_LEVEL .*\(trace, debug/)
  }
})

t.test('a list of addresses is checked entry by entry', async (t) => {
  const load = (text: string): unknown => loadSettings({ MILLRACE_TRUSTED_PROXIES: text }, ['MILLRACE_TRUSTED_PROXIES']).MILLRACE_TRUSTED_PROXIES

  for (const text of ['', '10.0.0.1', '10.0.0.0/8, ::1,fd00::/8', 'loopback, uniquelocal', '0.0.0.0/0']) t.equal(load(text), text)
  for (const text of ['proxy.local', '10.0.0.0/33', '10.0.0.0/', '10.0.0', '::1/129', '10.0.0.1/8/9', '10.0.0.1,', 'true', '1', 'loopback/8', '10.0.0.1/-1']) {
    t.throws(() => load(text), { message: /MILLRACE_TRUSTED_PROXIES must be addresses or ranges, .* but is / }, text)
  }
})

t.test('never repeats the value of a secret', async (t) => {
  const secret = 'phc_' + 's'.repeat(100)

  try {
    loadSettings({ MILLRACE_PROJECT_API_KEY: secret }, ['MILLRACE_PROJECT_API_KEY'])
    t.fail('should have thrown')
  } catch (error) {
    t.notMatch((error as SettingsError).message, /sss/)
  }
})

t.test('a key is what clients can send, and a path what somebody meant', async (t) => {
  const keys: SettingName[] = ['MILLRACE_PROJECT_API_KEY', 'MILLRACE_PERSONAL_API_KEY', 'MILLRACE_KEY']
  for (const name of keys) {
    for (const text of ['', 'phc_aB3-_.~', 'sTMFPsFhdP1Ssg']) t.doesNotThrow(() => loadSettings({ [name]: text }, [name]), `${name}=${text}`)
    for (const text of ['a b', ' phc_a', 'phc_a\n', '"phc_a"', 'phc/a', 'phc_é', 'a?b', 'a#b']) {
      t.throws(() => loadSettings({ [name]: text }, [name]), { message: new RegExp(`${name} must be of letters, digits`) }, `${name}=${text}`)
    }
  }
  const paths: SettingName[] = ['MILLRACE_DATA_DIR', 'MILLRACE_BACKUP_FOLDER', 'MILLRACE_GEOIP_PATH', 'MILLRACE_IMPORT_FOLDER', 'MILLRACE_EXPORT_FOLDER', 'MILLRACE_NATS_SERVER']
  for (const name of paths) {
    for (const text of ['', '/srv/a b', './x', 'C:\\x', '/srv/é']) t.doesNotThrow(() => loadSettings({ [name]: text }, [name]), `${name}=${text}`)
    for (const text of [' /srv', '/srv\n', '/srv\0x', '/srv ']) {
      t.throws(() => loadSettings({ [name]: text }, [name]), { message: new RegExp(`${name} must be a path`) }, `${name}=${text}`)
    }
  }
})

t.test('a number is digits: no unit, other notation, blank, or more than is exact', async (t) => {
  const load = (text: string): unknown => loadSettings({ MILLRACE_SPOOL_MAX_BYTES: text }, ['MILLRACE_SPOOL_MAX_BYTES']).MILLRACE_SPOOL_MAX_BYTES

  for (const text of ['0', '007', '9007199254740991']) t.equal(load(text), Number(text))
  for (const text of ['1GB', '5s', '1e9', '0x10', 'Infinity', 'NaN', ' ', ' 1', '1 ', '1.5', '1_000', '1,000', '"1"', 'true', 'null']) {
    t.throws(() => load(text), { message: /MILLRACE_SPOOL_MAX_BYTES must be a whole number in digits, without a unit, but is / }, text)
  }
  t.throws(() => load('-1'), { message: />= 0/ })
  t.throws(() => load('9007199254740993'), { message: /<= 9007199254740991/ })
})

t.test('a URL has the scheme of what it is for, and a host', async (t) => {
  const good: Array<[SettingName, string[]]> = [
    ['MILLRACE_API_URL', ['http://api:8001', 'https://api.example/', 'http://[::1]:8001']],
    ['MILLRACE_PUBLIC_URL', ['', 'https://events.example']],
    ['MILLRACE_INGEST_URLS', ['', 'http://a:8000, http://b:8000']],
    ['CLICKHOUSE_URL', ['http://user:p%23%2F@127.0.0.1:8123/millrace', 'http://host']],
    ['NATS_URL', ['nats://a:b@c:4222,nats://d:4222', 'tls://c', 'localhost:4222', 'user:pass@localhost:4222, other:4222']],
    ['DATABASE_URL', ['postgres://a:b@c:5432/d?sslmode=verify-full', 'postgresql:///d?host=/run/postgresql']]
  ]
  const bad: Array<[SettingName, string[]]> = [
    ['MILLRACE_API_URL', ['api:8001', 'http://', 'http://api:99999', 'ftp://api', '8001', 'http://a b/']],
    ['MILLRACE_PUBLIC_URL', ['events.example']],
    ['MILLRACE_INGEST_URLS', ['http://a:8000,b', 'http://a:8000,']],
    ['CLICKHOUSE_URL', ['localhost:8123', 'tcp://localhost:9000', 'http://user:1#2@host', 'http://user:50%@host']],
    ['NATS_URL', ['nats://', 'http://c:4222', 'nats://c:4222,', 'nats://user:1#2@c:4222']],
    ['DATABASE_URL', ['millrace', 'http://c/d', 'mysql://c/d', 'postgres://a:1#2@c/d']]
  ]
  for (const [name, texts] of good) for (const text of texts) t.doesNotThrow(() => loadSettings({ [name]: text }, [name]), `${name}=${text}`)
  for (const [name, texts] of bad) {
    for (const text of texts) t.throws(() => loadSettings({ [name]: text }, [name]), { message: new RegExp(`${name} must be (a URL|URLs)`) }, `${name}=${text}`)
  }
  t.throws(() => loadSettings({ DATABASE_URL: 'postgres://a:1#2@c/d' }, ['DATABASE_URL']), { message: /write %23 for #/ })
})
