/** What of an answer is drawn. */
import { formatCount, formatShare, shareOf } from '../figures.ts'
import type { FunnelAnswer, TrendLine } from '../questions/shape-answer.ts'

/** Number of lines distinguishable by colour; fewer with a previous period. */
const DRAWN = 5
const DRAWN_PAIRS = 3

export interface ChosenLine<Line> { line: Line, colour: number, isBefore: boolean }

/**
 * The first lines, each with that of the time before.
 *
 * @param asked  Series of the question where it has a formula, whose lines alone are drawn; else 0.
 */
export function chooseLines<Line extends Pick<TrendLine, 'series' | 'part' | 'value'>> (
  lines: readonly Line[], before: readonly Line[] | undefined, asked: number
): ChosenLine<Line>[] {
  const drawn = lines.filter(({ series }) => series >= asked).slice(0, before === undefined ? DRAWN : DRAWN_PAIRS)
  return drawn.flatMap((line, colour) => {
    const then = before?.find((each) =>
      each.series === line.series && each.part === line.part && each.value === line.value)
    return [{ line, colour, isBefore: false }, ...then === undefined ? [] : [{ line: then, colour, isBefore: true }]]
  })
}

type Steps = FunnelAnswer['parts'][number]['steps']

/** How many people reached the step before and not this one, which is counted from 1. */
export function lostBefore (steps: Steps, step: number): number {
  const [before, here] = [steps[step - 2], steps[step - 1]]
  return before === undefined ? 0 : (before.people ?? 0) - (here?.people ?? 0)
}

export type StepBar = ReturnType<typeof describeSteps>[number]

/** The bar of each step: who reached it, and beside them who was lost since the step before. */
export function describeSteps (steps: Steps) {
  return steps.map(({ name, people, conversion }, index) => {
    const before = steps[index - 1]
    const lost = lostBefore(steps, index + 1)
    return {
      name: `${index + 1}. ${name}`, share: conversion ?? 0, before: before?.conversion ?? conversion ?? 0, lost,
      reached: `${formatCount(people)} · ${formatShare(conversion)}`,
      left: lost > 0 ? `${formatCount(lost)} lost, ${formatShare(shareOf(lost, before?.people))} of step ${index}` : ''
    }
  })
}
