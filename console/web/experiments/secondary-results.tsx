import { showText } from '../format.ts'
import { request } from '../api-client.ts'
import { useLoaded } from '../load.ts'
import { projectId } from '../router.ts'
import { Show } from '../states.tsx'
import { countSecondaryMetrics, nameOfMetric } from './describe-metric.ts'
import type { Experiment, SecondaryResults } from './experiment.ts'
import { MetricPicture } from './results-picture.tsx'

/** The further metrics of an experiment, each as the primary one but for the course of time. */
export function ShownSecondary ({ experiment, refresh }: { experiment: Experiment, refresh: number }) {
  const count = countSecondaryMetrics(experiment.secondary_metrics)
  const results = useLoaded(`secondary results ${projectId.value} ${experiment.id} ${experiment.updated_at} ${refresh}`, async (signal) =>
    count === 0
      ? { analysis: [] }
      : await request<SecondaryResults>(`/api/projects/${projectId.value}/experiments/${experiment.id}/secondary_results/`, { query: { refresh: refresh > 0 }, signal }))
  if (count === 0) return null
  return (
    <>
      <h2>Secondary metrics</h2>
      <p class='hint'>Each is judged by itself: of twenty metrics without any effect, one shows a difference by chance.</p>
      <Show of={results} what='Secondary metrics'>
        {({ analysis }) => (
          <>
            {analysis.map((result, index) => (
              <section key={index} aria-label={showText(nameOfMetric(result.metric), 100)}>
                <h3>{showText(nameOfMetric(result.metric), 100)}</h3>
                <MetricPicture result={result} />
              </section>
            ))}
          </>
        )}
      </Show>
    </>
  )
}
