/** Exports, targets and alerts in the console. */
import path from 'node:path'
import t from 'tap'
import { verifyExport } from '../../cli/commands/verify-export.js'
import { waitFor } from '../support/wait-for.ts'
import { receiveRequests } from '../../pipeline/windows/testing/receive-requests.ts'
import { checkPage, findBarriers, openProject, send, whenClosed } from './open-console.ts'

const DAY_MS = 86_400_000

t.test('an export is made by its form, writes earlier windows, and is paused', async (t) => {
  const { stack, open, home } = await openProject(t)
  const { page, problems } = await open(`${home}/exports`)
  await page.getByText('There are no exports yet.').waitFor()
  // The watermark is known once there is an event.
  await send(stack, [{ event: 'paid' }])

  await page.getByRole('button', { name: 'New export …' }).click()
  await page.getByLabel('Name, part of the path').fill('Lake')
  await page.getByRole('button', { name: 'Create' }).click()
  await page.getByText(/The name is part of a path/).waitFor()
  await page.getByLabel('Name, part of the path').fill('lake')
  await page.getByLabel('persons').check()
  t.same(await findBarriers(page), [], 'the form')
  await page.getByRole('button', { name: 'Create' }).click()
  await whenClosed(page.getByRole('dialog'))
  const row = page.getByRole('row', { name: /lake/ })
  await row.getByText('hour, events, persons').waitFor()

  const day = (ago: number): string => new Date(Date.now() - ago * DAY_MS).toISOString().slice(0, 10)
  await row.getByRole('button', { name: 'Earlier windows lake …' }).click()
  await page.getByLabel('From').fill(day(2))
  await page.getByLabel('To (exclusive)').fill(day(1))
  await page.getByRole('button', { name: 'Export', exact: true }).click()
  await whenClosed(page.getByRole('dialog'))
  await waitFor(async () => (await stack.sql`SELECT FROM export_windows WHERE written_at IS NOT NULL`).length === 48)
  const { problems: found, tables } = await verifyExport(path.join(stack.dataDir, 'exports'))
  t.same(found, [])
  t.same(tables.map(({ windows, rows }) => [windows, rows]), [[24, 0], [24, 0]])

  await row.getByRole('button', { name: 'Pause lake …' }).click()
  await page.getByRole('button', { name: 'Pause', exact: true }).click()
  await row.getByText('paused').waitFor()
  t.same(await findBarriers(page), [])
  t.match(problems, [/400 \(Bad Request\).*\/exports\/$/])
  t.equal(problems.length, 1, 'the name that was refused')
})

t.test('a target is made with the keyboard, tested, and shown with its failure, without what it answered', async (t) => {
  const { stack, open, home } = await openProject(t)
  const hook = await receiveRequests(t)
  const { page, problems } = await open(`${home}/targets`)
  await page.getByText('There are no targets yet.').waitFor()
  await page.getByRole('button', { name: 'New target …' }).focus()
  await page.keyboard.press('Enter')
  const dialog = page.getByRole('dialog')
  await dialog.getByLabel('Name', { exact: true }).fill('crm')
  await dialog.getByLabel('Kind').selectOption({ label: 'Webhook' })
  await dialog.getByLabel('URL').fill('ftp://example.com')
  await dialog.getByLabel('Events to send').fill('order paid\n\n left ')
  await page.getByRole('button', { name: 'Create' }).click()
  await dialog.getByText(/Give a URL that begins with https/).waitFor()
  t.same(await findBarriers(page), [], 'the form')
  await dialog.getByLabel('URL').fill(hook.url)
  await page.keyboard.press('Enter')
  await whenClosed(dialog)
  const row = page.getByRole('row', { name: /crm/ })
  await row.getByText('left, order paid').waitFor()

  const test = async (): Promise<void> => {
    await row.getByRole('button', { name: 'Test crm …' }).focus()
    await page.keyboard.press('Enter')
    await dialog.getByRole('button', { name: 'Send' }).click()
  }
  await test()
  await page.getByText('Delivered to crm.').waitFor()
  hook.setAnswer((response) => response.writeHead(500).end('a secret of the other side'))
  await test()
  await dialog.getByText('Not delivered: it answered 500.').waitFor()
  await page.keyboard.press('Escape')
  await whenClosed(dialog)
  await row.getByText('it answered 500').waitFor()
  t.notMatch(await page.content(), /a secret of the other side/)

  await row.getByRole('button', { name: 'Edit crm …' }).click()
  t.match(await dialog.getByLabel('URL').inputValue(), /^http:\/\/127\.0\.0\.1:\d+\/…$/)
  await dialog.getByLabel('On', { exact: true }).uncheck()
  await page.getByRole('button', { name: 'Save' }).click()
  await whenClosed(dialog)
  await row.getByText('off', { exact: true }).waitFor()
  t.same(await stack.sql`SELECT url, events, enabled FROM targets WHERE project_id = ${stack.project}`, [{ url: hook.url, events: ['order paid', 'left'], enabled: false }])
  await row.getByRole('button', { name: 'Secret crm …' }).click()
  await dialog.getByText(/^whsec_/).waitFor()
  await dialog.getByRole('button', { name: 'Close' }).click()
  await whenClosed(dialog)
  await checkPage(t, page, 'targets')
  t.match(problems, [/400 \(Bad Request\).*\/targets\/$/])
})

