/** The list of flags: last called and stale, and 500 of them. */
import t from 'tap'
import { waitFor } from '../support/wait-for.ts'
import { checkScreens, findBarriers, openProject, send } from './open-console.ts'

t.test('the list of flags', async (t) => {
  const screens = await openProject(t)
  const { stack, open, home } = screens
  const plant = async (key: string, filters: object, daysAgo: number): Promise<void> => {
    await stack.sql`INSERT INTO feature_flags (project_id, key, filters, created_at, updated_at)
      VALUES (${stack.project}, ${key}, ${JSON.stringify(filters)}::text::jsonb, now() - ${daysAgo} * interval '1 day', now() - ${daysAgo} * interval '1 day')`
  }

  await t.test('says when a flag was last called, and what is stale', async (t) => {
    const half = { groups: [{ properties: [], rollout_percentage: 50 }] }
    await plant('called', half, 100)
    await plant('forgotten', half, 100)
    await plant('done', { groups: [{ properties: [], rollout_percentage: 100 }] }, 45)
    await plant('new', half, 1)
    const { page, problems } = await open(`${home}/flags`)
    await page.getByText('No SDK of this project reported a call of a flag in 30 days.').waitFor()

    await send(stack, [{ event: '$feature_flag_called', properties: { $feature_flag: 'called', $feature_flag_response: true } }])
    const row = (key: string) => page.getByRole('row', { name: new RegExp(`^${key} `) })
    await waitFor(async () => {
      await page.reload()
      await row('called').getByText(/ago|just now/).first().waitFor({ timeout: 2000 })
      return await row('forgotten').getByText('not called for 30 days, unchanged for 100').isVisible()
    }, { timeoutMs: 30_000 })
    await row('done').getByText('on for everyone for 45 days').waitFor()
    t.equal(await row('called').getByText('stale').count(), 0)
    t.equal(await row('new').getByText('stale').count(), 0)
    t.match(await row('new').innerText(), /not in 30 days/)
    t.same(problems, [])
    await page.close()
  })

  await t.test('500 flags: a page, a search and the next page', async (t) => {
    await stack.sql`INSERT INTO feature_flags (project_id, key, name, filters)
      SELECT ${stack.project}, 'team-' || n % 20 || '-feature-' || n, 'Feature ' || n || ' of the team that builds it', jsonb_build_object(
        'groups', (SELECT jsonb_agg(jsonb_build_object('rollout_percentage', n % 100, 'properties', jsonb_build_array(
          jsonb_build_object('key', 'plan', 'type', 'person', 'operator', 'exact', 'value', jsonb_build_array('pro', 'team', n + 0 * m))))) FROM generate_series(1, 5) AS m),
        'multivariate', '{"variants": [{"key": "control", "rollout_percentage": 50}, {"key": "test", "rollout_percentage": 50}]}'::jsonb)
      FROM generate_series(1, 500) AS n`
    await send(stack, Array.from({ length: 500 }, (_, n) => ({
      event: '$feature_flag_called', distinct_id: `p${n}`, properties: { $feature_flag: `team-${(n + 1) % 20}-feature-${n + 1}`, $feature_flag_response: 'test' }
    })))
    const { page, problems } = await open(`${home}/flags`)
    await page.getByText('1 to 50 of 504').waitFor()
    t.equal(await page.getByRole('row').count(), 51, 'a page is drawn, not all of them')
    await page.getByRole('button', { name: 'Next' }).click()
    await page.getByText('51 to 100 of 504').waitFor()
    await page.getByRole('searchbox', { name: 'Search flags' }).fill('feature-499')
    await page.getByText('1 to 1 of 1').waitFor()
    await waitFor(async () => {
      await page.reload()
      return await page.getByRole('row', { name: /^team-19-feature-499/ }).getByText(/ago|just now/).first().isVisible()
    }, { timeoutMs: 30_000 })
    t.same(problems, [])
    await page.close()
  })

  await t.test('500 flags are tested as somebody, and only what is opened is drawn', async (t) => {
    const { page, problems } = await open(`${home}/flags/test`)
    await page.getByRole('textbox', { name: 'Distinct id' }).fill('ann')
    await page.getByRole('button', { name: 'Test', exact: true }).click()
    await page.getByText('team-0-feature-500').waitFor()
    t.equal(await page.getByRole('group').count(), 504)
    t.equal(await page.getByText('plan is').count(), 0)
    await page.getByText('team-0-feature-500').click()
    await page.getByText('plan is "pro" or "team" or 500').nth(4).waitFor()
    t.same(problems, [])
    await page.close()
  })

  await t.test('the list is accessible and fits with all of them', async (t) => {
    await checkScreens(t, screens, [`${home}/flags`])
    const { page } = await open(`${home}/flags?search=feature-499`)
    await page.getByText('1 to 1 of 1').waitFor()
    t.same(await findBarriers(page), [])
    await page.close()
  })
})
