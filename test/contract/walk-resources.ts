import { randomUUID } from 'node:crypto'
import { mkdir, writeFile } from 'node:fs/promises'
import path from 'node:path'
import type { Test } from 'tap'
import { hashPersonalKey } from '../../schema/key-text.ts'
import type { ContractSystem } from './contract-client.ts'

/** What has a list, pages and all operations, such as boards, exports and imports. */
export async function walkResources (t: Test, { stack, client }: ContractSystem): Promise<void> {
  await t.test('Saved queries: every operation', async (t) => {
    const { status, body: created } = await client.call(t, 'POST', '~/saved_queries/', { name: 'Example', query: 'SELECT 1', chart: { kind: 'bar' } })
    t.equal(status, 201, 'create')

    t.match(await client.call(t, 'GET', '~/saved_queries/?limit=1&offset=0'), { status: 200, body: { count: 1, results: [{ id: created.id }] } }, 'list')
    t.match(await client.call(t, 'GET', `~/saved_queries/${created.id}/`), { status: 200, body: created }, 'retrieve')
    t.match(await client.call(t, 'PATCH', `~/saved_queries/${created.id}/`, { description: 'Partial' }), {
      status: 200, body: { name: 'Example', description: 'Partial' }
    }, 'update')
    t.equal((await client.call(t, 'DELETE', `~/saved_queries/${created.id}/`)).status, 204, 'delete')
  })

  await t.test('Annotations: every operation', async (t) => {
    const { status, body: created } = await client.call(t, 'POST', '~/annotations/', { name: 'Release 2.3', at: '2026-11-20T10:00:00,5+01:00' })
    t.match({ status, created }, { status: 201, created: { at: '2026-11-20T09:00:00.500Z' } }, 'create')
    t.match(await client.call(t, 'POST', '~/annotations/', { name: 'Release 2.3', at: 'yesterday' }), { status: 400, body: { attr: 'at' } })
    t.match(await client.call(t, 'POST', '~/annotations/', { name: 'Release 2.3', at: '2026-11-20T09:00:00.500Z' }), { status: 400, body: { code: 'unique' } })

    t.match(await client.call(t, 'GET', '~/annotations/?limit=1&offset=0'), { status: 200, body: { count: 1, results: [{ id: created.id }] } }, 'list')
    t.match(await client.call(t, 'GET', `~/annotations/${created.id}/`), { status: 200, body: created }, 'retrieve')
    t.match(await client.call(t, 'PATCH', `~/annotations/${created.id}/`, { name: 'Release 2.4' }), { status: 200, body: { name: 'Release 2.4', at: created.at } }, 'update')
    t.equal((await client.call(t, 'DELETE', `~/annotations/${created.id}/`)).status, 204, 'delete')
  })

  await t.test('Questions: every operation', async (t) => {
    const definition = { kind: 'trend', version: 1, series: [{ event: 'paid' }] }
    const { status, body: created } = await client.call(t, 'POST', '~/questions/', { name: 'Example', definition })
    t.equal(status, 201, 'create')

    t.match(await client.call(t, 'GET', '~/questions/?limit=1&offset=0'), { status: 200, body: { count: 1, results: [{ id: created.id }] } }, 'list')
    t.match(await client.call(t, 'GET', `~/questions/${created.id}/`), { status: 200, body: created }, 'retrieve')
    t.match(await client.call(t, 'PATCH', `~/questions/${created.id}/`, { description: 'Partial' }), {
      status: 200, body: { name: 'Example', description: 'Partial' }
    }, 'update')
    t.match(await client.call(t, 'GET', `~/questions/${created.id}/answer/`), { status: 200 }, 'answer')
    t.match(await client.call(t, 'POST', '~/questions/answer/', { definition }), { status: 200 }, 'answer a definition')
    const funnel = { kind: 'funnel', version: 1, steps: [{ event: 'seen' }, { event: 'paid' }] }
    t.match(await client.call(t, 'POST', '~/questions/persons/', { definition: funnel, cell: { step: 1 } }), { status: 200 }, 'persons of a funnel')
    t.equal((await client.call(t, 'DELETE', `~/questions/${created.id}/`)).status, 204, 'delete')
  })

  await t.test('Boards: every operation', async (t) => {
    const { body: { id: question } } = await client.call(t, 'POST', '~/questions/', { name: 'On a board', definition: { kind: 'trend', version: 1, series: [{ event: 'paid' }] } })
    const { status, body: created } = await client.call(t, 'POST', '~/boards/', { name: 'Example', tiles: [{ kind: 'question', id: question }] })
    t.equal(status, 201, 'create')

    t.match(await client.call(t, 'GET', '~/boards/?limit=1&offset=0'), { status: 200, body: { count: 1, results: [{ id: created.id }] } }, 'list')
    t.match(await client.call(t, 'GET', `~/boards/${created.id}/`), { status: 200, body: created }, 'retrieve')
    t.match(await client.call(t, 'PATCH', `~/boards/${created.id}/`, { description: 'Partial' }), { status: 200, body: { description: 'Partial' } }, 'update')
    t.match(await client.call(t, 'GET', `~/boards/${created.id}/answers/question/${question}/`), { status: 200, body: { name: 'On a board' } }, 'answer')
    const { body: link } = await client.call(t, 'POST', `~/boards/${created.id}/links/`, { expires_at: null })
    t.match(await client.call(t, 'GET', `~/boards/${created.id}/links/`), { status: 200, body: { results: [{ id: link.id }] } }, 'links')
    const byLink = { authorization: `Bearer ${link.value}` }
    t.match(await client.call(t, 'GET', '/api/shared_board/', undefined, byLink), { status: 200, body: { name: 'Example' } }, 'the board of a link')
    t.match(await client.call(t, 'GET', `/api/shared_board/answers/question/${question}/`, undefined, byLink), { status: 200, body: { question: { sql: '' } } }, 'its answer')
    t.equal((await client.call(t, 'DELETE', `~/boards/${created.id}/links/${link.id}/`)).status, 204, 'end a link')
    t.equal((await client.call(t, 'DELETE', `~/boards/${created.id}/`)).status, 204, 'delete')
    t.equal((await client.call(t, 'DELETE', `~/questions/${question}/`)).status, 204)
  })

  await t.test('Exports: every operation', async (t) => {
    const { status, body: created } = await client.call(t, 'POST', '~/exports/', { name: 'example', schedule: 'hour', target: { kind: 'folder' } })
    t.equal(status, 201, 'create')

    t.match(await client.call(t, 'GET', '~/exports/?limit=1&offset=0'), { status: 200, body: { count: 1, results: [{ id: created.id }] } }, 'list')
    t.match(await client.call(t, 'GET', `~/exports/${created.id}/`), { status: 200, body: { id: created.id, target: created.target } }, 'retrieve')
    t.match(await client.call(t, 'PATCH', `~/exports/${created.id}/`, { paused: true }), { status: 200, body: { paused: true } }, 'update')
    t.match(await client.call(t, 'POST', `~/exports/${created.id}/run/`, { from: '2026-01-01T00:00:00Z', to: '2026-01-01T02:00:00Z' }), {
      status: 200, body: { planned: 2 }
    }, 'run')
    t.match(await client.call(t, 'GET', `~/exports/${created.id}/windows/?limit=1&offset=0`), { status: 200, body: { count: 2 } }, 'windows')
    t.equal((await client.call(t, 'DELETE', `~/exports/${created.id}/`)).status, 204, 'delete')
  })

  await t.test('Targets: every operation', async (t) => {
    const { status, body: created } = await client.call(t, 'POST', '~/targets/', { name: 'Example', kind: 'webhook', url: 'http://127.0.0.1:9/hook?secret=1', events: ['paid'] })
    t.match([status, created], [201, { url: 'http://127.0.0.1:9/…', secret: undefined }], 'create')
    t.match(await client.call(t, 'GET', '~/targets/?limit=1&offset=0'), { status: 200, body: { count: 1, results: [{ id: created.id }] } }, 'list')
    t.match(await client.call(t, 'GET', `~/targets/${created.id}/`), { status: 200, body: created }, 'retrieve')
    t.match(await client.call(t, 'PATCH', `~/targets/${created.id}/`, { ...created, description: 'Partial' }), { status: 200, body: { description: 'Partial' } }, 'update')
    t.match(await client.call(t, 'POST', `~/targets/${created.id}/secret/`), { status: 200, body: { secret: /^whsec_[A-Za-z0-9+/]{43}=$/ } }, 'secret')
    t.match(await client.call(t, 'POST', `~/targets/${created.id}/test/`), { status: 200, body: { delivered: false, error: /127\.0\.0\.1 is a loopback address/ } }, 'test')
    t.equal((await client.call(t, 'DELETE', `~/targets/${created.id}/`)).status, 204, 'delete')
  })

  await t.test('Alerts: every operation', async (t) => {
    const { body: { id: target } } = await client.call(t, 'POST', '~/targets/', { name: 'Of an alert', kind: 'mail', url: 'mailto:ops@example.com' })
    const { body: { id: question } } = await client.call(t, 'POST', '~/questions/', { name: 'Watched', definition: { kind: 'trend', version: 1, series: [{ event: 'paid' }] } })
    const watched = { about: { kind: 'question', id: question }, every: 'hour', condition: { is: 'above', value: 3 } }
    const { status, body: created } = await client.call(t, 'POST', '~/alerts/', { name: 'Example', ...watched, targets: [target] })
    t.equal(status, 201, 'create')
    t.match(await client.call(t, 'GET', '~/alerts/?limit=1&offset=0'), { status: 200, body: { count: 1, results: [{ id: created.id }] } }, 'list')
    t.match(await client.call(t, 'GET', `~/alerts/${created.id}/`), { status: 200, body: { name: 'Example', is_firing: false, ...watched } }, 'retrieve')
    t.match(await client.call(t, 'PATCH', `~/alerts/${created.id}/`, { description: 'Partial' }), { status: 200, body: { description: 'Partial' } }, 'update')
    t.match(await client.call(t, 'GET', `~/alerts/${created.id}/windows/`), { status: 200, body: { results: [] } }, 'windows')
    await stack.sql`INSERT INTO report_pictures ${stack.sql({ key_hash: hashPersonalKey('phl_shown'), alert_id: created.id, shows_sql: false, png: Buffer.from('png') })}`
    await client.open(t, 'GET', '/api/shared_board/pictures/phl_shown')
    t.match(await client.call(t, 'POST', '~/alerts/dry_run/', watched), { status: 200, body: { windows: 720, results: Array } }, 'dry run')
    t.equal((await client.call(t, 'DELETE', `~/alerts/${created.id}/`)).status, 204, 'delete')
    t.equal((await client.call(t, 'DELETE', `~/questions/${question}/`)).status, 204)
    t.equal((await client.call(t, 'DELETE', `~/targets/${target}/`)).status, 204)
  })

  await t.test('Imports: every operation', async (t) => {
    const progress = { rows: 1, accepted: 1, rejected: 0, bytes_read: 9, events_per_second: 1, reasons: [] }
    const { status, body: { id } } = await client.call(t, 'POST', '~/imports/', {
      checkpoint: randomUUID(), source: 'files', mode: 'import', options: [], version: '0.1.0', files: [{ name: 'a.csv', bytes: 9 }], file_count: 1, bytes: 9
    })
    t.equal(status, 201, 'start')

    t.match(await client.call(t, 'GET', '~/imports/?limit=1&offset=0'), { status: 200, body: { count: 1, results: [{ id }] } }, 'list')
    const { body: { folder } } = await client.call(t, 'GET', '~/imports/files/')
    await mkdir(folder, { recursive: true })
    await writeFile(path.join(folder, 'a.csv'), 'event,distinct_id,timestamp\nseen,ann,2023-01-01\n')
    t.match(await client.call(t, 'GET', '~/imports/files/'), { status: 200, body: { files: [{ name: 'a.csv' }] } }, 'files')
    t.match(await client.call(t, 'POST', '~/imports/run/', { source: 'files', name: 'a.csv', dry_run: true }), { status: 201, body: { id: Number } }, 'run')
    t.match(await client.call(t, 'POST', `~/imports/${id}/stop/`), { status: 200, body: { id } }, 'stop')
    t.match(await client.call(t, 'POST', `~/imports/${id}/report/`, { state: 'running', progress }), { status: 200, body: { stop: true } }, 'report')
    t.match(await client.call(t, 'GET', `~/imports/${id}/`), { status: 200, body: { progress } }, 'retrieve')
    t.equal((await client.call(t, 'DELETE', `~/imports/${id}/`)).status, 409, 'delete a running one')
    t.equal((await client.call(t, 'POST', `~/imports/${id}/report/`, { state: 'interrupted', progress })).status, 200, 'report the end')
    t.equal((await client.call(t, 'DELETE', `~/imports/${id}/`)).status, 204, 'delete')
  })
}
