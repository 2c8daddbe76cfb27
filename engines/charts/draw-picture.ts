/** Draws an answer as SVG for mail and Slack, with the geometry of the console's charts. Its size is bounded. */
import { formatMeasure } from '../figures.ts'
import { plain, type Shape, shapesOfAxes, shapesOfSeries } from './chart-shapes.ts'
import { drawTable } from './draw-table.ts'
import type { PictureContent } from './picture-content.ts'
import { type Drawn, escapeMarkup, LETTER, tag, write } from './write-svg.ts'

export const PICTURE_FONT = 'DejaVu Sans'
const [WIDTH, EDGE, LINE, CHART] = [800, 16, 22, 300]
const INNER = WIDTH - 2 * EDGE
/** The series of the console on a light page. */
const COLOURS = ['#0b6e4f', '#5b3a99', '#b05c00', '#0b5c8a', '#a1306b']
const [TEXT, SOFT, RULE] = ['#1c2422', '#5c6663', '#d9dfdc']
/** As the console's stylesheet has it. */
const STYLE = `
.chart text { fill: ${SOFT} } .mark { stroke: ${RULE} } .zero { stroke: ${SOFT} }
.line { fill: none; stroke-width: 2; stroke-linejoin: round } .before .line { stroke-width: 1 } .line.partial { stroke-dasharray: 3 3 }
.area { opacity: 0.16 } rect.partial, .before rect { opacity: 0.5 }
${COLOURS.map((colour, at) => `.series-${at} .line, .series-${at} circle { stroke: ${colour} } .series-${at} circle, .series-${at} rect, .series-${at} .area { fill: ${colour} }`).join('\n')}
.before circle { fill: #ffffff }`

/** @param about.facts  Lines below the title, such as up to when the answer is complete. */
export function drawPicture (
  { title, facts }: { title: string, facts: readonly string[] }, content: PictureContent
): string {
  const { svg, height } = drawContent(content)
  const top = 46 + 18 * facts.length
  const size = { width: WIDTH, height: Math.round(top + height + EDGE) }
  return tag('svg', { xmlns: 'http://www.w3.org/2000/svg', ...size, 'font-family': `${PICTURE_FONT}, sans-serif`, 'font-size': 12, fill: TEXT },
    tag('style', {}, STYLE) + tag('rect', { ...size, fill: '#ffffff' }) +
    write(title, { x: EDGE, y: 30, 'font-size': 18 }, 60) + facts.map((fact, at) => write(fact, { x: EDGE, y: 50 + 18 * at, fill: SOFT }, 100)).join('') +
    tag('g', { transform: `translate(${EDGE} ${top})` }, svg))
}

function drawContent (content: PictureContent): Drawn {
  switch (content.kind) {
    case 'chart': return drawChart(content)
    case 'numbers': return {
      svg: content.of.map(({ name, value }, at) => write(formatMeasure(value), { x: 0, y: at * 70 + 36, 'font-size': 34 }, 20) + write(name, { x: 0, y: at * 70 + 58, fill: SOFT }, 100)).join(''),
      height: content.of.length * 70
    }
    case 'funnel': return {
      svg: content.steps.map(({ name, share, before, lost, reached, left }, at) => tag('g', { transform: `translate(0 ${at * 64})` },
        write(name, { x: 0, y: 14 }, Math.floor(INNER / LETTER) - reached.length - 2) +
        write(reached, { x: INNER, y: 14, 'text-anchor': 'end' }) +
        tag('rect', { x: 0, y: 20, width: share * INNER, height: 20, fill: COLOURS[0] ?? TEXT }) +
        (lost > 0 ? tag('rect', { x: share * INNER, y: 20, width: (before - share) * INNER, height: 20, fill: RULE }) : '') +
        write(left, { x: INNER, y: 55, 'text-anchor': 'end', fill: SOFT }))).join(''),
      height: content.steps.length * 64
    }
    case 'table': return drawTable(content.rows, INNER)
  }
}

function drawChart ({ model, looks }: Extract<PictureContent, { kind: 'chart' }>): Drawn {
  const legend = model.series.map(({ name }, at) => {
    const { colour, isBefore } = looks[at] ?? plain(at)
    return tag('g', { class: `series-${colour}` }, tag('rect', { x: 0, y: at * LINE, width: isBefore ? 2 : 10, height: 12 })) +
      write(name, { x: 18, y: at * LINE + 11 }, 100)
  })
  const top = model.series.length * LINE
  const frame = { left: 52, right: INNER - 12, top: top + 12, bottom: top + CHART - 28, end: INNER }
  const shapes = [...shapesOfAxes(model, frame), ...shapesOfSeries(model, looks, frame)].map(toText)
  return { svg: legend.join('') + tag('g', { class: 'chart' }, shapes.join('')), height: top + CHART }
}

function toText ({ tag: name, class: ofClass = '', at, of = '' }: Shape): string {
  const content = typeof of === 'string' ? escapeMarkup(of) : of.map(toText).join('')
  return tag(name, ofClass === '' ? at : { class: ofClass, ...at }, content)
}
