import { describeSteps } from '../../../engines/charts/drawn-parts.ts'
import { formatCounted, showText } from '../format.ts'
import { useWidth } from '../measure-width.ts'
import type { FunnelAnswer } from './question-definition.ts'

/** Pixels of a step, and of its bar. */
const [ROW, BAR] = [64, 20]

interface FunnelBarsProps {
  steps: FunnelAnswer['parts'][number]['steps']
  /** Lists the persons of a part of a bar; its table does so for the keyboard. */
  onOpen?: ((step: number, outcome: 'reached' | 'lost') => void) | undefined
}

/** A bar for each step: who reached it, and beside them who was lost since the step before. */
export function FunnelBars ({ steps, onOpen }: FunnelBarsProps) {
  const { box, width } = useWidth()
  const rows = describeSteps(steps)
  const words = rows.map(({ name, reached, left }) => `${showText(name, 60)}: ${reached}${left === '' ? '' : `, ${left}`}`).join('; ')
  return (
    <figure class='funnel' ref={box}>
      <svg role='img' width={width} height={rows.length * ROW} viewBox={`0 0 ${width} ${rows.length * ROW}`} aria-label={`${formatCounted(rows.length, 'step')}: ${words}`}>
        {rows.map(({ name, share, before, lost, reached, left }, index) => (
          <g key={index} transform={`translate(0 ${index * ROW})`}>
            <text x='0' y='14'>{showText(name, Math.max(8, Math.floor(width / 7.5) - reached.length - 2))}</text>
            <text x={width} y='14' text-anchor='end'>{reached}</text>
            <rect class='reached' x='0' y='20' width={share * width} height={BAR} onClick={() => onOpen?.(index + 1, 'reached')} />
            {lost > 0 && <rect class='lost' x={share * width} y='20' width={(before - share) * width} height={BAR} onClick={() => onOpen?.(index + 1, 'lost')} />}
            <text class='left' x={width} y='54' text-anchor='end'>{left}</text>
          </g>
        ))}
      </svg>
    </figure>
  )
}
