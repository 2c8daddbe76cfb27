/** The samples of one process as Prometheus would read them. */
export interface MetricSamples {
  /** Sum over all samples of the name whose labels match; 0 when there is none. */
  sum: (name: string, labels?: Record<string, string>) => number
  /** Values by one label. */
  by: (name: string, label: string) => Map<string, number>
  names: () => Set<string>
}

interface Sample {
  name: string
  labels: Record<string, string>
  value: number
}

/** Reads the text that `/metrics` answers. Lines that are no samples are passed over. */
export function parseMetrics (text: string): MetricSamples {
  const samples = text.split('\n').map(parseLine).filter((sample) => sample !== null)
  const names = new Set(samples.map(({ name }) => name))
  return {
    sum: (name, labels = {}) => samples
      .filter((sample) => sample.name === name)
      .filter((sample) => Object.entries(labels).every(([key, value]) => sample.labels[key] === value))
      .reduce((sum, { value }) => sum + value, 0),
    by (name, label) {
      const values = new Map<string, number>()
      for (const sample of samples) {
        const key = sample.labels[label]
        if (sample.name === name && key !== undefined) values.set(key, (values.get(key) ?? 0) + sample.value)
      }
      return values
    },
    names: () => names
  }
}

function parseLine (line: string): Sample | null {
  const [, name, labelText = '', value] = /^([a-zA-Z_:][\w:]*)(?:\{(.*)\})? (\S+)/.exec(line) ?? []
  if (name === undefined) return null
  const labels = Object.fromEntries([...labelText.matchAll(/(\w+)="((?:[^"\\]|\\.)*)"/g)]
    .map(([, key, text]) => [key, text!.replaceAll(/\\(.)/g, (_, c: string) => c === 'n' ? '\n' : c)]))
  return { name, labels, value: Number(value) }
}
