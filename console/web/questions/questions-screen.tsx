import { useCohortNames } from '../flags/cohorts.ts'
import { showText, zoneLabel } from '../format.ts'
import { ListScreen, searched } from '../frame/lists.tsx'
import { useList } from '../paging.tsx'
import { linkTo, path, projectId } from '../router.ts'
import { may } from '../session.ts'
import { Time } from '../states.tsx'
import { describeQuestion, type Kind, KINDS, newDefinition, type Question, withDefaults } from './question-definition.ts'
import { QuestionDetail, questionsPath, Workbench } from './question-detail.tsx'

const isKind = (text: string | undefined): text is Kind => text !== undefined && Object.hasOwn(KINDS, text)

export function QuestionsScreen () {
  const [, , , id, kind] = path.value
  useCohortNames()
  if (id === 'new') return <Workbench key={kind} stored={undefined} first={newDefinition(isKind(kind) ? kind : 'trend')} onSaved={() => {}} />
  if (id !== undefined) return <QuestionDetail key={id} id={id} />
  return <QuestionList />
}

function QuestionList () {
  const home = `/projects/${projectId.value}/questions`
  return (
    <ListScreen
      title='Questions' of={useList<Question>(questionsPath(), { search: searched() })} keyOf={({ id }) => id}
      none='There are no questions yet: ask one, and save it.' unfound='No question has this name.'
      tools={Object.entries(KINDS).map(([kind, [title, words]]) => <a key={kind} class='button' title={words} {...linkTo(`${home}/new/${kind}`)}>{may('query:write') ? 'New ' : ''}{title.toLowerCase()}</a>)}
      columns={[
        ['Name', ({ id, name }) => <a {...linkTo(`${home}/${id}`)}>{showText(name, 80)}</a>, 'wide'],
        ['Kind', ({ definition }) => KINDS[definition.kind][0]],
        ['Asks', ({ definition }) => showText(describeQuestion(withDefaults(definition)), 160), 'wide'],
        [`Changed (${zoneLabel()})`, ({ updated_at: at }) => <Time at={at} />]
      ]}
    />
  )
}
