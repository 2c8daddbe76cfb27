import { useState } from 'preact/hooks'
import type { Schema } from '../../api-types.ts'
import { formatCount, showText, zoneLabel } from '../format.ts'
import { Paged, Search, useList } from '../paging.tsx'
import { linkTo, navigate, path, projectId, query } from '../router.ts'
import { may } from '../session.ts'
import { Empty, Table, Time } from '../states.tsx'
import { BoardDetail, boardsPath, EditDialog } from './board-detail.tsx'

/** The boards of a project, and one of them (`/<id>`). */
export function BoardsScreen () {
  const id = path.value[3]
  return id === undefined ? <BoardList /> : <BoardDetail key={id} id={id} />
}

function BoardList () {
  const [isNew, setNew] = useState(false)
  const search = query.value.get('search') ?? ''
  const boards = useList<Schema<'Board'>>(boardsPath(), { search })
  return (
    <section>
      <h1>Boards</h1>
      <p class='hint'>Questions and saved queries side by side, with links for people without a key.</p>
      <div class='toolbar'>
        {may('query:write') && <button type='button' class='primary' onClick={() => setNew(true)}>New board …</button>}
        <Search label='Search boards' />
      </div>
      <Paged of={boards} what='Boards' empty={<Empty><p>{search === '' ? 'There are no boards yet.' : 'No board has this name.'}</p></Empty>}>
        {(results) => (
          <Table label='Boards' head={['Name', '#Answers', `Changed (${zoneLabel()})`]}>
            {results.map(({ id, name, tiles, updated_at: at }) => (
              <tr key={id}>
                <td class='wide'><a {...linkTo(`/projects/${projectId.value}/boards/${id}`)}>{showText(name, 80)}</a></td>
                <td class='number'>{formatCount(tiles.length)}</td>
                <td><Time at={at} /></td>
              </tr>
            ))}
          </Table>
        )}
      </Paged>
      {isNew && <EditDialog onSaved={({ id }) => navigate(`/projects/${projectId.value}/boards/${id}`)} onClose={() => setNew(false)} />}
    </section>
  )
}
