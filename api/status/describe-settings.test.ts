import t from 'tap'
import { describeSettings, type ShownSetting } from './describe-settings.ts'
import { settings } from '../../platform/settings.ts'

function show (env: NodeJS.ProcessEnv): Record<string, ShownSetting> {
  return Object.fromEntries(describeSettings(env).map((setting) => [setting.name, setting]))
}

t.test('shows every setting with its value, and where it comes from', async (t) => {
  const shown = show({ MILLRACE_PORT: '9000', MILLRACE_HOST: '' })

  t.same(Object.keys(shown), Object.keys(settings))
  t.match(shown.MILLRACE_PORT, { value: '9000', source: 'environment', isSecret: false })
  t.match(shown.MILLRACE_HOST, { value: '127.0.0.1', source: 'default' })
  t.match(shown.MILLRACE_API_PORT, { value: '8001', source: 'default', description: /\w/ })
})

t.test('shows no secret, in whatever place it is', async (t) => {
  const secret = 'hunter2'
  const env = Object.fromEntries(Object.keys(settings).map((name) => {
    if (/URL/.test(name)) return [name, `https://user:${secret}@host:1/db?sslpassword=${secret}&x=1, nats://me:a@b${secret}@other`]
    return [name, /PASSWORD|SECRET|KEY|TOKEN/.test(name) ? secret : 'plain']
  }))

  const shown = describeSettings(env)

  t.notMatch(JSON.stringify(shown), secret)
  t.match(show(env).DATABASE_URL, { value: 'https://user:••••••@host:1/db?sslpassword=••••••&x=1, nats://me:••••••@other', source: 'environment' })
})

t.test('a secret that is not set is not masked, so that one sees that it is missing', async (t) => {
  t.equal(show({}).MILLRACE_CLICKHOUSE_PASSWORD?.value, '')
})
