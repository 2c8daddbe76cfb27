import t from 'tap'
import { ANALYSIS_DEFAULTS } from './analyse-metric.ts'
import { decideSignificance, type Evidence } from './decide-significance.ts'

const clear: Evidence = {
  kind: 'funnel', smallestExposure: 100, variantCount: 2, baselineProbability: 0.1, leaderLoss: 0.0099, leaderPValue: 0.049
}

t.test('each check has its limit, and the first that fails names the verdict', async (t) => {
  const cases: [Partial<Evidence>, string][] = [
    [{}, 'significant'],
    [{ baselineProbability: 0.9 }, 'significant'],
    [{ kind: 'count' }, 'significant'],
    [{ smallestExposure: 99, baselineProbability: 0.5 }, 'not_enough_exposure'],
    [{ variantCount: 1 }, 'not_enough_exposure'],
    [{ baselineProbability: 0.11, leaderLoss: 0.5 }, 'low_win_probability'],
    [{ baselineProbability: 0.89 }, 'low_win_probability'],
    [{ leaderLoss: 0.01 }, 'high_loss'],
    [{ leaderLoss: null }, 'high_loss'],
    [{ leaderPValue: 0.9 }, 'significant'],
    [{ kind: 'count', leaderPValue: 0.05 }, 'high_p_value'],
    [{ kind: 'mean', leaderPValue: null }, 'high_p_value'],
    [{ kind: 'sum', leaderLoss: 5 }, 'significant']
  ]
  for (const [change, code] of cases) {
    t.equal(decideSignificance({ ...clear, ...change }, ANALYSIS_DEFAULTS), code, JSON.stringify(change))
  }
})
