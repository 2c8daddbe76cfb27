/** Imports in the console: a command is seen, stopped, resumed and proved; another import runs on the server. */
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import t from 'tap'
import { createPersonalKey } from '../../api/projects/personal-keys.ts'
import { type Captured, matchCaptured, runCaptured } from '../../cli/testing/run-captured.ts'
import { waitFor } from '../support/wait-for.ts'
import { checkPage, checkScreens, findBarriers, HOSTILE, logIn, openPage, openProject, wasHacked, whenClosed } from './open-console.ts'

const ROWS = 30_000
/** The first event of the files, which came before them with other properties. */
const LIVE = '00000000-aaaa-4bbb-8ccc-123456789012'

const screens = await openProject(t)
const { stack, open, home, browser } = screens
const folder = await mkdtemp(path.join(tmpdir(), "millrace's imports "))
t.teardown(async () => await rm(folder, { recursive: true, force: true }))
const files = path.join(folder, '$HOME of it')
await mkdir(files)
// A longer name is rejected.
const names = HOSTILE.filter(({ length }) => length <= 200)
const rows = Array.from({ length: ROWS }, (_, i) => JSON.stringify({
  uuid: `${i.toString(16).padStart(8, '0')}${LIVE.slice(8)}`, event: i % 1000 === 1 ? names[(i - 1) / 1000 % names.length] : 'seen', distinct_id: 'ann',
  timestamp: new Date(Date.parse('2023-01-01') + i * 30_000).toISOString(), properties: { i }
}))
await writeFile(path.join(files, '<img src=x onerror=globalThis.hacked=1>.jsonl'), [...rows, '{"event":""}', '{"event":""}', 'no JSON', ''].join('\n'))

/** Runs the command where the files are, with the key in the environment. */
async function runImport (...options: string[]): Promise<Captured> {
  const to = ['--url', stack.url, '--project', String(stack.project), '--state', path.join(folder, 'state')]
  return await runCaptured(['import', 'posthog', files, ...to, ...options], { MILLRACE_KEY: stack.personalApiKey })
}

t.test('an import from the empty page to its proof', async (t) => {
  await waitFor(async () => (await fetch(`${stack.url}/batch/`, {
    method: 'POST', headers: { 'content-type': 'application/json' },
    body: JSON.stringify({
      api_key: stack.projectApiKey, historical_migration: true,
      batch: [{ uuid: LIVE, event: 'seen', distinct_id: 'ann', timestamp: '2023-01-01T00:00:00.000Z', properties: { i: 'live' } }]
    })
  })).ok)
  const { page, problems } = await open(`${home}/health`)
  await page.getByRole('navigation').getByRole('link', { name: 'Imports' }).click()
  await page.getByText('No imports yet.').waitFor()
  await checkPage(t, page, 'no imports')

  await page.getByRole('link', { name: 'New import' }).focus()
  await page.keyboard.press('Enter')
  await page.getByText('No files yet.').waitFor()
  t.equal(await page.getByLabel('Dry run', { exact: true }).innerText(), `npx millrace import posthog ./export --url ${stack.url} --project ${stack.project} --dry-run`)
  await checkPage(t, page, 'new import')

  const list = await openPage(screens.context, stack.url, `${home}/imports`)
  matchCaptured(t, await runImport('--dry-run'), { code: 5, out: /rows +30003/ })
  // Nobody loads the page again.
  const dry = list.page.getByRole('row', { name: /posthog, dry run \d+/ })
  await dry.getByText('complete, 3 rejected').waitFor()
  t.match(await dry.innerText(), /30,003\s+3\s+0\s/)
  t.same(await stack.select(`SELECT 1 FROM events WHERE project_id = ${stack.project} AND uuid != '${LIVE}'`), [])

  // It has to run until it is stopped: five minutes.
  const running = runImport('--events-per-second', '100')
  await list.page.getByRole('link', { name: /posthog, import \d+/ }).click()
  await list.page.getByRole('status').getByText('running', { exact: true }).waitFor()
  const accepted = list.page.locator('dd', { hasText: / accepted, [\d,]+ a second/ })
  await waitFor(async () => /^[1-9]/.test(await accepted.innerText()))
  t.ok(Number(await list.page.getByRole('progressbar', { name: 'Bytes read' }).getAttribute('value')) > 0)
  t.equal(await list.page.getByRole('button', { name: /Delete/ }).count(), 0, 'one that runs is not deleted')
  await checkPage(t, list.page, 'a running import')

  await list.page.getByRole('button', { name: 'Stop …' }).focus()
  await list.page.keyboard.press('Enter')
  const dialog = list.page.getByRole('dialog')
  await dialog.getByText('the same command resumes the import').waitFor()
  await dialog.getByRole('button', { name: 'Stop' }).click()
  await whenClosed(dialog)
  await list.page.getByRole('status').getByText(/^stop(ping|ped)$/).waitFor()
  matchCaptured(t, await running, { code: 1, err: /run the same command to resume it/ })
  await list.page.getByRole('status').getByText('stopped', { exact: true }).waitFor()
  await list.page.getByText('Run the same command again in the same folder').waitFor()
  t.equal(await list.page.getByRole('button', { name: 'Stop …' }).count(), 0)

  matchCaptured(t, await runImport('--events-per-second', '0'), { code: 5, out: /complete +yes/ })
  await list.page.getByRole('status').getByText('complete, 3 rejected').waitFor()
  await list.page.getByText('30,003, 3 rejected').waitFor()
  t.match(await list.page.getByRole('region', { name: 'Rejected rows by reason' }).innerText(), /event is missing\s+2\n.*not JSON\s+1/)
  await list.page.getByText(/^\d+ of \d+ days and names are stored exactly/).waitFor()
  const [first, second] = await list.page.getByRole('region', { name: 'Proof by day and event' }).locator('tbody tr').allInnerTexts()
  t.match(first, /^2023-01-01\s+seen\s+[\d,]+\s+0\s+0\s+1$/, 'what differs is first')
  t.match(second, /\s0\s+0\s+0$/)
  t.notOk(await wasHacked(list.page))
  await checkPage(t, list.page, 'a proof')
  t.same(list.problems, [])

  await list.page.getByRole('region', { name: 'Events that differ' }).getByRole('link', { name: LIVE }).click()
  await list.page.getByText('It is stored and visible to queries.').waitFor()
  t.same(problems, [])
})

