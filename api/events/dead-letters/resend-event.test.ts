import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { text } from 'node:stream/consumers'
import t from 'tap'
import type { Sql } from '../../../platform/postgres/connect-postgres.ts'
import { resendEvent } from './resend-event.ts'

t.test('an edited event comes from nobody: neither address nor user agent of the API are taken for those of its user', async (t) => {
  const requests: { url: string | undefined, body: string }[] = []
  const ingest = createServer((request, response) => {
    void text(request).then((body) => {
      requests.push({ url: request.url, body })
      response.end('{"status":1}')
    })
  })
  await new Promise<void>((resolve) => { ingest.listen(0, '127.0.0.1', resolve) })
  t.teardown(() => { ingest.close() })
  const sql = (async () => [{ apiKey: 'phc_key' }]) as unknown as Sql
  const uuid = '0193a5b2-7c1d-4e8f-9abc-000000000002'
  const json = `{"event":"paid","distinct_id":"ann","uuid":"${uuid}","properties":{"$dead_letter_id":1,"$lib":"web","n":12345678901234567890123}}`

  const sent = await resendEvent({ projectId: 1, letter: { id: 1, uuid: null }, json }, {
    sql, ingestUrl: `http://127.0.0.1:${(ingest.address() as AddressInfo).port}`
  })

  t.equal(sent, uuid)
  // As `ingest/normalise/enrich.ts` and `storedAddress` have it.
  t.same(requests, [{ url: '/batch/?ip=0', body: `{"api_key":"phc_key","historical_migration":true,"batch":[${json}]}` }])
})
