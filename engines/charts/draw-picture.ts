/** Draws an answer as SVG for mail and Slack, with the geometry of the console's charts. Its size is bounded. */
import { formatMeasure } from '../figures.ts'
import { formatMark } from './chart-model.ts'
import { LABEL, pathOfLine, pathsOfArea, placeBars, placeLabels, plain, type Scales } from './chart-paths.ts'
import { drawTable } from './draw-table.ts'
import type { PictureContent } from './picture-content.ts'
import { type Drawn, LETTER, tag, write } from './write-svg.ts'

export const PICTURE_FONT = 'DejaVu Sans'
const [WIDTH, EDGE, LINE, CHART] = [800, 16, 22, 300]
const INNER = WIDTH - 2 * EDGE
const MAX_ROWS = 22
/** The series of the console on a light page. */
const COLOURS = ['#0b6e4f', '#5b3a99', '#b05c00', '#0b5c8a', '#a1306b']
const [TEXT, SOFT, RULE] = ['#1c2422', '#5c6663', '#d9dfdc']

/** @param about.asOf  Up to when the answer is complete. */
export function drawPicture ({ title, asOf }: { title: string, asOf: string }, content: PictureContent): string {
  const { svg, height } = drawContent(content)
  const top = 64
  const size = { width: WIDTH, height: Math.round(top + height + EDGE) }
  return tag('svg', { xmlns: 'http://www.w3.org/2000/svg', ...size, 'font-family': PICTURE_FONT, 'font-size': 12, fill: TEXT },
    tag('rect', { ...size, fill: '#ffffff' }) +
    write(title, { x: EDGE, y: 30, 'font-size': 18 }, 60) + write(asOf, { x: EDGE, y: 50, fill: SOFT }, 100) +
    tag('g', { transform: `translate(${EDGE} ${top})` }, svg))
}

function drawContent (content: PictureContent): Omit<Drawn, 'width'> {
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
    case 'table': return drawTable(content.rows, { maxRows: MAX_ROWS, maxWidth: INNER })
  }
}

function drawChart ({ model, looks }: Extract<PictureContent, { kind: 'chart' }>): Omit<Drawn, 'width'> {
  const styled = model.series.map((series, at) => {
    const look = looks[at] ?? plain(at)
    return { ...series, look, colour: COLOURS[look.colour % COLOURS.length] ?? TEXT }
  })
  const legend = styled.map(({ name, colour, look }, at) =>
    tag('rect', { x: 0, y: at * LINE, width: look.isBefore ? 2 : 10, height: 12, fill: colour }) + write(name, { x: 18, y: at * LINE + 11 }, 100))
  const [left, top, bottom] = [52, styled.length * LINE + 12, styled.length * LINE + CHART - 28]
  const scales: Scales = {
    x: (index) => left + (model.places[index] ?? 0) * (INNER - 12 - left),
    y: (value) => bottom - (value - model.from) / (model.to - model.from) * (bottom - top)
  }
  const marks = model.marks.map((mark) =>
    tag('line', { x1: left, x2: INNER, y1: scales.y(mark), y2: scales.y(mark), stroke: mark === 0 ? SOFT : RULE }) +
    write(formatMark(mark), { x: left - 8, y: scales.y(mark) + 4, 'text-anchor': 'end', fill: SOFT }))
  const labels = placeLabels(model, scales.x, { width: INNER - left, end: INNER }).map(({ label, x }) =>
    write(label, { x, y: bottom + 20, 'text-anchor': 'middle', fill: SOFT }, LABEL))
  const series = styled.map(({ values, look, colour }, at) => {
    if (model.kind === 'bar') {
      return placeBars(model, at, scales, INNER - 12 - left).map(({ at: row, ...place }) =>
        tag('rect', { ...place, fill: colour, 'fill-opacity': look.isBefore || look.partial[row] === true ? 0.5 : 1 })).join('')
    }
    const areas = model.kind === 'area' && !look.isBefore ? pathsOfArea(values.map((value) => value === null ? null : 0), values, scales) : []
    const line = { fill: 'none', stroke: colour, 'stroke-width': look.isBefore ? 1 : 2, 'stroke-linejoin': 'round' }
    const points = values.length > 60 ? [] : values.map((value, row) => value === null ? '' : tag('circle', { cx: scales.x(row), cy: scales.y(value), r: 2.5, fill: look.isBefore ? '#ffffff' : colour, stroke: colour }))
    return areas.map((d) => tag('path', { d, fill: colour, 'fill-opacity': 0.16 })).join('') +
      tag('path', { ...line, d: pathOfLine(values, scales, { partial: look.partial, isPartial: false }) }) +
      tag('path', { ...line, d: pathOfLine(values, scales, { partial: look.partial, isPartial: true }), 'stroke-dasharray': '3 3' }) + points.join('')
  })
  return { svg: [...legend, ...marks, ...labels, ...series].join(''), height: styled.length * LINE + CHART }
}
