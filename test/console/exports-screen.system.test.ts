/** Exports in the console: one is made, earlier windows are written and proven, and it is paused. */
import path from 'node:path'
import t from 'tap'
import { verifyExport } from '../../cli/commands/verify-export.js'
import { waitFor } from '../support/wait-for.ts'
import { findBarriers, openProject, send, whenClosed } from './open-console.ts'

const DAY_MS = 86_400_000

t.test('an export is made by its form, writes earlier windows, and is paused', async (t) => {
  const { stack, open, home } = await openProject(t)
  const { page, problems } = await open(`${home}/exports`)
  await page.getByText('There are no exports yet.').waitFor()
  // The watermark is known once there is an event.
  await send(stack, [{ event: 'paid' }])

  await page.getByRole('button', { name: 'New export …' }).click()
  await page.getByLabel('Name, a part of the path').fill('Lake')
  await page.getByRole('button', { name: 'Create' }).click()
  await page.getByText(/The name is part of a path/).waitFor()
  await page.getByLabel('Name, a part of the path').fill('lake')
  await page.getByLabel('persons').check()
  t.same(await findBarriers(page), [], 'the form')
  await page.getByRole('button', { name: 'Create' }).click()
  await whenClosed(page.getByRole('dialog'))
  const row = page.getByRole('row', { name: /lake/ })
  await row.getByText('hour, events, persons').waitFor()

  const day = (ago: number): string => new Date(Date.now() - ago * DAY_MS).toISOString().slice(0, 10)
  await row.getByRole('button', { name: 'Earlier windows lake …' }).click()
  await page.getByLabel('From').fill(day(2))
  await page.getByLabel('To, without this day').fill(day(1))
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
