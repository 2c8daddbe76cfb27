import type { Status } from '../../../schema/api-types.ts'
import { describeStages, type Stage, type StageState } from './stages.ts'

const STATE_WORDS: Record<StageState, string> = {
  ok: 'working', idle: 'idle', waiting: 'waiting', stopped: 'stopped', unknown: 'unknown'
}

/** The stages that an event passes, in order, each with what passes and waits there. */
export function LifeOfEvent ({ status }: { status: Status }) {
  return (
    <ol class='stages'>
      {describeStages(status).map((stage) => <StageBox key={stage.name} stage={stage} />)}
    </ol>
  )
}

function StageBox ({ stage }: { stage: Stage }) {
  return (
    <li class={`stage ${stage.state}`}>
      <h3>{stage.name} <span class='state'>{STATE_WORDS[stage.state]}</span></h3>
      <p class='headline'>{stage.headline}</p>
      <dl>
        {stage.details.map(({ label, value }) => <div key={label}><dt>{label}</dt><dd>{value}</dd></div>)}
      </dl>
    </li>
  )
}
