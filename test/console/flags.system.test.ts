/** Flags and experiments in the console: written, tested, launched and read off the picture. */
import t from 'tap'
import { askUntil, checkScreens, findBarriers, openProject, send } from './open-console.ts'

t.test('flags and experiments in the console', async (t) => {
  const screens = await openProject(t)
  const { stack, open, home } = screens

  await t.test('a flag is written, tested as somebody before it is saved, and deleted', async (t) => {
    const { page, problems } = await open(`${home}/flags`)
    await page.getByText('There are no flags yet.').waitFor()
    await page.getByRole('link', { name: 'New flag' }).click()
    await page.getByLabel('Key in SDKs').fill('new-checkout')
    await page.getByRole('button', { name: 'Add a filter' }).click()
    await page.getByLabel('Property').fill('plan')
    await page.getByLabel('Value: text').fill('["pro", "team"]')
    await page.getByLabel('Rollout').fill('50')
    await page.getByText('1. 50 % of persons where plan is "pro" or "team"').waitFor()
    await page.getByRole('button', { name: 'Add a variant' }).click()
    await page.getByRole('group', { name: 'Variant 1' }).getByLabel('Key').fill('short')
    await page.getByLabel('For short').fill('{"steps": 2}')

    await page.getByRole('textbox', { name: 'Distinct id' }).fill('ann')
    await page.getByLabel('Person properties').fill('{"plan": "free"}')
    await page.getByRole('button', { name: 'Test', exact: true }).click()
    await page.getByText('saw "free", sent with the request').waitFor()
    await page.getByText('No matching condition set').waitFor()
    await page.getByText(/ann is at [\d.]+ of 100: (within|outside of) the rollout of 50 %/).waitFor()
    t.same(await stack.sql`SELECT key FROM feature_flags WHERE project_id = ${stack.project}`, [], 'it is not saved yet')

    await page.getByLabel('Rollout').fill('')
    await page.getByLabel('Rollout').pressSequentially('0.5')
    await page.getByText('1. 0.5 % of persons where plan is "pro" or "team"').waitFor()
    await page.getByLabel('Rollout').fill('')
    await page.getByRole('button', { name: 'Save' }).click()
    t.equal(await page.locator('input:invalid').count(), 1, 'a share that was cleared is not saved as 100 %')
    await page.getByLabel('Rollout').fill('100')
    await page.getByRole('button', { name: 'Save' }).click()
    await page.getByRole('heading', { name: 'new-checkout', level: 1 }).waitFor()
    t.match(await stack.sql`SELECT filters FROM feature_flags WHERE project_id = ${stack.project}`, [{
      filters: {
        groups: [{ properties: [{ key: 'plan', value: ['pro', 'team'], operator: 'exact', type: 'person' }], rollout_percentage: 100 }],
        multivariate: { variants: [{ key: 'short', rollout_percentage: 100 }] },
        payloads: { short: '{"steps": 2}' }
      }
    }])
    await page.getByRole('checkbox', { name: 'On' }).uncheck()
    await page.getByLabel('Unsaved changes').getByText('active', { exact: true }).waitFor()
    await page.getByRole('button', { name: 'Save' }).click()
    await page.getByText('off for everyone; when on:').waitFor()
    t.same(await findBarriers(page), [])

    await page.getByRole('button', { name: 'Delete' }).click()
    t.ok(await page.getByRole('dialog').getByRole('button', { name: 'Delete' }).isDisabled())
    await page.getByLabel(/^Type new-checkout/).fill('new-checkout')
    await page.keyboard.press('Enter')
    await page.getByText('There are no flags yet.').waitFor()
    t.same(problems, [])
    await page.close()
  })

  await t.test('an experiment with a planted effect is made, launched, read off the picture, and ended', async (t) => {
    const { page, problems } = await open(`${home}/experiments`)
    await page.getByText('There are no experiments yet.').waitFor()
    await page.getByRole('link', { name: 'New experiment' }).click()
    await page.getByLabel('Name').fill('Short checkout')
    await page.getByLabel('Key of the flag').fill('checkout')
    await page.getByRole('combobox', { name: 'Event' }).fill('bought')
    await page.getByRole('button', { name: 'Create a draft' }).click()
    await page.getByText('No results before the start').waitFor()
    await page.getByRole('region', { name: 'Size and length' }).getByRole('row', { name: /without CUPED/ }).waitFor()
    // From here on the clock of the browser is an hour ahead; it must not launch the experiment in an hour.
    await page.evaluate(`{
      const Real = Date
      Date = class extends Real {
        constructor (...of) { super(...(of.length === 0 ? [Real.now() + 3_600_000] : of)) }
        static now () { return Real.now() + 3_600_000 }
      }
    }`)
    await page.getByRole('button', { name: 'Analysis' }).click()
    const analysis = page.getByRole('dialog', { name: 'Analysis' })
    await analysis.getByRole('combobox', { name: 'Compare with' }).selectOption('control')
    await analysis.getByLabel('Persons who saw several variants').selectOption('first_seen')
    await analysis.getByLabel(/CUPED/).check()
    await analysis.getByLabel(/an event other than/).check()
    await analysis.getByRole('combobox', { name: 'Exposure' }).fill('$feature_flag_called')
    t.same(await findBarriers(page), [], 'the dialog of the analysis')
    await analysis.getByRole('button', { name: 'Save' }).click()
    await analysis.waitFor({ state: 'hidden' })
    t.match(await stack.sql`SELECT parameters FROM experiments WHERE project_id = ${stack.project}`, [{
      parameters: {
        minimum_detectable_effect: 5, stats_config: { baseline_variant_key: 'control', cuped: { enabled: true } },
        exposure_criteria: { multiple_variant_handling: 'first_seen', exposure_config: { event: '$feature_flag_called' } }
      }
    }])
    await page.getByRole('button', { name: 'Launch' }).click()
    await page.getByRole('dialog').getByRole('button', { name: 'Launch' }).click()
    await page.getByText('Nobody has been exposed yet').waitFor()
    await page.getByText('No event "bought" was received in the time of the experiment, nor in the 30 days before its start. Is its name right?').waitFor()

    // Every second person of `control` buys, three of four of `test`.
    await send(stack, Array.from({ length: 400 }, (_, index) => {
      const variant = index % 2 === 0 ? 'control' : 'test'
      const shown = { event: '$feature_flag_called', distinct_id: `p${index}`, properties: { $feature_flag: 'checkout', $feature_flag_response: variant } }
      return index % 8 < (variant === 'test' ? 6 : 4) ? [shown, { event: 'bought', distinct_id: `p${index}`, properties: { amount: 10 } }] : [shown]
    }).flat())
    await page.getByRole('button', { name: 'Secondary metrics' }).click()
    const dialog = page.getByRole('dialog', { name: 'Secondary metrics' })
    await dialog.getByRole('button', { name: 'Add a metric' }).click()
    const [first, second] = [dialog.getByRole('listitem').nth(0), dialog.getByRole('listitem').nth(1)]
    await first.getByLabel('Name, if it has one').fill('Revenue')
    await first.getByLabel('Measure').selectOption('sum')
    await first.getByRole('combobox', { name: 'Event' }).fill('bought')
    await first.getByLabel('Property with the number').fill('amount')
    await dialog.getByRole('button', { name: 'Add a metric' }).click()
    await second.getByLabel('Measure').selectOption('count')
    await second.getByRole('combobox', { name: 'Event' }).fill('boughd')
    await dialog.getByRole('button', { name: 'Add a metric' }).click()
    const third = dialog.getByRole('listitem').nth(2)
    await third.getByLabel('Measure').selectOption('ratio')
    await third.getByRole('combobox', { name: 'Sum of', exact: true }).fill('bought')
    await third.getByLabel('Property with the number of the numerator').fill('amount')
    await third.getByRole('combobox', { name: 'By the sum of' }).fill('bought')
    t.same(await findBarriers(page), [], 'the dialog')
    await dialog.getByRole('button', { name: 'Save' }).click()
    await page.getByText('bought; also sum of bought by amount; count of boughd; bought by bought').waitFor()
    t.match(await stack.sql`SELECT secondary_metrics FROM experiments WHERE project_id = ${stack.project}`, [{
      secondary_metrics: [{ name: 'Revenue', kind: 'sum', event: 'bought', property: 'amount' }, { kind: 'count', event: 'boughd' }, { kind: 'ratio', numerator: { event: 'bought', property: 'amount' }, denominator: { event: 'bought' } }]
    }])
    const refresh = page.getByRole('button', { name: 'Compute again' })
    await askUntil(async () => await refresh.click(), page.getByText(/^test is better, which is valid at any time: stop now and roll out test to everyone\.$/))
    await page.getByText('More: why, over time, the split').click()
    await page.getByText(/There is a difference\. The best is most likely test\. test against control: \+50\.0 % \(\+25\.0 points\); with 95 % probability \+/).waitFor()
    t.match(await page.getByText(/Changed since the launch: secondary metrics at /).count(), 1)
    const revenue = page.getByRole('region', { name: 'Revenue' })
    await revenue.getByText(/test against control: \+50\.0 % \(\+2\.5\)/).waitFor()
    t.match(await revenue.getByRole('row', { name: /^test/ }).innerText(), /200[\s\S]*7\.5[\s\S]*\+50\.0 %/)
    await page.getByRole('region', { name: 'count of boughd' }).getByText('No event "boughd" was received').waitFor()
    t.match(await page.getByRole('img', { name: /^Change against control: test \+50\.0 %/ }).first().count(), 1)
    t.match(await page.getByRole('row', { name: /^test/ }).first().innerText(), /200[\s\S]*75\.0 %[\s\S]*\+50\.0 %/)
    t.equal(await page.locator('.chart svg .area').count(), 1, 'the interval is shaded')
    t.equal(await page.getByRole('img', { name: /^change, %, at least, at most along time, 1 point from 0 to / }).count(), 1)
    t.equal(await page.locator('.chart svg').getByText(/^\d{4}-\d\d-\d\d$/).count(), 1, 'a date on the axis')
    await page.getByText(/^test: checking every day, you could have stopped at the end of [\d-]+ and concluded: more than control \(\+50\.0 % up to then\)/).waitFor()
    await page.getByText('Day by day (1 day)').click()
    t.match(await page.getByRole('region', { name: 'Day by day' }).getByRole('row').last().innerText(), /test[\s\S]*200[\s\S]*\+50\.0 %[\s\S]*more than control/)
    t.same(await findBarriers(page), [])

    await page.getByRole('button', { name: 'End' }).click()
    await page.getByRole('dialog').getByRole('button', { name: 'End' }).click()
    await page.getByRole('button', { name: 'Archive' }).waitFor()

    await page.getByRole('link', { name: 'Roll out test to everyone' }).click()
    await page.getByRole('heading', { name: 'checkout', level: 1 }).waitFor()
    await page.getByText('Not saved yet, on version').waitFor()
    const variants = async (): Promise<object[]> => await stack.sql`
      SELECT filters -> 'groups' AS groups, filters #> '{multivariate,variants}' AS variants FROM feature_flags WHERE key = 'checkout' AND project_id = ${stack.project}`
    t.match(await variants(), [{ variants: [{ key: 'control', rollout_percentage: 50 }, { key: 'test', rollout_percentage: 50 }] }], 'a draft changes nothing')
    await page.getByRole('button', { name: 'Save', exact: true }).click()
    await page.getByText('Identical to version').waitFor()
    t.match(await variants(), [{
      groups: [{ properties: [], rollout_percentage: 100 }], variants: [{ key: 'control', rollout_percentage: 0 }, { key: 'test', rollout_percentage: 100 }]
    }])
    t.notMatch(page.url(), /everybody/)

    await stack.sql`UPDATE feature_flags SET filters = filters || '{"holdout":{"id":"7","exclusion_percentage":10}}' WHERE key = 'checkout' AND project_id = ${stack.project}`
    const [{ id } = { id: 0 }] = await stack.sql<{ id: number }[]>`SELECT id FROM experiments WHERE project_id = ${stack.project}`
    const { page: held, problems: others } = await open(`${home}/experiments/${id}`)
    await held.getByRole('heading', { name: 'Holdout 7' }).waitFor()
    t.match(await held.getByRole('region', { name: 'Holdout' }).getByRole('row', { name: /^launched/ }).innerText(), /400/)
    await held.close()
    t.same([...problems, ...others], [])
    await page.close()
  })

  await t.test('the screens are accessible and fit, light and dark, from 360 to 2,560 pixels', async (t) => {
    await checkScreens(t, screens, [`${home}/flags`, `${home}/experiments`])
  })
})