t.test('who may only read is offered no stop; one that was killed is silent; a report is deleted', async (t) => {
  const { key } = await createPersonalKey(stack.sql, {
    email: 'admin@millrace.localhost', label: 'reader', scopes: ['event:read'], projectIds: [stack.project], expiresAt: null
  })
  const context = await browser.newContext()
  await stack.sql`UPDATE imports SET ended_at = NULL, result = NULL, state = 'running', last_reported_at = now() - interval '2 minutes' WHERE project_id = ${stack.project} AND mode = 'dry_run'`
  const [{ id }] = await stack.sql<[{ id: number }]>`SELECT id FROM imports WHERE project_id = ${stack.project} AND mode = 'dry_run'`
  const { page: reader } = await openPage(context, stack.url, `${home}/imports/${id}`)
  await logIn(reader, key)
  await reader.getByRole('status').getByText('silent', { exact: true }).waitFor()
  await reader.getByText('2 min ago').waitFor()
  t.same(await reader.locator('main').getByRole('button').allInnerTexts(), [])
  await reader.getByRole('link', { name: 'Imports', exact: true }).last().click()
  await reader.getByRole('row', { name: /posthog, dry run/ }).waitFor()
  t.equal(await reader.getByRole('link', { name: 'New import' }).count(), 0, 'nor a new import')
  await context.close()

  const { page, problems } = await open(`${home}/imports/${id}`)
  await page.getByRole('button', { name: 'Delete the report …' }).click()
  await page.getByRole('dialog').getByRole('button', { name: 'Delete' }).click()
  await page.getByRole('heading', { name: 'Imports' }).waitFor()
  await page.getByText('1 to 1 of 1').waitFor()
  t.same(problems, [])
  const { page: gone } = await open(`${home}/imports/${id}`)
  await gone.getByRole('alert').getByText('The import: not found').waitFor()
})

t.test('an export on the server is imported from the page, after a dry run', async (t) => {
  const { folder: there } = await (await fetch(`${stack.url}/api${home}/imports/files/`, { headers: { authorization: `Bearer ${stack.personalApiKey}` } })).json() as { folder: string }
  const { page, problems } = await open(`${home}/imports/new`)
  await page.getByText('No files yet.').waitFor()
  await mkdir(there, { recursive: true })
  t.teardown(async () => await rm(there, { recursive: true, force: true }))
  await writeFile(path.join(there, '<b>own.csv'), 'what,who,at\nbought,ann,2023-05-01T00:00:00Z\n')
  // Nobody loads the page again.
  for (const [from, label] of [['Mixpanel', 'Time zone'], ['PostHog', 'Persons come from'], ['CSV, JSON Lines or Parquet', 'Column of distinct_id']] as const) {
    await page.getByRole('combobox', { name: 'From', exact: true }).selectOption(from)
    await page.getByLabel(label).waitFor()
    t.same(await findBarriers(page), [], from)
  }
  await page.getByRole('combobox', { name: 'Files or folders', exact: true }).selectOption('<b>own.csv, 44 B')
  await page.getByLabel('Column of event').fill('what')
  await page.getByLabel('Column of timestamp').fill('nowhere')
  await page.getByRole('button', { name: 'Start' }).click()
  await page.getByRole('heading', { name: /^files, dry run/ }).waitFor()
  await page.getByRole('status').getByText('incomplete').waitFor()
  await page.getByText(/own.csv: .*nowhere/).waitFor()
  await checkPage(t, page, 'a dry run on the server')

  await page.goBack()
  await page.getByRole('combobox', { name: 'From', exact: true }).selectOption('CSV, JSON Lines or Parquet')
  await page.getByLabel('Column of event').fill('what')
  await page.getByLabel('Column of timestamp').fill('at')
  await page.getByLabel('Column of distinct_id').fill('who')
  await page.getByLabel('This is').selectOption('false')
  await page.getByRole('button', { name: 'Start' }).click()
  await page.getByRole('heading', { name: /^files, import/ }).waitFor()
  await page.getByRole('status').getByText('complete', { exact: true }).waitFor()
  await page.getByText('Mapping: --map event=what').waitFor()
  t.same(await stack.select(`SELECT event FROM events WHERE project_id = ${stack.project} AND event = 'bought'`), [{ event: 'bought' }])
  t.same(problems, [])
})

t.test('the screens are accessible and fit, light and dark, from 360 to 2,560 pixels', async (t) => {
  await checkScreens(t, screens, [`${home}/imports`, `${home}/imports/new`])
})
