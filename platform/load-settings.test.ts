import t from 'tap'
import { SettingsError } from './errors.ts'
import { loadSettings } from './load-settings.ts'

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
    t.match(problems.join('\n'), /MILLRACE_PORT must be integer, but is "eighty"/)
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
