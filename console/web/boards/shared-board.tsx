import { useEffect, useState } from 'preact/hooks'
import type { Answer } from '../../api-types.ts'
import { request } from '../api-client.ts'
import { showText, zone } from '../format.ts'
import { useLoaded } from '../load.ts'
import { Again, Empty, Show } from '../states.tsx'
import { TileView } from './board-tile.tsx'

const PATH = '/api/shared_board'

/** A board for whoever has its link. The key is behind the #: browsers send it to no server and tell it to no page. */
export function SharedBoard () {
  const [key, setKey] = useState(() => location.hash.slice(1))
  useEffect(() => {
    const take = (): void => setKey(location.hash.slice(1))
    addEventListener('hashchange', take)
    return () => removeEventListener('hashchange', take)
  }, [])
  const board = useLoaded(`shared board ${key}`, async (signal) => {
    const found = await request<Answer<'/api/shared_board'>>(PATH, { signal, key })
    zone.value = found.timezone
    document.title = `${showText(found.name, 60)} · Millrace`
    return found
  })
  const [refreshed, setRefreshed] = useState(0)
  const refresh = (): void => {
    board.reload()
    setRefreshed(refreshed + 1)
  }
  return (
    <Show of={board} what='The board'>
      {({ name, description, tiles, timezone }) => (
        <>
          <h1>{showText(name, 120)}</h1>
          {description !== '' && <p class='hint'>{showText(description, 3000)}</p>}
          <p class='toolbar'><Again of={{ isLoading: board.isLoading, reload: refresh }}>Refresh</Again> <span class='hint'>Times in {timezone}. Answers are at most about a minute behind.</span></p>
          {tiles.length === 0 && <Empty>This board is empty.</Empty>}
          <div class='board'>{tiles.map((tile) => <TileView key={`${tile.kind} ${tile.id}`} source={{ path: PATH, key }} tile={tile} refreshed={refreshed} />)}</div>
        </>
      )}
    </Show>
  )
}
