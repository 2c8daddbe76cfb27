import t from 'tap'
import { takeMouse } from './hands.ts'
import { openProject } from './open-console.ts'
import { tellStory } from './tell-story.ts'

t.test('the whole story, by mouse', async (t) => {
  await tellStory(t, await openProject(t), takeMouse)
})
