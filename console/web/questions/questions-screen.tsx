import { showText, zoneLabel } from '../format.ts'
import { Paged, Search, useList } from '../paging.tsx'
import { linkTo, path, projectId, query } from '../router.ts'
import { may } from '../session.ts'
import { Empty, Table, Time } from '../states.tsx'
import { describeQuestion, type Kind, KINDS, newDefinition, type Question, withDefaults } from './question-definition.ts'
import { QuestionDetail, questionsPath, Workbench } from './question-detail.tsx'

const isKind = (text: string | undefined): text is Kind => text !== undefined && Object.hasOwn(KINDS, text)

/** The questions of a project, one of them (`/<id>`), and a new one (`/new/<kind>`). */
export function QuestionsScreen () {
  const [, , , id, kind] = path.value
  if (id === 'new') return <Workbench key={kind} stored={undefined} first={newDefinition(isKind(kind) ? kind : 'trend')} onSaved={() => {}} />
  if (id !== undefined) return <QuestionDetail key={id} id={id} />
  return <QuestionList />
}

function QuestionList () {
  const search = query.value.get('search') ?? ''
  const questions = useList<Question>(questionsPath(), { search })
  const empty = search === '' ? 'There are no questions yet: ask one, and save it.' : 'No question has this name.'
  return (
    <section>
      <h1>Questions</h1>
      <div class='toolbar'>
        {Object.entries(KINDS).map(([kind, [title, words]]) => <a key={kind} class='button' title={words} {...linkTo(`/projects/${projectId.value}/questions/new/${kind}`)}>{may('query:write') ? 'New ' : ''}{title.toLowerCase()}</a>)}
        <Search label='Search questions' />
      </div>
      <Paged of={questions} what='Questions' empty={<Empty><p>{empty}</p></Empty>}>
        {(results) => (
          <Table label='Questions' head={['Name', 'Kind', 'Asks', `Changed (${zoneLabel()})`]}>
            {results.map(({ id, name, definition, updated_at: at }) => (
              <tr key={id}>
                <td class='wide'><a {...linkTo(`/projects/${projectId.value}/questions/${id}`)}>{showText(name, 80)}</a></td>
                <td>{KINDS[definition.kind][0]}</td>
                <td class='wide'>{showText(describeQuestion(withDefaults(definition)), 160)}</td>
                <td><Time at={at} /></td>
              </tr>
            ))}
          </Table>
        )}
      </Paged>
    </section>
  )
}
