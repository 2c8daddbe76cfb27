/** Answers as lines of text, for Slack and mail. */
import type { Answer, FunnelAnswer, RetentionAnswer, TrendAnswer, TrendLine } from './shape-answer.ts'

const MAX_LINES = 12

export function describeAnswer (answer: Answer): string[] {
  const lines = linesOf(answer)
  return lines.length <= MAX_LINES ? lines : [...lines.slice(0, MAX_LINES), `… and ${lines.length - MAX_LINES} more`]
}

function linesOf (answer: Answer): string[] {
  switch (answer.kind) {
    case 'trend': return describeTrend(answer)
    case 'funnel': return describeFunnel(answer)
    case 'retention': return describeRetention(answer)
    case 'lifecycle': return answer.states.map(({ state, values }) => `${state}: ${show(values.at(-1))}`)
    case 'paths': return answer.edges.map(({ step, from, to, people }) => `${step}. ${from ?? 'others'} → ${to ?? 'others'}: ${people}`)
    case 'stickiness': return answer.counts.map(({ periods, people }) => `${periods}: ${show(people)}`)
  }
}

const show = (value: number | null | undefined): string => value == null ? '–' : String(Math.round(value * 100) / 100)

/** The event of a line, and the value of its breakdown. */
export function labelOf ({ name, part, value }: TrendLine): string {
  return part === 'all' ? name : `${name}, ${part === 'value' ? value : part === 'cohort' ? `cohort ${value}` : part.replace('_', ' ')}`
}

function describeTrend ({ points, lines, previous }: TrendAnswer): string[] {
  return lines.map((line) => {
    const { part, value, series, total, values } = line
    const label = labelOf(line)
    const before = previous?.lines.find((each) => each.series === series && each.part === part && each.value === value)
    const latest = points.at(-1)
    return `${label}: ${show(total)}${before === undefined ? '' : ` (before: ${show(before.total)})`}${latest === undefined ? '' : `, ${latest.start}: ${show(values.at(-1))}`}`
  })
}

function describeFunnel ({ parts: [all] }: FunnelAnswer): string[] {
  return (all?.steps ?? []).map(({ name, people, conversion }, index) =>
    `${index + 1}. ${name}: ${show(people)}${conversion === null ? '' : ` (${show(conversion * 100)} %)`}`)
}

function describeRetention ({ cohorts }: RetentionAnswer): string[] {
  return cohorts.map(({ start, people, returned }) => `${start}: ${show(people)}, returned ${returned.slice(1).map((each) => show(each.people)).join(', ') || '–'}`)
}
