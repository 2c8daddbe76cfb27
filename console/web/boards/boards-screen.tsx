import { useState } from 'preact/hooks'
import type { Schema } from '../../api-types.ts'
import { showText, zoneLabel } from '../format.ts'
import { ListScreen, searched } from '../frame/lists.tsx'
import { useList } from '../paging.tsx'
import { linkTo, navigate, path, projectId } from '../router.ts'
import { may } from '../session.ts'
import { Time } from '../states.tsx'
import { BoardDetail, boardsPath, EditDialog } from './board-detail.tsx'

export function BoardsScreen () {
  const id = path.value[3]
  return id === undefined ? <BoardList /> : <BoardDetail key={id} id={id} />
}

function BoardList () {
  const [isNew, setNew] = useState(false)
  const home = `/projects/${projectId.value}/boards`
  return (
    <ListScreen
      title='Boards' hint='Questions and saved queries side by side, with links for people without a key.'
      of={useList<Schema<'Board'>>(boardsPath(), { search: searched() })}
      none='There are no boards yet.' unfound='No board has this name.' keyOf={({ id }) => id}
      tools={may('query:write') && <button type='button' class='primary' onClick={() => setNew(true)}>New board …</button>}
      columns={[
        ['Name', ({ id, name }) => <a {...linkTo(`${home}/${id}`)}>{showText(name, 80)}</a>, 'wide'],
        ['#Answers', ({ tiles }) => tiles.length],
        [`Changed (${zoneLabel()})`, ({ updated_at: at }) => <Time at={at} />]
      ]}
    >
      {isNew && <EditDialog onSaved={({ id }) => navigate(`${home}/${id}`)} onClose={() => setNew(false)} />}
    </ListScreen>
  )
}
