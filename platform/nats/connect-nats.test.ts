import t from 'tap'
import { parseNatsUrl } from './connect-nats.ts'

t.test('reads servers with and without a scheme', async (t) => {
  t.same(parseNatsUrl('nats://127.0.0.1:4222'), { servers: ['127.0.0.1:4222'] })
  t.same(parseNatsUrl('one:4222, nats://two:4223 ,[::1]:4224'), { servers: ['one:4222', 'two:4223', '[::1]:4224'] })
})

t.test('reads a login, with characters that a URL escapes', async (t) => {
  t.same(parseNatsUrl('nats://ingest:p%40ss%2F@one:4222,nats://two:4222'), {
    servers: ['one:4222', 'two:4222'], user: 'ingest', pass: 'p@ss/'
  })
})

t.test('insists on TLS when a server is named by tls://', async (t) => {
  t.same(parseNatsUrl('tls://one:4222'), { servers: ['one:4222'], tls: {} })
})

t.test('refuses what is no address, without repeating a password', async (t) => {
  for (const text of ['nats://user:secret@', 'nats://user:secret@one:port']) {
    t.throws(() => parseNatsUrl(text), { name: 'TypeError', message: /^(?!.*secret)/ })
  }
})