t.test('an alert on a question is tried over 30 days, saved and changed; a board is sent each Monday', async (t) => {
  const { stack, open, home } = await openProject(t)
  const call = async (path: string, body: object): Promise<{ id: number }> => await (await fetch(`${stack.url}/api${home}/${path}/`, {
    method: 'POST', headers: { authorization: `Bearer ${stack.personalApiKey}`, 'content-type': 'application/json' }, body: JSON.stringify(body)
  })).json() as { id: number }
  await send(stack, [{ event: 'paid' }])
  const question = await call('questions', { name: 'Payments', definition: { kind: 'trend', version: 1, series: [{ event: 'paid' }] } })
  const board = await call('boards', { name: 'Shop', tiles: [{ kind: 'question', id: question.id }] })
  await call('targets', { name: 'team', kind: 'mail', url: 'mailto:team@example.com' })
  await waitFor(async () => (await stack.select('SELECT 1 FROM watermark_reached LIMIT 1')).length === 1)

  const { page, problems } = await open(`${home}/questions/${question.id}`)
  await page.getByRole('link', { name: 'New alert' }).click()
  await page.getByRole('heading', { name: 'New alert', level: 1 }).waitFor()
  await page.getByLabel('Name').fill('Few payments')
  await page.getByLabel('Number').fill('10')
  await page.getByLabel('team').check()
  await page.getByRole('button', { name: 'Run over 30 days' }).focus()
  await page.keyboard.press('Enter')
  await page.getByText('Would have fired once in 720 windows.').waitFor()
  await page.getByRole('region', { name: 'Dry run' }).getByText('fired').waitFor()
  await page.getByRole('button', { name: 'Create' }).click()
  await page.getByRole('heading', { name: 'Few payments', level: 1 }).waitFor()
  await page.getByText('No window was evaluated yet.').waitFor()

  const [alert] = await stack.sql<[{ id: number }]>`SELECT id FROM alerts WHERE project_id = ${stack.project}`
  await stack.sql`INSERT INTO alert_windows (alert_id, window_from, window_to, value, outcome) VALUES (${alert.id}, '2026-05-04 06:00Z', '2026-05-04 07:00Z', 7, 'fired')`
  await stack.sql`UPDATE alerts SET is_firing = true WHERE id = ${alert.id}`
  await page.getByLabel('Fires when the value').selectOption({ label: 'rises by … % in a week' })
  await page.getByRole('button', { name: 'Save' }).click()
  await page.getByText('firing').waitFor()
  await page.getByRole('region', { name: 'History' }).getByText('fired').waitFor()
  await checkPage(t, page, 'an alert')

  await page.goto(`${stack.url}/console${home}/boards/${board.id}`)
  await page.getByRole('link', { name: 'Send by mail or Slack' }).click()
  await page.getByLabel('Name').fill('Shop on Monday')
  await page.getByLabel('Sent each').selectOption({ label: 'Monday' })
  await page.getByLabel('team').check()
  await page.keyboard.press('Enter')
  await page.getByRole('heading', { name: 'Shop on Monday', level: 1 }).waitFor()
  await page.getByRole('link', { name: 'Alerts', exact: true }).last().click()
  await page.getByRole('row', { name: /Few payments rises by 10 % in a week, each hour firing .* team/ }).waitFor()
  await page.getByRole('row', { name: /Shop on Monday sent each Monday on .* team/ }).waitFor()
  await checkPage(t, page, 'alerts')
  await page.goto(`${stack.url}/console${home}/targets`)
  await page.getByRole('row', { name: /team/ }).getByRole('link', { name: 'Shop on Monday' }).waitFor()

  // Somebody else changes it meanwhile.
  await page.goto(`${stack.url}/console${home}/alerts/${alert.id}`)
  await page.getByLabel('Description').fill('mine')
  await stack.sql`UPDATE alerts SET updated_at = now() WHERE id = ${alert.id}`
  await page.getByRole('button', { name: 'Save' }).click()
  await page.getByText(/was changed since you read it/).waitFor()
  await page.getByRole('button', { name: 'Try again' }).click()
  await waitFor(async () => (await stack.sql`SELECT 1 FROM alerts WHERE id = ${alert.id} AND description = 'mine'`).length === 1)
  t.match(problems, [/409 \(Conflict\).*\/alerts\/\d+\/$/])
})
