import { formatCount, formatShare, shareOf, showText } from '../format.ts'
import { type Column, Rows } from '../frame/lists.tsx'
import { Empty } from '../states.tsx'
import { PeopleNumber, type ViewProps } from './persons-behind.tsx'
import { describeEvent, type PathsAnswer } from './question-definition.ts'

type Edge = PathsAnswer['edges'][number]

const nameOf = (event: string | null): string => event === null ? '(all others)' : showText(event, 60)

/** Edges of paths by step, with how many people went over each. */
export function PathsView ({ answer: { people, paths, edges }, definition, open }: ViewProps<PathsAnswer>) {
  if (definition.kind !== 'paths') return null
  const anchor = definition.from ?? definition.to
  const event = anchor === null ? '' : showText(describeEvent(anchor), 300)
  if (people === 0) return <Empty>Nobody did it in the range: {event}.</Empty>
  const columns: (Column<Edge>)[] = [
    ['#Step', ({ step }) => step],
    ['From', ({ from }) => nameOf(from), 'wide'],
    ['To', ({ to }) => nameOf(to), 'wide'],
    ['#People', ({ people: went, paths: _, ...edge }) => <PeopleNumber of={went} title={`${edge.step}: ${nameOf(edge.from)}, then ${nameOf(edge.to)}`} cell={edge} open={open} />],
    ['#Of all', ({ people: went }) => formatShare(shareOf(went, people))],
    ['#Paths', ({ paths: count }) => formatCount(count)]
  ]
  return (
    <>
      <p class='hint'>
        <PeopleNumber of={people} title={`Paths ${definition.from === null ? 'to' : 'from'} ${event}`} cell={{}} open={open} /> people, {formatCount(paths)} paths {definition.from === null ? 'to' : 'from'} {event}.{' '}
        {definition.from === null ? 'Step 1 leads to it, step 2 to the event before.' : 'Step 1 leads to the next event.'} Consecutive events of the same name count as one.
      </p>
      {edges.length === 0 ? <Empty>No other event in the same run.</Empty> : <Rows label='Paths' class='dense' of={edges} columns={columns} />}
    </>
  )
}
