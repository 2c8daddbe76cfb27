import { fastify, type FastifyInstance } from 'fastify'
import t, { type Test } from 'tap'
import { HttpError } from '../../engines/errors.ts'
import { createLogger } from '../../platform/logger.ts'
import { createAnswerError } from './answer-error.ts'

/** An app whose one route throws. */
function createApp (t: Test, error: unknown): FastifyInstance {
  const app = fastify()
  app.setErrorHandler(createAnswerError(createLogger({ component: 'test', level: 'silent' })))
  app.post('/', () => { throw error })
  t.teardown(async () => await app.close())
  return app
}

t.test('a bug is answered 500 and says nothing of its inside', async (t) => {
  for (const error of [new Error('password=secret'), new TypeError('x of undefined'), Object.assign(new Error('secret'), { statusCode: 500 })]) {
    const answer = await createApp(t, error).inject({ method: 'POST', url: '/' })

    t.equal(answer.statusCode, 500)
    t.same(answer.json(), { type: 'server_error', code: 'error', detail: 'A server error occurred.', attr: null })
  }
})

t.test('what the framework refuses has the shape of the contract', async (t) => {
  const answer = await createApp(t, null).inject({ method: 'POST', url: '/', body: '{', headers: { 'content-type': 'application/json' } })

  t.equal(answer.statusCode, 400)
  t.match(answer.json(), { type: 'validation_error', code: /^FST_/, detail: String, attr: null })
})

t.test('503 and 429 say when to come back, others do not', async (t) => {
  const answer = async (error: HttpError): Promise<unknown> =>
    (await createApp(t, error).inject({ method: 'POST', url: '/' })).headers['retry-after']

  t.equal(await answer(new HttpError(503, 'server_error', 'stream_unavailable', 'no')), '5')
  t.equal(await answer(new HttpError(429, 'throttled_error', 'throttled', 'no', { details: { retryAfterSeconds: 7 } })), '7')
  t.equal(await answer(new HttpError(401, 'authentication_error', 'invalid_api_key', 'no')), undefined)
})
