/** The list of flags, of 500 of them. */
import t from 'tap'
import { checkScreens, findBarriers, openProject } from './open-console.ts'

t.test('the list of flags', async (t) => {
  const screens = await openProject(t)
  const { stack, open, home } = screens
  await t.test('500 flags: a page, a search and the next page', async (t) => {
    await stack.sql`INSERT INTO feature_flags (project_id, key, name, filters)
      SELECT ${stack.project}, 'team-' || n % 20 || '-feature-' || n, 'Feature ' || n || ' of the team that builds it', jsonb_build_object(
        'groups', (SELECT jsonb_agg(jsonb_build_object('rollout_percentage', n % 100, 'properties', jsonb_build_array(
          jsonb_build_object('key', 'plan', 'type', 'person', 'operator', 'exact', 'value', jsonb_build_array('pro', 'team', n + 0 * m))))) FROM generate_series(1, 5) AS m),
        'multivariate', '{"variants": [{"key": "control", "rollout_percentage": 50}, {"key": "test", "rollout_percentage": 50}]}'::jsonb)
      FROM generate_series(1, 500) AS n`
    const { page, problems } = await open(`${home}/flags`)
    await page.getByText('1 to 50 of 500').waitFor()
    t.equal(await page.getByRole('row').count(), 51, 'a page is drawn, not all of them')
    await page.getByRole('button', { name: 'Next' }).click()
    await page.getByText('51 to 100 of 500').waitFor()
    await page.getByRole('searchbox', { name: 'Search flags' }).fill('feature-499')
    await page.getByText('1 to 1 of 1').waitFor()
    t.same(problems, [])
    await page.close()
  })

  await t.test('500 flags are tested as one user, and only opened ones are drawn', async (t) => {
    const { page, problems } = await open(`${home}/flags/test`)
    await page.getByRole('textbox', { name: 'Distinct id' }).fill('ann')
    await page.getByRole('button', { name: 'Test', exact: true }).click()
    await page.getByText('team-0-feature-500').waitFor()
    t.equal(await page.getByRole('group').count(), 500)
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
