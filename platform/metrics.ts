import { collectDefaultMetrics, Counter, Gauge, Histogram, Registry } from 'prom-client'
import { readVersion } from '../schema/version.ts'

export { type Counter, type Gauge, type Histogram, type Registry } from 'prom-client'

/**
 * The values of each label of a counter. `null`: not known at start (a partition, a flag); the caller starts the series
 * of a new value with `inc(labels, 0)`.
 */
export type LabelValues<L extends string> = Readonly<Record<L, readonly string[] | null>>

/**
 * The metrics of one process. Names are `millrace_<component>_<what>_<unit>`; the process metrics of prom-client
 * (memory, CPU, event loop delay) come with it.
 *
 * Hot paths keep plain numbers and hand them over when they are read: `counterFrom`, `gaugesFrom` and their like.
 */
export interface Metrics {
  registry: Registry
  /**
   * Every combination of the known label values is there from the start, at 0. Prometheus sees no increase in a series
   * that begins at 1: an alert on `increase()` would miss the first of everything.
   */
  counter<L extends string = never> (name: string, help: string, labels?: LabelValues<L>): Counter<L>
  gauge<L extends string = never> (name: string, help: string, labels?: readonly L[]): Gauge<L>
  /** @param buckets  Upper bounds in the unit of the name. */
  histogram<L extends string = never> (
    name: string, help: string, buckets: readonly number[], labels?: readonly L[]
  ): Histogram<L>
  /** A gauge whose value is read when the metrics are. */
  gaugeFrom (name: string, help: string, read: () => number): void
  /** A counter that the caller keeps as a plain number; read when the metrics are. */
  counterFrom (name: string, help: string, read: () => number): void
  /** Counters that the caller keeps as plain numbers by their labels, zeros included; read when the metrics are. */
  countersFrom<L extends string> (
    name: string, help: string, labels: readonly L[], read: () => Iterable<readonly [Record<L, string>, number]>
  ): void
  /** Gauges by their labels, whose values are read when the metrics are; a series that is not read again ends. */
  gaugesFrom: Metrics['countersFrom']
}

/** Gauges of prom-client with the ending of counters. Each is the sum of one that stays, by type. */
const MISNAMED = ['active_handles_total', 'active_requests_total', 'active_resources_total']

/** @param component  Name of the tier: `ingest`, `pipeline`, `api`. */
export function createMetrics (component: string): Metrics {
  const registry = new Registry()
  const prefix = `millrace_${component}_`
  collectDefaultMetrics({ register: registry, prefix })
  for (const name of MISNAMED) registry.removeSingleMetric(`${prefix}nodejs_${name}`)

  const common = { registers: [registry] }
  new Gauge({
    ...common, name: `${prefix}build_info`, help: 'Always 1; the label is the version.', labelNames: ['version']
  }).set({ version: readVersion() }, 1)
  const countersFrom: Metrics['countersFrom'] = (name, help, labels, read) => {
    const counter: Counter = new Counter({ ...common, name: prefix + name, help, labelNames: [...labels], collect })
    function collect (): void {
      counter.reset()
      for (const [values, count] of read()) counter.inc(values, count)
    }
  }
  const gaugesFrom: Metrics['gaugesFrom'] = (name, help, labels, read) => {
    const gauge: Gauge = new Gauge({ ...common, name: prefix + name, help, labelNames: [...labels], collect })
    function collect (): void {
      gauge.reset()
      for (const [values, value] of read()) gauge.set(values, value)
    }
  }
  return {
    registry,
    counter<L extends string = never> (name: string, help: string, labels?: LabelValues<L>) {
      const values = Object.entries(labels ?? {}) as [L, readonly string[] | null][]
      const labelNames = values.map(([label]) => label)
      const counter = new Counter<L>({ ...common, name: prefix + name, help, labelNames })
      if (values.length > 0) for (const each of combine(values)) counter.inc(each, 0)
      return counter
    },
    gauge (name, help, labels = []) {
      return new Gauge({ ...common, name: prefix + name, help, labelNames: [...labels] })
    },
    histogram (name, help, buckets, labels = []) {
      return new Histogram({ ...common, name: prefix + name, help, buckets: [...buckets], labelNames: [...labels] })
    },
    gaugeFrom: (name, help, read) => gaugesFrom(name, help, [], () => [[{}, read()]]),
    counterFrom: (name, help, read) => countersFrom(name, help, [], () => [[{}, read()]]),
    gaugesFrom,
    countersFrom
  }
}

/** All combinations of label values; none when those of a label are not known. */
function combine<L extends string> (
  labels: readonly (readonly [L, readonly string[] | null])[]
): Record<L, string>[] {
  let combined = [{} as Record<L, string>]
  for (const [label, values] of labels) {
    combined = combined.flatMap((each) => (values ?? []).map((value) => ({ ...each, [label]: value })))
  }
  return combined
}
